#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/dequantize.h"
#include "kernels/kernel_test_support.h"
#include "kernels/unpack.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/packed_rows.h"
#include "tensor/thawed_grids.h"

namespace thaw {
namespace {

class MatMulKernels : public EachKernelTable {};

// Rounding of float sums, relative to the sum of the magnitudes of what is added up: a thousand
// additions of 2^-24 each that mostly cancel.
constexpr double kQuantizedTolerance = 3e-6;
constexpr double kFloatTolerance = 3e-6;
// The lower parts of weights and activations, 2^-7 and 2^-9 of them, are not multiplied.
constexpr double kSplitTolerance = 0x1p-16 + kFloatTolerance;

// A matrix of random rows, somewhere in memory that is aligned to nothing.
class Matrix {
 public:
  Matrix(ElementType type, int64_t n_rows, int64_t k, std::mt19937& random)
      : Matrix(type, n_rows, k, RandomRows(type, n_rows * k, random)) {}

  Matrix(ElementType type, int64_t n_rows, int64_t k, const std::vector<std::byte>& bytes)
      : memory_(static_cast<int64_t>(bytes.size()), /*misalignment=*/1),
        values_(static_cast<size_t>(n_rows * k)),
        rows_{type, memory_.data(), n_rows, k} {
    std::memcpy(memory_.data(), bytes.data(), bytes.size());
    EXPECT_TRUE(Dequantize(type, bytes, values_));
    if (!CanPackRows(type, k)) return;
    packed_.resize(bytes.size());
    std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(type, k)));
    PackRows(type, k, n_rows, bytes.data(), packed_.data(), scratch.data());
  }

  const WeightRows& rows() const { return rows_; }

  // The matrix in every form that the table multiplies.
  std::vector<WeightRows> Forms(const KernelTable& table) const {
    std::vector<WeightRows> forms = {rows_};
    if (table.packs_rows && !packed_.empty()) {
      forms.push_back({rows_.type, packed_.data(), rows_.n_rows, rows_.k, /*is_packed=*/true});
    }
    return forms;
  }
  double Value(int64_t row, int64_t i) const {
    return values_[static_cast<size_t>(row * rows_.k + i)];
  }

  // The largest magnitude that element i can be a sum of: |scale * quant| + |offset|.
  std::vector<double> Magnitudes(int64_t row) const {
    const auto k = static_cast<size_t>(rows_.k);
    std::vector<double> magnitudes(k);
    const RowUnpacker* unpacker = FindRowUnpacker(rows_.type);
    if (unpacker == nullptr) {
      for (size_t i = 0; i < k; ++i) magnitudes[i] = std::abs(Value(row, static_cast<int64_t>(i)));
      return magnitudes;
    }
    std::vector<int8_t> quants(k);
    std::vector<float> scales(k / kUnpackGroup);
    std::vector<float> offsets(k / kUnpackGroup);
    unpacker->unpack(rows_.data + row * RowBytes(rows_.type, rows_.k), rows_.k, quants.data(),
                     scales.data(), offsets.data());
    for (size_t i = 0; i < k; ++i) {
      const size_t group = i / kUnpackGroup;
      magnitudes[i] =
          std::abs(double{scales[group]} * quants[i]) + std::abs(double{offsets[group]});
    }
    return magnitudes;
  }

 private:
  ScratchMemory memory_;
  std::vector<std::byte> packed_;
  std::vector<float> values_;
  WeightRows rows_;
};

std::vector<float> MatMul(const KernelTable& table, const WeightRows& weights, int64_t row_begin,
                          int64_t row_end, const Activations& activations) {
  std::vector<float> out(static_cast<size_t>(activations.n_tokens * weights.n_rows), -1.0f);
  ScratchMemory scratch(MatMulScratchBytes(weights.k));
  table.matmul(weights, row_begin, row_end, activations, out.data(), weights.n_rows,
               scratch.data());
  return out;
}

std::vector<float> MatMul(const KernelTable& table, const WeightRows& weights,
                          const Activations& activations) {
  return MatMul(table, weights, 0, weights.n_rows, activations);
}

