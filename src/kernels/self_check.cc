#include "kernels/self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/log.h"
#include "kernels/check_data.h"
#include "kernels/dequantize.h"
#include "kernels/portable/portable.h"
#include "tensor/finite_rows.h"
#include "tensor/half.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Two groups of packed rows and a rest; two of the largest blocks; a few more tokens than any
// kernel takes without changing its way (tiles of AMX take 16, panels more than 32), and a batch
// with a rest.
constexpr int64_t kRows = 2 * kPackedGroupRows + 3;
constexpr int64_t kLength = 512;
constexpr int64_t kTokens = 37;
constexpr int64_t kFewTokens = 11;

// Of what the terms of a sum come to: far above rounding, far below a wrong quant.
constexpr double kTolerance = 1e-4;
// The same of attention, which may round queries and keys to 16 bits and then takes exponentials.
constexpr double kAttentionTolerance = 1e-3;

// A row of any bytes whose weights are numbers, and where they are plain ones or the scales are
// bytes, of moderate size.
void FillRow(ElementType type, CheckNumbers& numbers, std::span<std::byte> row) {
  const auto block_bytes = static_cast<size_t>(Info(type).block_bytes);
  const auto sign = std::byte{0x80};
  do {
    for (std::byte& byte : row) byte = static_cast<std::byte>(numbers.Next() >> 24);
    for (size_t at = 0; at < row.size(); at += block_bytes) {
      std::byte& last = row[at + block_bytes - 1];
      if (type == ElementType::kF32 || type == ElementType::kBF16)
        last = (last & sign) | std::byte{0x3f};
      if (type == ElementType::kF16) last = (last & sign) | std::byte{0x38};
      if (type == ElementType::kMXFP4) row[at] = (row[at] & std::byte{0x0f}) | std::byte{0x70};
    }
  } while (FindRowNotFinite(type, kLength, 1, row.data()));
}

class Checker {
 public:
  explicit Checker(const KernelTable& table) : table_(table) {}

  std::optional<std::string> Run(std::span<const ElementType> types) {
    CheckVectors();
    CheckRecurrence();
    CheckAttention();
    std::vector<ElementType> done;
    for (const ElementType type : types) {
      if (!CanMultiply(type) || std::ranges::find(done, type) != done.end()) continue;
      done.push_back(type);
      CheckMatMul(type);
    }
    return disagreement_;
  }

 private:
  void Expect(const std::string& what, double found, double expected, double most) {
    if (disagreement_ || std::abs(found - expected) <= most) return;
    disagreement_ = fmt::format("{}: {} instead of {}", what, found, expected);
  }

  void ExpectAll(const std::string& what, std::span<const float> found,
                 std::span<const float> expected, double tolerance = kTolerance) {
    float largest = 0;
    for (const float e : expected) largest = std::max(largest, std::abs(e));
    for (size_t i = 0; i < found.size(); ++i) {
      Expect(what, double{found[i]}, double{expected[i]}, tolerance * double{largest});
    }
  }

  void CheckVectors() {
    constexpr int64_t kN = 77;  // no multiple of any vector
    const std::vector<float> a = numbers_.Floats(kN);
    const std::vector<float> b = numbers_.Floats(kN);
    std::vector<float> found(kN);
    std::vector<float> expected(kN);
    table_.rms_norm(a.data(), b.data(), kN, 1e-5f, found.data());
    portable::RmsNorm(a.data(), b.data(), kN, 1e-5f, expected.data());
    ExpectAll("rms_norm", found, expected);
    table_.layer_norm(a.data(), b.data(), a.data(), kN, 1e-5f, found.data());
    portable::LayerNorm(a.data(), b.data(), a.data(), kN, 1e-5f, expected.data());
    ExpectAll("layer_norm", found, expected);
    for (const Nonlinearity f : kAllNonlinearities) {
      const Activation by = {f, 0.25f, 0.75f, 0.5f, 0.3f, -0.125f};
      table_.activate(by, a.data(), b.data(), kN, found.data());
      portable::Activate(by, a.data(), b.data(), kN, expected.data());
      ExpectAll("activate", found, expected);
    }
    found = a;
    expected = a;
    table_.soft_cap(found.data(), kN, 0.5f);
    portable::SoftCap(expected.data(), kN, 0.5f);
    ExpectAll("soft_cap", found, expected);
    table_.add(a.data(), b.data(), kN, found.data());
    portable::Add(a.data(), b.data(), kN, expected.data());
    ExpectAll("add", found, expected);
    for (const RopePairing pairing : {RopePairing::kAdjacent, RopePairing::kHalves}) {
      found = a;
      expected = a;
      table_.rope(found.data(), 2, 38, b.data(), 38, pairing);
      portable::Rope(expected.data(), 2, 38, b.data(), 38, pairing);
      ExpectAll("rope", found, expected);
    }
  }

