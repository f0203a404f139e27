#include "kernels/x86/emulated_tables.h"

#include <array>
#include <string_view>

#include "base/check.h"
#include "kernels/x86/amx.h"
#include "kernels/x86/avx2.h"

namespace thaw {
namespace {

constexpr PanelKernels Panels(decltype(PanelKernels::multiply_packed) multiply_packed) {
  return {.multiply_panel = avx2::MultiplyPanel,
          .multiply_floats = avx2::MultiplyFloats,
          .multiply_packed = multiply_packed};
}

constexpr PanelKernels kAmxAvx512Panels = Panels(emulated_amx::MultiplyPackedAvx512);
constexpr PanelKernels kAmxAvx2Panels = Panels(emulated_amx::MultiplyPackedAvx2);
constexpr PanelKernels kBf16Panels = Panels(emulated_bf16::MultiplyPacked);
constexpr PanelKernels kAvxVnniPanels = Panels(emulated_avxvnni::MultiplyPacked);

template <const PanelKernels& kernels>
void MatMul(const WeightRows& weights, int64_t row_begin, int64_t row_end,
            const Activations& activations, float* out, int64_t out_stride, std::byte* scratch) {
  MatMulByPanels(kernels, weights, row_begin, row_end, activations, out, out_stride, scratch);
}

EmulatedTable Derive(std::string_view original, const char* name,
                     decltype(KernelTable::matmul) matmul) {
  for (const KernelTable* table : AllKernelTables()) {
    if (table->name != original) continue;
    EmulatedTable emulated{*table, table};
    emulated.table.name = name;
    emulated.table.matmul = matmul;
    return emulated;
  }
  THAW_CHECK(!"a table of that name");
  return {};
}

EmulatedTable DeriveBf16() {
  EmulatedTable emulated = Derive("avx2", "emulated_bf16", MatMul<kBf16Panels>);
  emulated.table.copy_for_bf16 = ActivationCopy::kRounded;
  return emulated;
}

EmulatedTable DeriveAmx(std::string_view original, const char* name,
                        decltype(KernelTable::matmul) matmul) {
  EmulatedTable emulated = Derive(original, name, matmul);
  emulated.table.copy_for_bf16 = ActivationCopy::kRounded;
  emulated.table.copy_for_f16 = ActivationCopy::kSplit;
  // Not emulated: it takes no tiles.
  if (original == "avx512") emulated.table.multiply_coded_group = amx::MultiplyCodedGroup;
  return emulated;
}

}  // namespace

int64_t emulated_tile_products = 0;

std::span<const EmulatedTable> EmulatedTables() {
  static const std::array<EmulatedTable, 4> tables = {
      DeriveAmx("avx512", "emulated_amx_avx512", MatMul<kAmxAvx512Panels>),
      DeriveAmx("avx2", "emulated_amx_avx2", MatMul<kAmxAvx2Panels>), DeriveBf16(),
      Derive("avx2", "emulated_avxvnni", MatMul<kAvxVnniPanels>)};
  return tables;
}

std::span<const EmulatedTable> EmulatedAmxTables() { return EmulatedTables().first(2); }

}  // namespace thaw