// What weights of a type are multiplied with: [n_tokens, k], for quantized types the quantized
// activations.
std::vector<double> SeenBy(ElementType type, const OwnedActivations& activations) {
  const Activations& view = activations.view();
  std::vector<double> seen;
  seen.reserve(static_cast<size_t>(view.n_tokens * view.k));
  for (int64_t token = 0; token < view.n_tokens; ++token) {
    for (int64_t i = 0; i < view.k; ++i) {
      seen.push_back(Info(type).is_quantized ? activations.Quantized(token, i)
                                             : double{view.values[token * view.k + i]});
    }
  }
  return seen;
}

// As a number of a rounded copy.
double Rounded(double value) { return double{BF16ToF32(F32ToBF16(static_cast<float>(value)))}; }

// What the copy of shorts stands for.
std::vector<double> ValuesOfShorts(const Activations& a) {
  std::vector<double> values;
  for (int64_t token = 0; token < a.n_tokens; ++token) {
    for (int64_t i = 0; i < a.k; ++i) {
      values.push_back(double{ScaleOf(a, token, i)} * a.shorts[token * RoundedStride(a.k) + i]);
    }
  }
  return values;
}

// Rounds a row of F16 as products with shorts do: of each 64, the largest decides on the power of
// two that all are multiples of, 2^-14 times the one above it, and that of the least normal number
// at least.
void ShortenWeights(std::vector<double>& row) {
  for (size_t begin = 0; begin < row.size(); begin += kActivationBlock) {
    const std::span block = std::span(row).subspan(begin, kActivationBlock);
    double largest = 0x1p-14;
    for (const double weight : block) largest = std::max(largest, std::abs(weight));
    const double unit = std::ldexp(1.0, std::ilogb(largest) + 1 - 14);
    for (double& weight : block) weight = std::nearbyint(weight / unit) * unit;
  }
}

// Compares every form of the matrix with sums in double precision over the same numbers.
void ExpectProducts(const KernelTable& table, const Matrix& matrix,
                    const OwnedActivations& activations) {
  const auto& [type, data, n_rows, k, is_packed] = matrix.rows();
  const int64_t n_tokens = activations.view().n_tokens;
  const double tolerance = Info(type).is_quantized                             ? kQuantizedTolerance
                           : activations.view().copy == ActivationCopy::kSplit ? kSplitTolerance
                                                                               : kFloatTolerance;
  const std::vector<double> seen = SeenBy(type, activations);
  // By whole groups that are packed, in tables that round activations, and perhaps weights.
  const ActivationCopy fastest = FastestCopy(table, type);
  const bool shortens = fastest == ActivationCopy::kShorts && activations.view().shorts != nullptr;
  const bool rounds =
      shortens || (fastest == ActivationCopy::kRounded && activations.view().rounded != nullptr);
  std::vector<double> rounded = seen;
  if (shortens) {
    rounded = ValuesOfShorts(activations.view());
  } else if (rounds) {
    std::ranges::transform(seen, rounded.begin(), Rounded);
  }
  const int64_t rounded_rows = rounds ? n_rows / kPackedGroupRows * kPackedGroupRows : 0;
  const std::vector<WeightRows> forms = matrix.Forms(table);
  std::vector<std::vector<float>> outs;
  for (const WeightRows& form : forms) outs.push_back(MatMul(table, form, activations.view()));
  for (int64_t row = 0; row < n_rows; ++row) {
    const std::vector<double> magnitudes = matrix.Magnitudes(row);
    std::vector<double> weights(static_cast<size_t>(k));
    for (int64_t i = 0; i < k; ++i) weights[static_cast<size_t>(i)] = matrix.Value(row, i);
    if (shortens) ShortenWeights(weights);
    for (int64_t token = 0; token < n_tokens; ++token) {
      double exact = 0;
      double of_rounded = 0;
      double magnitude = 0;
      for (int64_t i = 0; i < k; ++i) {
        const double a = seen[static_cast<size_t>(token * k + i)];
        exact += matrix.Value(row, i) * a;
        of_rounded += weights[static_cast<size_t>(i)] * rounded[static_cast<size_t>(token * k + i)];
        magnitude += magnitudes[static_cast<size_t>(i)] * std::abs(a);
      }
      for (size_t form = 0; form < forms.size(); ++form) {
        const bool is_rounded = forms[form].is_packed && row < rounded_rows;
        ASSERT_NEAR(outs[form][static_cast<size_t>(token * n_rows + row)],
                    is_rounded ? of_rounded : exact, tolerance * magnitude)
            << Info(type).name << (forms[form].is_packed ? " packed" : "") << " row " << row
            << " of " << n_rows << " token " << token << " of " << n_tokens << " k " << k;
      }
    }
  }
}