  // A state whose columns fill vectors in all ways, with a probe and with a factor for each number.
  void CheckRecurrence() {
    constexpr int64_t kKeys = 5;
    constexpr int64_t kValues = 45;
    const std::vector<float> state = numbers_.Floats(kKeys * kValues);
    const std::vector<float> factors = numbers_.Floats(kKeys * kValues);
    const std::vector<float> keys = numbers_.Floats(5 * kKeys);
    const std::vector<float> values = numbers_.Floats(kValues);
    for (const bool has_probe : {false, true}) {
      const auto step = [&](const KernelTable& table) {
        std::vector<float> found(state.size() + kValues);
        table.step_state({.before = state.data(),
                          .after = found.data(),
                          .keys = kKeys,
                          .values = kValues,
                          .stride = kValues,
                          .decay = factors.data(),
                          .decay_stride = has_probe ? 0 : kValues,
                          .key = keys.data(),
                          .value = values.data(),
                          .query = keys.data() + kKeys,
                          .probe = has_probe ? keys.data() + 2 * kKeys : nullptr,
                          .correction = keys.data() + 3 * kKeys,
                          .out = found.data() + state.size()});
        return found;
      };
      ExpectAll("step_state", step(table_), step(*AllKernelTables().back()));
    }
  }

  // One tile of tokens that ends within a block of positions.
  void CheckAttention() {
    constexpr int64_t kHeadDim = 64;
    constexpr int64_t kGroup = 3;
    constexpr int64_t kPositions = 2 * kAttentionBlock + 5;
    constexpr int64_t kQueries = 4;
    const std::vector<float> q = numbers_.Floats(kQueries * kGroup * kHeadDim);
    const std::vector<float> slopes = {0.5f, 0.0625f, 0};
    for (const KvType type : kAllKvTypes) {
      AlignedBuffer keys = AllocateForCheck(KeyBytes(type, kHeadDim, kPositions));
      AlignedBuffer values = AllocateForCheck(ValueBytes(type, kHeadDim, kPositions));
      std::ranges::fill(keys.bytes(), std::byte{0});
      std::ranges::fill(values.bytes(), std::byte{0});
      for (int64_t position = 0; position < kPositions; ++position) {
        const std::vector<float> row = numbers_.Floats(kHeadDim);
        StoreKey(table_, row.data(), kHeadDim, type, position, keys.data());
        StoreValue(table_, row.data(), kHeadDim, type, position, values.data());
      }
      const auto attend = [&](const KernelTable& table) {
        std::vector<float> out(q.size());
        AlignedBuffer scratch = AllocateForCheck(AttentionScratchBytes(kGroup, kHeadDim, kHeadDim));
        Attend(table,
               {.q = q.data(),
                .q_stride = kGroup * kHeadDim,
                .n_tokens = kQueries,
                .first_position = kPositions - kQueries,
                .group = kGroup,
                .head_dim = kHeadDim,
                .v_head_dim = kHeadDim,
                .kv_type = type,
                .k = keys.data(),
                .v = values.data(),
                .scale = 1,
                .slopes = slopes.data(),
                .out = out.data(),
                .out_stride = kGroup * kHeadDim},
               scratch.data());
        return out;
      };
      ExpectAll(fmt::format("attention over {}", KvTypeName(type)), attend(table_),
                attend(*AllKernelTables().back()), kAttentionTolerance);
    }
  }

  void CheckMatMul(ElementType type) {
    const auto row_bytes = static_cast<size_t>(RowBytes(type, kLength));
    AlignedBuffer rows = AllocateForCheck(kRows * static_cast<int64_t>(row_bytes));
    for (size_t row = 0; row < kRows; ++row) {
      FillRow(type, numbers_, rows.bytes().subspan(row * row_bytes, row_bytes));
    }
    std::vector<float> weights(kRows * kLength);
    THAW_CHECK(Dequantize(type, rows.bytes(), weights));
    std::vector<WeightRows> forms = {{type, rows.data(), kRows, kLength}};
    AlignedBuffer packed;
    if (table_.packs_rows && CanPackRows(type, kLength)) {
      packed = AllocateForCheck(kRows * static_cast<int64_t>(row_bytes));
      AlignedBuffer scratch = AllocateForCheck(PackScratchBytes(type, kLength));
      PackRows(type, kLength, kRows, rows.data(), packed.data(), scratch.data());
      forms.push_back({type, packed.data(), kRows, kLength, /*is_packed=*/true});
    }
    std::vector<float> values = numbers_.Floats(kTokens * kLength);
    for (size_t i = 5; i < values.size(); i += 331) values[i] *= 40;  // outliers
    const ActivationCopy fastest = FastestCopy(table_, type);
    if (fastest != ActivationCopy::kNarrow && fastest != ActivationCopy::kNone) {
      CheckProducts(forms, weights, values, ActivationCopy::kNarrow);
    }
    // Of numbers that rounding leaves as they are.
    if (fastest == ActivationCopy::kRounded) {
      for (float& value : values) value = BF16ToF32(F32ToBF16(value));
    }
    CheckProducts(forms, weights, values, fastest);
  }

