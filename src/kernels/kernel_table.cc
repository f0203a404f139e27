#include "kernels/kernel_table.h"

#include <fmt/ranges.h>

#include <array>
#include <vector>

#include "kernels/portable/portable.h"

#if defined(__x86_64__)
#include "kernels/x86/amx.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/avx512bf16.h"
#include "kernels/x86/avx512vbmi.h"
#include "kernels/x86/avxvnni.h"
#elif defined(__aarch64__)
#include "kernels/arm/dotprod.h"
#include "kernels/arm/i8mm.h"
#include "kernels/arm/neon.h"
#endif

namespace thaw {
namespace {

constexpr KernelTable kPortable = {
    .name = "portable",
    .is_available = [](const CpuFeatures&) { return true; },
    .packs_rows = false,
    .quantize_activations = portable::QuantizeActivations,
    .matmul = portable::MatMul,
    .rms_norm = portable::RmsNorm,
    .layer_norm = portable::LayerNorm,
    .activate = portable::Activate,
    .soft_cap = portable::SoftCap,
    .add = portable::Add,
    .rope = portable::Rope,
    .step_state = portable::StepState,
    .store_kv = portable::StoreKv,
    .attend_span = portable::AttendSpan,
};

template <const PanelKernels& kernels>
void MatMul(const WeightRows& weights, int64_t row_begin, int64_t row_end,
            const Activations& activations, float* out, int64_t out_stride, std::byte* scratch) {
  MatMulByPanels(kernels, weights, row_begin, row_end, activations, out, out_stride, scratch);
}

#if defined(__x86_64__)

constexpr PanelKernels kAvx2Panels = {
    .multiply_panel = avx2::MultiplyPanel,
    .multiply_floats = avx2::MultiplyFloats,
    .multiply_packed = avx2::MultiplyPacked,
};

constexpr PanelKernels kAvxVnniPanels = kAvx2Panels.With(avxvnni::MultiplyPacked);
constexpr PanelKernels kAvx512Panels = kAvx2Panels.With(avx512::MultiplyPacked);
constexpr PanelKernels kAvx512VbmiPanels = kAvx512Panels.With(avx512vbmi::MultiplyPacked);
constexpr PanelKernels kAvx512Bf16Panels = kAvx512Panels.With(avx512bf16::MultiplyPacked);
constexpr PanelKernels kAmxPanels = kAvx512Panels.With(amx::MultiplyPacked);

constexpr KernelTable kAvx2 = {
    .name = "avx2",
    .is_available = [](const CpuFeatures& cpu) { return cpu.avx2 && cpu.fma && cpu.f16c; },
    .packs_rows = true,
    .halves = KvType::kI16,
    .quantize_activations = avx2::QuantizeActivations,
    .matmul = MatMul<kAvx2Panels>,
    .rms_norm = avx2::RmsNorm,
    .layer_norm = avx2::LayerNorm,
    .activate = avx2::Activate,
    .soft_cap = avx2::SoftCap,
    .add = avx2::Add,
    .rope = avx2::Rope,
    .step_state = avx2::StepState,
    .store_kv = avx2::StoreKv,
    .attend_span = avx2::AttendSpan,
};

constexpr KernelTable kAvxVnni = [] {
  KernelTable table = kAvx2;
  table.name = "avxvnni";
  table.matmul = MatMul<kAvxVnniPanels>;
  table.is_available = [](const CpuFeatures& cpu) {
    return kAvx2.is_available(cpu) && cpu.avxvnni;
  };
  return table;
}();

constexpr KernelTable kAvx512 = [] {
  KernelTable table = kAvx2;
  table.name = "avx512";
  table.matmul = MatMul<kAvx512Panels>;
  table.copy_for_f16 = ActivationCopy::kShorts;
  table.quantize_activations = avx512::QuantizeActivations;
  table.multiply_coded_group = avx512::MultiplyCodedGroup;
  table.rms_norm = avx512::RmsNorm;
  table.layer_norm = avx512::LayerNorm;
  table.activate = avx512::Activate;
  table.soft_cap = avx512::SoftCap;
  table.add = avx512::Add;
  table.rope = avx512::Rope;
  table.step_state = avx512::StepState;
  table.attend_span = avx512::AttendSpan;
  table.is_available = [](const CpuFeatures& cpu) {
    return kAvx2.is_available(cpu) && cpu.avx512f && cpu.avx512bw && cpu.avx512vl && cpu.avx512vnni;
  };
  return table;
}();

constexpr KernelTable kAvx512Vbmi = [] {
  KernelTable table = kAvx512;
  table.name = "avx512vbmi";
  table.matmul = MatMul<kAvx512VbmiPanels>;
  table.is_available = [](const CpuFeatures& cpu) {
    return kAvx512.is_available(cpu) && cpu.avx512vbmi;
  };
  return table;
}();

constexpr KernelTable kAvx512Bf16 = [] {
  KernelTable table = kAvx512Vbmi;
  table.name = "avx512bf16";
  table.copy_for_bf16 = ActivationCopy::kRounded;
  table.matmul = MatMul<kAvx512Bf16Panels>;
  table.multiply_coded_group = avx512bf16::MultiplyCodedGroup;
  // Intel's CPUs make two products of floats and two moves of each instruction (0020).
  table.is_available = [](const CpuFeatures& cpu) {
    return kAvx512Vbmi.is_available(cpu) && cpu.avx512bf16 && !cpu.is_intel;
  };
  return table;
}();

constexpr KernelTable kAmx = [] {
  KernelTable table = kAvx512Vbmi;
  table.name = "amx";
  table.copy_for_bf16 = ActivationCopy::kRounded;
  table.copy_for_f16 = ActivationCopy::kSplit;
  table.matmul = MatMul<kAmxPanels>;
  table.multiply_coded_group = amx::MultiplyCodedGroup;
  table.is_available = [](const CpuFeatures& cpu) {
    return kAvx512Vbmi.is_available(cpu) && cpu.amx_int8 && cpu.amx_bf16;
  };
  return table;
}();

constexpr std::array<const KernelTable*, 7> kTables = {
    &kAmx, &kAvx512Bf16, &kAvx512Vbmi, &kAvx512, &kAvxVnni, &kAvx2, &kPortable};

#elif defined(__aarch64__)

constexpr PanelKernels kDotProdPanels = {
    .multiply_panel = dotprod::MultiplyPanel,
    .multiply_floats = neon::MultiplyFloats,
    .multiply_packed = dotprod::MultiplyPacked,
};

constexpr PanelKernels kI8mmPanels = kDotProdPanels.With(i8mm::MultiplyPacked);

constexpr KernelTable kDotProd = {
    .name = "dotprod",
    .is_available = [](const CpuFeatures& cpu) { return cpu.asimddp; },
    .packs_rows = true,
    .quantize_activations = neon::QuantizeActivations,
    .matmul = MatMul<kDotProdPanels>,
    .rms_norm = neon::RmsNorm,
    .layer_norm = neon::LayerNorm,
    .activate = neon::Activate,
    .soft_cap = neon::SoftCap,
    .add = neon::Add,
    .rope = neon::Rope,
    .step_state = neon::StepState,
    .store_kv = neon::StoreKv,
    .attend_span = neon::AttendSpan,
};

constexpr KernelTable kI8mm = [] {
  KernelTable table = kDotProd;
  table.name = "i8mm";
  table.matmul = MatMul<kI8mmPanels>;
  table.is_available = [](const CpuFeatures& cpu) {
    return kDotProd.is_available(cpu) && cpu.i8mm;
  };
  return table;
}();

constexpr std::array<const KernelTable*, 3> kTables = {&kI8mm, &kDotProd, &kPortable};

#else

constexpr std::array<const KernelTable*, 1> kTables = {&kPortable};

#endif

}  // namespace

ActivationCopy FastestCopy(const KernelTable& table, ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return ActivationCopy::kNone;
    case ElementType::kF16:
      return table.copy_for_f16;
    case ElementType::kBF16:
      return table.copy_for_bf16;
    case ElementType::kQ2_K:
    case ElementType::kQ3_K:
    case ElementType::kQ4_K:
    case ElementType::kQ5_K:
    case ElementType::kQ6_K:
      return ActivationCopy::kWide;
    default:
      return ActivationCopy::kNarrow;
  }
}

std::span<const KernelTable* const> AllKernelTables() { return kTables; }

Result<const KernelTable*> SelectKernels(std::string_view name) {
  return SelectKernels(kTables, name);
}

Result<const KernelTable*> SelectKernels(std::span<const KernelTable* const> tables,
                                         std::string_view name) {
  std::vector<std::string_view> available;
  for (const KernelTable* table : tables) {
    if (!table->is_available(HostCpu())) continue;
    if (name.empty() || name == table->name) return table;
    available.emplace_back(table->name);
  }
  return Fail(ErrorCode::kInvalidArgument,
              "kernels \"{}\": this CPU and this build have none of that name, only {}", name,
              fmt::join(available, ", "));
}

}  // namespace thaw