// Normally distributed numbers of which one in fifty is an outlier.
std::vector<float> ValuesWithOutliers(int64_t n, std::mt19937& random) {
  std::vector<float> values = RandomFloats(n, random);
  for (size_t i = random() % 50; i < values.size(); i += 1 + random() % 99) values[i] *= 20;
  return values;
}

std::vector<ElementType> MultipliableTypes() {
  std::vector<ElementType> types;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (CanMultiply(info.type)) types.push_back(info.type);
  }
  return types;
}

TEST(CanMultiply, HoldsForFloatsAndEveryQuantizedTypeOnly) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const bool is_float = info.type == ElementType::kF32 || info.type == ElementType::kF16 ||
                          info.type == ElementType::kBF16;
    EXPECT_EQ(CanMultiply(info.type), is_float || info.is_quantized) << info.name;
    EXPECT_EQ(FindRowUnpacker(info.type) != nullptr, info.is_quantized) << info.name;
  }
}

TEST_P(MatMulKernels, MatMulOfEveryTypeIsTheSumOfTheProducts) {
  std::mt19937 random(1);
  for (const ElementType type : MultipliableTypes()) {
    const int64_t block = std::max(Info(type).block_elements, kActivationStep);
    for (const int64_t k : {block, 3 * block, 2048 + block}) {
      // One, a few, a batch with a rest, and many: kernels change their way with the number.
      for (const int64_t n_tokens : {1, 3, 15, 37}) {
        const Matrix matrix(type, 37, k, random);
        for (const ActivationCopy copy : CopiesFor(table(), type, k)) {
          const OwnedActivations activations(table(), ValuesWithOutliers(n_tokens * k, random),
                                             n_tokens, k, copy);
          ExpectProducts(table(), matrix, activations);
        }
      }
    }
  }
}

TEST_P(MatMulKernels, MatMulTakesAnyNumberOfRows) {
  std::mt19937 random(2);
  for (const ElementType type : {ElementType::kQ4_1, ElementType::kQ8_0, ElementType::kF16}) {
    for (const int64_t n_rows : {1, 2, 3, 4, 5, 6, 7, 15, 16, 17, 31, 32, 33, 48, 64}) {
      for (int64_t n_tokens = 1; n_tokens <= 5; ++n_tokens) {
        const Matrix matrix(type, n_rows, 96, random);
        const OwnedActivations activations(table(), RandomFloats(n_tokens * 96, random), n_tokens,
                                           96);
        ExpectProducts(table(), matrix, activations);
      }
    }
  }
}

TEST_P(MatMulKernels, MatMulOfFloatsTakesAnyRowLength) {
  std::mt19937 random(3);
  for (const ElementType type : {ElementType::kF32, ElementType::kF16, ElementType::kBF16}) {
    for (int64_t k = 1; k <= 70; ++k) {
      const Matrix matrix(type, 18, k, random);
      for (const ActivationCopy copy : CopiesFor(table(), type, k)) {
        const OwnedActivations activations(table(), RandomFloats(3 * k, random), 3, k, copy);
        ExpectProducts(table(), matrix, activations);
      }
    }
  }
}

// The whole error of quantized activations: each is at most half a step off.
TEST_P(MatMulKernels, MatMulIsWithinHalfAStepOfEveryActivation) {
  std::mt19937 random(4);
  constexpr int64_t kLength = 1024;
  const std::vector<float> values = RandomFloats(kLength, random);
  for (const ActivationCopy copy : {ActivationCopy::kNarrow, ActivationCopy::kWide}) {
    const OwnedActivations activations(table(), values, 1, kLength, copy);
    for (const ElementType type : MultipliableTypes()) {
      if (!Info(type).is_quantized) continue;
      const Matrix matrix(type, 1, kLength, random);
      double exact = 0;
      double bound = 0;
      for (int64_t i = 0; i < kLength; ++i) {
        const double weight = matrix.Value(0, i);
        const double step = activations.Step(0, i);
        exact += weight * double{values[static_cast<size_t>(i)]};
        bound += std::abs(weight) * step * 0.50001;
      }
      const float out = MatMul(table(), matrix.rows(), activations.view())[0];
      EXPECT_NEAR(out, exact, bound) << Info(type).name;
    }
  }
}

