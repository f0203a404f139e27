// See avx2.h for what may be called here.
#include "kernels/x86/avx512.h"
#include "kernels/x86/emulated_tables.h"
#include "kernels/x86/emulated_tiles.h"
#include "kernels/x86/float_tiles.h"
#include "kernels/x86/lanes_avx512.h"
#include "kernels/x86/packed_tiles.h"

namespace thaw::emulated_amx {

void MultiplyPackedAvx512(ElementType type, const std::byte* groups, int64_t n_groups,
                          const Activations& activations, float* out, int64_t out_stride,
                          std::byte* scratch) {
  if (IsMultipliedInTileOrder(type, activations)) {
    return MultiplyFloatsInTileOrder<Lanes16, EmulatedTiles>(type, groups, n_groups, activations,
                                                             out, out_stride, scratch);
  }
  if (!IsMultipliedByTiles(type, activations)) {
    avx512::MultiplyPacked(type, groups, n_groups, activations, out, out_stride, scratch);
    return;
  }
  MultiplyPackedByTiles<Lanes16, EmulatedTiles>(type, groups, n_groups, activations, out,
                                                out_stride, scratch);
}

}  // namespace thaw::emulated_amx
