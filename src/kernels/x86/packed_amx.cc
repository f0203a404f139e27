// Products of packed rows by tiles of AMX, of quantized ones the same bits as those in AVX-512. See
// avx2.h for what may be called here.
#include "kernels/x86/amx.h"
#include "kernels/x86/avx512vbmi.h"
#include "kernels/x86/float_tiles.h"
#include "kernels/x86/lanes_avx512vbmi.h"
#include "kernels/x86/packed_tiles.h"
#include "kernels/x86/tiles_amx.h"

namespace thaw::amx {

void MultiplyPacked(ElementType type, const std::byte* groups, int64_t n_groups,
                    const Activations& activations, float* out, int64_t out_stride,
                    std::byte* scratch) {
  if (IsMultipliedInTileOrder(type, activations)) {
    return MultiplyFloatsInTileOrder<VbmiLanes16, AmxTiles>(type, groups, n_groups, activations,
                                                            out, out_stride, scratch);
  }
  if (!IsMultipliedByTiles(type, activations)) {
    avx512vbmi::MultiplyPacked(type, groups, n_groups, activations, out, out_stride, scratch);
    return;
  }
  MultiplyPackedByTiles<VbmiLanes16, AmxTiles>(type, groups, n_groups, activations, out, out_stride,
                                               scratch);
}

}  // namespace thaw::amx