// Grids may be thawed at any time (tensor/thawed_grids.h): in every form they are multiplied alike.
TEST_P(MatMulKernels, MatMulOfThawedGridsGivesTheBitsOfTheirPoints) {
  std::mt19937 random(7);
  constexpr int64_t kRows = 37;
  for (const ElementType type : MultipliableTypes()) {
    const ElementType thawed_type = ThawedGridType(type);
    if (thawed_type == type) continue;
    for (const int64_t k : {256, 2048 + 256}) {
      const std::vector<std::byte> rows = RandomRows(type, kRows * k, random);
      std::vector<std::byte> thawed_rows(static_cast<size_t>(RowBytes(thawed_type, kRows * k)));
      for (int64_t row = 0; row < kRows; ++row) {
        ThawGridRow(type, k, rows.data() + row * RowBytes(type, k),
                    thawed_rows.data() + row * RowBytes(thawed_type, k));
      }
      const Matrix points(type, kRows, k, rows);
      const Matrix thawed(thawed_type, kRows, k, thawed_rows);
      for (const int64_t n_tokens : {1, 2, 4, 7, 15, 37}) {
        const OwnedActivations activations(table(), ValuesWithOutliers(n_tokens * k, random),
                                           n_tokens, k);
        const std::vector<WeightRows> forms = points.Forms(table());
        const std::vector<WeightRows> thawed_forms = thawed.Forms(table());
        ASSERT_EQ(forms.size(), thawed_forms.size());
        for (size_t form = 0; form < forms.size(); ++form) {
          EXPECT_EQ(MatMul(table(), thawed_forms[form], activations.view()),
                    MatMul(table(), forms[form], activations.view()))
              << Info(type).name << ", k " << k << ", tokens " << n_tokens << ", form " << form;
        }
      }
    }
  }
}

// Row invariance (kernel_table.h): no batch and no range of rows changes a bit.
TEST_P(MatMulKernels, MatMulOfATokenDoesNotDependOnBatchOrRowRange) {
  std::mt19937 random(5);
  constexpr int64_t kTokens = 21;
  constexpr int64_t kRows = 11;
  for (const ElementType type : MultipliableTypes()) {
    const int64_t k = 3 * std::max(Info(type).block_elements, kActivationStep);
    const Matrix matrix(type, kRows, k, random);
    const std::vector<float> values = ValuesWithOutliers(kTokens * k, random);
    const OwnedActivations all(table(), values, kTokens, k);
    const std::vector<float> whole = MatMul(table(), matrix.rows(), all.view());
    for (const int64_t batch : {1, 3, 16}) {
      for (int64_t first = 0; first + batch <= kTokens; ++first) {
        const OwnedActivations part(
            table(), {values.begin() + first * k, values.begin() + (first + batch) * k}, batch, k);
        const std::vector<float> out = MatMul(table(), matrix.rows(), part.view());
        ASSERT_EQ(0, std::memcmp(out.data(), &whole[static_cast<size_t>(first * kRows)],
                                 out.size() * sizeof(float)))
            << Info(type).name << " tokens " << first << " + " << batch;
      }
    }
    for (int64_t begin = 0; begin < kRows; ++begin) {
      for (int64_t end = begin + 1; end <= kRows; ++end) {
        const std::vector<float> out = MatMul(table(), matrix.rows(), begin, end, all.view());
        for (size_t i = 0; i < out.size(); ++i) {
          const int64_t row = static_cast<int64_t>(i) % kRows;
          const float expected = begin <= row && row < end ? whole[i] : -1.0f;
          ASSERT_EQ(out[i], expected) << Info(type).name << " rows " << begin << " to " << end;
        }
      }
    }
  }
}