  // With many tokens and, of packed rows, with a few and with one.
  void CheckProducts(std::span<const WeightRows> forms, std::span<const float> weights,
                     std::span<const float> values, ActivationCopy copy) {
    const ElementTypeInfo& info = Info(forms[0].type);
    AlignedBuffer memory = AllocateForCheck(ActivationBytes(kTokens, kLength));
    AlignedBuffer reference = AllocateForCheck(ActivationBytes(kTokens, kLength));
    const auto view = [&](AlignedBuffer& of, int64_t n_tokens) {
      return ViewActivations(values.data(), n_tokens, kLength, of.data(), copy);
    };
    const Activations expected = view(reference, kTokens);
    portable::QuantizeActivations(expected, 0, kTokens);
    const Sums sums = SumsOf(weights, SeenBy(info, expected));
    for (const int64_t n_tokens : {kTokens, kFewTokens, int64_t{1}}) {
      const Activations activations = view(memory, n_tokens);
      table_.quantize_activations(activations, 0, n_tokens);
      for (const WeightRows& rows : forms) {
        if (n_tokens != kTokens && !rows.is_packed) continue;
        Compare(fmt::format("matmul of {}{}, tokens: {}", info.name,
                            rows.is_packed ? ", packed" : "", n_tokens),
                rows, activations, sums);
      }
    }
  }

  // The numbers that weights of a type are multiplied with.
  static std::vector<double> SeenBy(const ElementTypeInfo& info, const Activations& a) {
    std::vector<double> seen(static_cast<size_t>(a.n_tokens * a.k));
    for (int64_t i = 0; i < a.n_tokens * a.k; ++i) {
      seen[static_cast<size_t>(i)] = info.is_quantized
                                         ? double{ScaleOf(a, i / a.k, i % a.k)} *
                                               a.quants[i / a.k * QuantStride(a.k) + i % a.k]
                                         : double{a.values[i]};
    }
    if (!info.is_quantized) return seen;
    for (int64_t token = 0; token < a.n_tokens; ++token) {
      for (int32_t i = 0; i < OutlierCount(a, token); ++i) {
        const Outlier& outlier = a.outliers[token * MaxOutliers(a.k) + i];
        seen[static_cast<size_t>(token * a.k + outlier.index)] = double{outlier.value};
      }
    }
    return seen;
  }

  // What products should be, and the magnitudes of their terms added up: [kTokens, kRows].
  struct Sums {
    std::vector<double> expected;
    std::vector<double> magnitudes;
  };

  static Sums SumsOf(std::span<const float> weights, std::span<const double> seen) {
    Sums sums;
    for (size_t at = 0; at < kTokens * kRows; ++at) {
      const std::span row = weights.subspan(at % kRows * kLength, kLength);
      const std::span token = seen.subspan(at / kRows * kLength, kLength);
      double expected = 0;
      double magnitude = 0;
      for (size_t i = 0; i < row.size(); ++i) {
        const double product = double{row[i]} * token[i];
        expected += product;
        magnitude += std::abs(product);
      }
      sums.expected.push_back(expected);
      sums.magnitudes.push_back(magnitude);
    }
    return sums;
  }

  void Compare(const std::string& what, const WeightRows& rows, const Activations& activations,
               const Sums& sums) {
    std::vector<float> out(static_cast<size_t>(activations.n_tokens * kRows));
    AlignedBuffer scratch = AllocateForCheck(MatMulScratchBytes(kLength));
    table_.matmul(rows, 0, kRows, activations, out.data(), kRows, scratch.data());
    for (size_t at = 0; at < out.size(); ++at) {
      Expect(what, double{out[at]}, sums.expected[at], kTolerance * sums.magnitudes[at]);
    }
  }

  const KernelTable& table_;
  CheckNumbers numbers_;
  std::optional<std::string> disagreement_;  // the first
};

bool AgreesOrWarns(const KernelTable& table, std::span<const ElementType> types) {
  const auto disagreement = FindDisagreement(table, types);
  if (!disagreement) return true;
  LogWarning("the kernels \"{}\" compute something wrong on this machine, others are taken: {}",
             table.name, *disagreement);
  return false;
}

}  // namespace

std::optional<std::string> FindDisagreement(const KernelTable& table,
                                            std::span<const ElementType> types) {
  return Checker(table).Run(types);
}

Result<const KernelTable*> SelectCheckedKernels(std::string_view name,
                                                std::span<const ElementType> types) {
  return SelectCheckedKernels(AllKernelTables(), name, types);
}

Result<const KernelTable*> SelectCheckedKernels(std::span<const KernelTable* const> tables,
                                                std::string_view name,
                                                std::span<const ElementType> types) {
  THAW_ASSIGN(const KernelTable* wanted, SelectKernels(tables, name));
  if (!name.empty()) {
    const auto disagreement = FindDisagreement(*wanted, types);
    if (!disagreement) return wanted;
    return Fail(ErrorCode::kUnsupported,
                "kernels \"{}\" compute something wrong on this machine: {}", name, *disagreement);
  }
  for (const KernelTable* table : tables) {
    if (table->is_available(HostCpu()) && AgreesOrWarns(*table, types)) return table;
  }
  return Fail(ErrorCode::kUnsupported, "no kernels compute what they should on this machine");
}

}  // namespace thaw
