#include "kernels/x86/emulated_amx.h"

#include <array>
#include <string_view>

#include "base/check.h"
#include "kernels/x86/avx2.h"

namespace thaw {
namespace {

constexpr PanelKernels Panels(decltype(PanelKernels::multiply_packed) multiply_packed) {
  return {.multiply_panel = avx2::MultiplyPanel,
          .multiply_floats = avx2::MultiplyFloats,
          .multiply_packed = multiply_packed};
}

constexpr PanelKernels kAvx512Panels = Panels(emulated_amx::MultiplyPackedAvx512);
constexpr PanelKernels kAvx2Panels = Panels(emulated_amx::MultiplyPackedAvx2);

template <const PanelKernels& kernels>
void MatMul(const WeightRows& weights, int64_t row_begin, int64_t row_end,
            const Activations& activations, float* out, int64_t out_stride, std::byte* scratch) {
  MatMulByPanels(kernels, weights, row_begin, row_end, activations, out, out_stride, scratch);
}

EmulatedAmxTable Derive(std::string_view original, const char* name,
                        decltype(KernelTable::matmul) matmul) {
  for (const KernelTable* table : AllKernelTables()) {
    if (table->name != original) continue;
    EmulatedAmxTable emulated{*table, table};
    emulated.table.name = name;
    emulated.table.matmul = matmul;
    return emulated;
  }
  THAW_CHECK(!"a table of that name");
  return {};
}

}  // namespace

int64_t emulated_tile_products = 0;

std::span<const EmulatedAmxTable> EmulatedAmxTables() {
  static const std::array<EmulatedAmxTable, 2> tables = {
      Derive("avx512", "emulated_amx_avx512", MatMul<kAvx512Panels>),
      Derive("avx2", "emulated_amx_avx2", MatMul<kAvx2Panels>)};
  return tables;
}

}  // namespace thaw