TEST_P(MatMulKernels, PackedMatMulOfATokenDoesNotDependOnBatchOrRowRange) {
  if (!table().packs_rows) GTEST_SKIP() << table().name << " takes rows as they are";
  std::mt19937 random(9);
  constexpr int64_t kTokens = 39;
  constexpr int64_t kRows = 69;
  for (const ElementType type : MultipliableTypes()) {
    const int64_t block = std::max(Info(type).block_elements, kActivationStep);
    const int64_t k = 4096 + 3 * block;
    if (!CanPackRows(type, k)) continue;
    const Matrix matrix(type, kRows, k, random);
    const WeightRows packed = matrix.Forms(table())[1];
    const std::vector<float> values = ValuesWithOutliers(kTokens * k, random);
    for (const ActivationCopy copy : CopiesFor(table(), type, k)) {
      const OwnedActivations all(table(), values, kTokens, k, copy);
      const std::vector<float> whole = MatMul(table(), packed, all.view());
      for (const int64_t batch : {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 32, 33}) {
        const int64_t first = batch % 5;
        const OwnedActivations part(
            table(), {values.begin() + first * k, values.begin() + (first + batch) * k}, batch, k,
            copy);
        const std::vector<float> out = MatMul(table(), packed, part.view());
        ASSERT_EQ(0, std::memcmp(out.data(), &whole[static_cast<size_t>(first * kRows)],
                                 out.size() * sizeof(float)))
            << Info(type).name << " tokens " << first << " + " << batch;
      }
      for (int64_t begin = 0; begin < kRows; begin += kPackedGroupRows) {
        for (const int64_t end : {begin + 16, begin + 32, kRows}) {
          if (end > kRows) continue;
          const std::vector<float> out = MatMul(table(), packed, begin, end, all.view());
          for (size_t i = 0; i < out.size(); ++i) {
            const int64_t row = static_cast<int64_t>(i) % kRows;
            const float expected = begin <= row && row < end ? whole[i] : -1.0f;
            ASSERT_EQ(out[i], expected) << Info(type).name << " rows " << begin << " to " << end;
          }
        }
      }
    }
  }
}

// Of many tokens halves are widened in parts of rows and for blocks of tokens (plain_products.h),
// multiplied in such parts and blocks (rounded_products.h), by tiles for blocks of rows, too
// (x86/float_tiles.h), or made shorts in parts (short_products.h).
TEST_P(MatMulKernels, PackedFloatsGiveTheSameBitsInBlocksOfTokens) {
  if (!table().packs_rows) GTEST_SKIP() << table().name << " takes rows as they are";
  struct {
    ElementType type;
    ActivationCopy copy;
    int64_t groups;
    int64_t k;
    std::vector<int64_t> batches;
  } const cases[] = {
      {ElementType::kF32, ActivationCopy::kNone, 3, 2 * 1024 + 26, {1, 8, 17, 18, 33, 120, 121}},
      {ElementType::kF16, ActivationCopy::kNone, 3, 2 * 1024 + 26, {1, 8, 17, 18, 33, 120, 121}},
      {ElementType::kBF16, ActivationCopy::kNone, 3, 2 * 1024 + 26, {1, 8, 17, 18, 33, 120, 121}},
      {ElementType::kBF16, ActivationCopy::kRounded, 3, 2 * 1024 + 32, {1, 5, 6, 7, 240, 241}},
      {ElementType::kBF16, ActivationCopy::kRounded, 11, 544, {1, 8, 15, 16, 17, 32, 33, 257}},
      {ElementType::kF16, ActivationCopy::kShorts, 3, 2 * 1024 + 64, {1, 4, 5, 8, 9, 15, 21, 22}},
      {ElementType::kF16, ActivationCopy::kSplit, 11, 288, {1, 3, 4, 5, 16, 17, 32, 33, 257}},
      {ElementType::kBF16, ActivationCopy::kSplit, 1, 64, {1, 5, 20}},
  };
  std::mt19937 random(13);
  for (const auto& [type, copy, groups, k, batches] : cases) {
    // Tables that prefer another copy may read shorts, too.
    if (copy == ActivationCopy::kShorts && copy != FastestCopy(table(), type)) continue;
    const int64_t n_tokens = batches.back() + 10;
    const Matrix matrix(type, groups * kPackedGroupRows + 3, k, random);
    const std::vector<float> values = RandomFloats(n_tokens * k, random);
    const OwnedActivations all(table(), values, n_tokens, k, copy);
    ExpectProducts(table(), matrix, all);
    const WeightRows packed = matrix.Forms(table())[1];
    const std::vector<float> whole = MatMul(table(), packed, all.view());
    for (const int64_t batch : batches) {
      const int64_t first = batch % 5;
      const OwnedActivations part(
          table(), {values.begin() + first * k, values.begin() + (first + batch) * k}, batch, k,
          copy);
      const std::vector<float> out = MatMul(table(), packed, part.view());
      ASSERT_EQ(0, std::memcmp(out.data(), &whole[static_cast<size_t>(first * packed.n_rows)],
                               out.size() * sizeof(float)))
          << Info(type).name << " tokens " << first << " + " << batch;
    }
  }
}

// Sums of 64 products that are as large as any can be, and numbers so small that they round to
// none.
TEST_P(MatMulKernels, ProductsOfShortsTakeExtremes) {
  if (FastestCopy(table(), ElementType::kF16) != ActivationCopy::kShorts) {
    GTEST_SKIP() << table().name << " multiplies no shorts";
  }
  constexpr int64_t kRows = kPackedGroupRows;
  constexpr int64_t kLength = 3 * kActivationBlock;
  constexpr uint16_t kLargest = 0x7bff;  // 65504
  constexpr uint16_t kSign = 0x8000;
  std::mt19937 random(14);
  std::vector<std::byte> bytes = RandomRows(ElementType::kF16, kRows * kLength, random);
  const auto fill = [&](int64_t row, const auto& bits_of) {
    for (int64_t i = 0; i < kLength; ++i) {
      const auto bits = static_cast<uint16_t>(bits_of(i));
      std::memcpy(&bytes[static_cast<size_t>(row * kLength + i) * sizeof(bits)], &bits,
                  sizeof(bits));
    }
  };
  fill(0, [&](int64_t) { return kLargest; });
  fill(1, [&](int64_t i) { return i % 2 == 0 ? kLargest : kLargest | kSign; });
  fill(2, [&](int64_t i) { return i % 64 == 5 ? kLargest : 1; });  // 2^-24
  fill(3, [&](int64_t i) { return i % 3; });                       // denormal numbers and zeros
  fill(4, [&](int64_t) { return kSign; });                         // -0
  fill(5, [&](int64_t i) { return 0x3ff + i % 2; });               // about the least normal number
  const Matrix matrix(ElementType::kF16, kRows, kLength, bytes);
  std::vector<float> values;
  for (const float magnitude : {1.0f, 1e-25f, 1e30f}) {
    for (int64_t i = 0; i < kLength; ++i) values.push_back(magnitude);
    for (int64_t i = 0; i < kLength; ++i) values.push_back(i % 2 == 0 ? magnitude : -magnitude);
    for (int64_t i = 0; i < kLength; ++i) values.push_back(i % 64 == 5 ? magnitude : 0);
    for (int64_t i = 0; i < kLength; ++i) values.push_back(i < 64 ? magnitude : 0);
  }
  const int64_t n_tokens = std::ssize(values) / kLength;
  for (const int64_t first : {int64_t{0}, n_tokens - 3}) {
    const OwnedActivations activations(table(), {values.begin() + first * kLength, values.end()},
                                       n_tokens - first, kLength, ActivationCopy::kShorts);
    ExpectProducts(table(), matrix, activations);
  }
}

// Of normal numbers, as products of float16 with activations rounded to float16 are.
TEST_P(MatMulKernels, ProductsOfShortsAreAsExactAsThoseOfHalves) {
  if (FastestCopy(table(), ElementType::kF16) != ActivationCopy::kShorts) {
    GTEST_SKIP() << table().name << " multiplies no shorts";
  }
  constexpr int64_t kRows = 4 * kPackedGroupRows;
  constexpr int64_t kLength = 2048;
  constexpr int64_t kTokens = 12;
  std::mt19937 random(15);
  const Matrix matrix(ElementType::kF16, kRows, kLength, random);
  std::vector<float> values(kTokens * kLength);
  std::normal_distribution<float> normal;
  for (float& value : values) value = normal(random);
  const OwnedActivations activations(table(), values, kTokens, kLength, ActivationCopy::kShorts);
  const std::vector<float> out = MatMul(table(), matrix.Forms(table())[1], activations.view());
  double error = 0;
  double error_of_halves = 0;
  for (int64_t at = 0; at < kTokens * kRows; ++at) {
    double exact = 0;
    double of_halves = 0;
    for (int64_t i = 0; i < kLength; ++i) {
      const float a = values[static_cast<size_t>(at / kRows * kLength + i)];
      exact += matrix.Value(at % kRows, i) * double{a};
      of_halves += matrix.Value(at % kRows, i) * double{F16ToF32(F32ToF16(a))};
    }
    error += std::pow(double{out[static_cast<size_t>(at)]} - exact, 2);
    error_of_halves += std::pow(of_halves - exact, 2);
  }
  EXPECT_LT(error, error_of_halves);
}

// A token with a single 1, which counts as an outlier, has the weights there as its products: they
// must be those of the file to the last bit, many tokens at a time and alone.
TEST_P(MatMulKernels, PackedWeightsAreThoseOfTheFileBitForBit) {
  if (!table().packs_rows) GTEST_SKIP() << table().name << " takes rows as they are";
  std::mt19937 random(11);
  for (const ElementType type : MultipliableTypes()) {
    const int64_t k = 3 * std::max<int64_t>(Info(type).block_elements, 64);
    if (!CanPackRows(type, k)) continue;
    const Matrix matrix(type, 2 * kPackedGroupRows, k, random);
    const WeightRows packed = matrix.Forms(table())[1];
    std::vector<float> ones(static_cast<size_t>(k * k), 0.0f);
    for (int64_t i = 0; i < k; ++i) ones[static_cast<size_t>(i * k + i)] = 1;
    ActivationCopy copy = CopiesFor(table(), type, k).back();
    if (copy == ActivationCopy::kShorts) copy = ActivationCopy::kNone;  // which rounds weights
    const OwnedActivations all(table(), ones, k, k, copy);
    const std::vector<float> together = MatMul(table(), packed, all.view());
    for (int64_t i = 0; i < k; ++i) {
      const OwnedActivations one(table(), {ones.begin() + i * k, ones.begin() + (i + 1) * k}, 1, k,
                                 copy);
      const std::vector<float> alone = MatMul(table(), packed, one.view());
      for (int64_t row = 0; row < packed.n_rows; ++row) {
        const auto expected = static_cast<float>(matrix.Value(row, i));
        ASSERT_EQ(alone[static_cast<size_t>(row)], expected)
            << Info(type).name << " row " << row << " element " << i;
        ASSERT_EQ(together[static_cast<size_t>(i * packed.n_rows + row)], expected)
            << Info(type).name << " row " << row << " element " << i;
      }
    }
  }
}

// Every byte that a scale or a number of 8 bits can be.
TEST_P(MatMulKernels, MatMulReadsEveryScaleAndQuant) {
  std::mt19937 random(10);
  for (const ElementType type : MultipliableTypes()) {
    const ElementTypeInfo& info = Info(type);
    if (!info.is_quantized) continue;
    const int64_t k = 4 * std::max(info.block_elements, kActivationStep);
    std::vector<std::byte> bytes = RandomRows(type, 16 * k, random);
    for (int round = 0; round < 64; ++round) {
      if (type == ElementType::kMXFP4 || type == ElementType::kNVFP4) {
        // The scales of these are bytes. Above 239 the weights of MXFP4 are so large that a sum of
        // 64 of them times numbers up to 127 may leave the range of floats.
        for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(info.block_bytes)) {
          bytes[at] =
              static_cast<std::byte>(std::min(4 * round + static_cast<int>(random() % 4), 239));
        }
      } else {
        bytes = RandomRows(type, 16 * k, random);
      }
      const Matrix matrix(type, 16, k, bytes);
      std::vector<float> values = RandomFloats(k, random);
      // So that products of the largest and of the smallest scales are normal numbers.
      for (float& value : values) value *= round < 32 ? 0x1p+15f : 0x1p-20f;
      const OwnedActivations activations(table(), values, 1, k);
      ExpectProducts(table(), matrix, activations);
    }
  }
}

TEST_P(MatMulKernels, MatMulSurvivesExtremeWeightsAndActivations) {
  std::mt19937 random(6);
  constexpr int64_t kLength = 64;
  std::vector<BlockQ8_0> blocks(2 * 16);
  for (BlockQ8_0& block : blocks) {
    block.d = F32ToF16(1.0f);
    std::fill(std::begin(block.qs), std::end(block.qs), int8_t{-128});
  }
  std::vector<std::byte> bytes(blocks.size() * sizeof(BlockQ8_0));
  std::memcpy(bytes.data(), blocks.data(), bytes.size());
  const Matrix matrix(ElementType::kQ8_0, 16, kLength, bytes);

  std::vector<float> outlier = RandomFloats(kLength, random);
  outlier[5] = 1e4f;
  std::vector<float> denormal(kLength, 1e-40f);
  std::vector<float> huge(kLength, -std::numeric_limits<float>::max() / 1e6f);
  for (const std::vector<float>& values :
       {std::vector<float>(kLength, 0.0f), std::vector<float>(kLength, 127.0f),
        std::vector<float>(kLength, -127.0f), outlier, denormal, huge}) {
    const OwnedActivations activations(table(), values, 1, kLength);
    ExpectProducts(table(), matrix, activations);
  }
}

// Tokens whose quants are as large as the sums of a wide copy allow, with the largest numbers,
// scales and minima of either sign.
TEST_P(MatMulKernels, WholeSumsOfTheLargestNumbersFit) {
  struct {
    ElementType type;
    int64_t begin;  // of the numbers and scales in a block
    int64_t end;
  } const cases[] = {
      {ElementType::kQ2_K, 0, offsetof(BlockQ2_K, d)},
      {ElementType::kQ3_K, 0, offsetof(BlockQ3_K, d)},
      {ElementType::kQ4_K, offsetof(BlockQ4_K, scales), sizeof(BlockQ4_K)},
      {ElementType::kQ6_K, 0, offsetof(BlockQ6_K, d)},
  };
  std::mt19937 random(14);
  constexpr int64_t kLength = 512;
  constexpr int64_t kTokens = 37;
  std::vector<float> values = RandomFloats(kTokens * kLength, random);
  for (int64_t i = 0; i < kLength; ++i) {
    const auto token = [&](int64_t t) -> float& {
      return values[static_cast<size_t>(t * kLength + i)];
    };
    token(0) = 1;
    token(2) = -1;
    token(3) = i % 2 == 0 ? 1.0f : -1.0f;
    token(5) = i / 16 % 2 == 0 ? 1.0f : -1.0f;
    token(8) = i % 32 < 16 ? 1.0f : 0.01f;
    token(11) = static_cast<float>(i % 32);
    token(18) = i < kLength / 2 ? 1.0f : -1e-3f;
  }
  for (const auto& [type, begin, end] : cases) {
    for (const int fill : {0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0}) {
      std::vector<std::byte> bytes = RandomRows(type, 37 * kLength, random);
      FillBlocks(type, begin, end, fill, bytes);
      const Matrix matrix(type, 37, kLength, bytes);
      for (const int64_t n_tokens : {int64_t{19}, kTokens}) {
        const OwnedActivations activations(table(),
                                           {values.begin(), values.begin() + n_tokens * kLength},
                                           n_tokens, kLength, ActivationCopy::kWide);
        ExpectProducts(table(), matrix, activations);
      }
    }
  }
}

TEST_P(MatMulKernels, MatMulOfANanIsNan) {
  std::mt19937 random(7);
  for (const ElementType type : {ElementType::kQ4_0, ElementType::kQ4_K, ElementType::kF32,
                                 ElementType::kF16, ElementType::kBF16}) {
    const Matrix matrix(type, 20, 256, random);
    std::vector<float> values = RandomFloats(256, random);
    values[77] = std::numeric_limits<float>::quiet_NaN();
    const OwnedActivations activations(table(), values, 1, 256,
                                       CopiesFor(table(), type, 256).back());
    for (const WeightRows& form : matrix.Forms(table())) {
      for (const float product : MatMul(table(), form, activations.view())) {
        EXPECT_TRUE(std::isnan(product)) << Info(type).name;
      }
    }
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(MatMulKernels, AllAndEmulatedKernelTables());

}  // namespace
}  // namespace thaw
