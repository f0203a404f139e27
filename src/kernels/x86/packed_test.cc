#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <utility>

#include "kernels/kernel_test_support.h"
#include "kernels/self_check.h"
#include "kernels/x86/emulated_tables.h"
#include "tensor/blocks.h"
#include "tensor/half.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

bool IsQuantized(ElementType type) { return Info(type).is_quantized; }

// Those with scales for 32 elements or, in whole numbers, for 256.
bool IsMultipliedByTiles(ElementType type) {
  const std::string_view name = Info(type).name;
  // Not those with a scale for 16, thawed or not.
  return IsQuantized(type) && name != "NVFP4" && !name.starts_with("IQ1_M") && name != "IQ2_XS" &&
         !name.starts_with("IQ2_S");
}

bool HasPointsOfAGrid(ElementType type) {
  const std::string_view name = Info(type).name;
  if (!IsInFiles(type)) return false;
  return name.starts_with("IQ1") || name.starts_with("IQ2") || name.starts_with("IQ3");
}

// Every table that multiplies packed rows by other instructions, emulated or not, beside the one
// whose bits it must give, and which types it does not leave to that.
struct TablePair {
  const KernelTable* table;
  const KernelTable* original;
  bool (*multiplies)(ElementType type);
};

std::vector<TablePair> TablePairs() {
  std::vector<TablePair> pairs;
  for (const EmulatedTable& each : EmulatedAmxTables()) {
    pairs.push_back({&each.table, each.original, IsMultipliedByTiles});
  }
  const EmulatedTable& avxvnni = EmulatedTables().back();
  pairs.push_back({&avxvnni.table, avxvnni.original, IsQuantized});
  const KernelTable* avx512 = EmulatedTables().front().original;
  for (const KernelTable* table : AllKernelTables()) {
    const std::string_view name = table->name;
    if (name == "amx") pairs.push_back({table, avx512, IsMultipliedByTiles});
    if (name == "avx512vbmi") pairs.push_back({table, avx512, HasPointsOfAGrid});
    if (name == "avxvnni") pairs.push_back({table, avxvnni.original, IsQuantized});
  }
  return pairs;
}

class PackedKernels : public ::testing::TestWithParam<TablePair> {
 protected:
  void SetUp() override {
    if (!table().is_available(HostCpu())) {
      GTEST_SKIP() << "this CPU cannot run the " << table().name << " kernels";
    }
  }
  const KernelTable& table() const { return *GetParam().table; }
  const KernelTable& original() const { return *GetParam().original; }
};

INSTANTIATE_TEST_SUITE_P(, PackedKernels, ::testing::ValuesIn(TablePairs()),
                         [](const auto& test) { return std::string(test.param.table->name); });

constexpr int64_t kRows = 3 * kPackedGroupRows + 5;

// Rows, packed.
struct PackedMatrix {
  PackedMatrix(ElementType type, int64_t k, std::vector<std::byte> file_rows)
      : bytes(std::move(file_rows)), rows{type, bytes.data(), kRows, k, /*is_packed=*/true} {
    std::vector<std::byte> scratch(static_cast<size_t>(PackScratchBytes(type, k)));
    PackRows(type, k, kRows, bytes.data(), bytes.data(), scratch.data());
  }

  std::vector<std::byte> bytes;
  WeightRows rows;
};

std::vector<float> MatMul(const KernelTable& table, const WeightRows& weights, int64_t row_begin,
                          int64_t row_end, const Activations& activations) {
  std::vector<float> out(static_cast<size_t>(activations.n_tokens * kRows), -1.0f);
  ScratchMemory scratch(MatMulScratchBytes(weights.k));
  table.matmul(weights, row_begin, row_end, activations, out.data(), kRows, scratch.data());
  return out;
}

bool AreSameBits(float a, float b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0 || (std::isnan(a) && std::isnan(b));
}

void ExpectSameBits(const TablePair& tables, const WeightRows& weights, int64_t begin, int64_t end,
                    const Activations& activations) {
  const std::vector<float> found = MatMul(*tables.table, weights, begin, end, activations);
  const std::vector<float> expected = MatMul(*tables.original, weights, begin, end, activations);
  if (std::memcmp(found.data(), expected.data(), found.size() * sizeof(float)) == 0) return;
  for (size_t i = 0; i < found.size(); ++i) {
    if (AreSameBits(found[i], expected[i])) continue;
    FAIL() << Info(weights.type).name << " k " << weights.k << " row " << i % kRows << " of "
           << begin << " to " << end << " token " << i / kRows << " of " << activations.n_tokens
           << ": " << found[i] << " instead of " << expected[i];
  }
}

// Of a single group, of two, and of two that begin with the second.
void ExpectSameBitsOfParts(const TablePair& tables, const WeightRows& weights,
                           const Activations& activations) {
  ExpectSameBits(tables, weights, 16, 32, activations);
  ExpectSameBits(tables, weights, 0, 32, activations);
  ExpectSameBits(tables, weights, 16, 48, activations);
}

// Normally distributed numbers of which one in thirty is an outlier, but for tokens of special
// ones: nothing, the largest quants of one sign and of both, denormal, huge, a NaN.
std::vector<float> Values(int64_t n_tokens, int64_t k, std::mt19937& random) {
  std::vector<float> values = RandomFloats(n_tokens * k, random);
  for (size_t i = random() % 30; i < values.size(); i += 1 + random() % 59) values[i] *= 20;
  const auto fill = [&](int64_t token, auto value) {
    if (token >= n_tokens) return;
    for (int64_t i = 0; i < k; ++i) values[static_cast<size_t>(token * k + i)] = value(i);
  };
  fill(1, [](int64_t) { return 0.0f; });
  fill(3, [](int64_t) { return 127.0f; });
  fill(4, [](int64_t) { return -127.0f; });
  fill(7, [](int64_t i) { return i % 2 == 0 ? 127.0f : -127.0f; });
  fill(11, [](int64_t) { return 1e-40f; });
  fill(18, [](int64_t) { return 1e30f; });
  if (n_tokens > 20) values[static_cast<size_t>(20 * k + k / 2)] = std::nanf("");
  return values;
}

TEST_P(PackedKernels, GiveTheBitsOfTheirOriginals) {
  std::mt19937 random(21);
  for (const ElementTypeInfo& info : AllElementTypes()) {
    bool is_shortest = true;
    for (const int64_t k : {32, 64, 256, 1536, 2048 + 32, 2048 + 96, 2048 + 256, 4096}) {
      if (!GetParam().multiplies(info.type) || k % info.block_elements != 0) continue;
      if (!CanPackRows(info.type, k)) continue;
      const PackedMatrix matrix(info.type, k, RandomRows(info.type, kRows * k, random));
      std::vector<int64_t> numbers_of_tokens;
      if (is_shortest) {
        for (int64_t n_tokens = 1; n_tokens <= 50; ++n_tokens) {
          numbers_of_tokens.push_back(n_tokens);
        }
      } else {
        // A few, and so many that tiles of tokens are full or not, and that the last one reaches
        // back by one, by some, not at all, and over the tokens of another chunk.
        numbers_of_tokens = {3, 10, 13, 17, 31, 40, 48, 49, 130};
      }
      for (const int64_t n_tokens : numbers_of_tokens) {
        for (const ActivationCopy copy : CopiesFor(original(), info.type, k)) {
          const OwnedActivations activations(original(), Values(n_tokens, k, random), n_tokens, k,
                                             copy);
          ExpectSameBits(GetParam(), matrix.rows, 0, kRows, activations.view());
          if (is_shortest) ExpectSameBitsOfParts(GetParam(), matrix.rows, activations.view());
          if (HasFatalFailure()) return;
        }
      }
      is_shortest = false;
    }
  }
}

// Numbers or signs whose bits are all clear, all set, or those that make the ends of signed bytes.
TEST_P(PackedKernels, GiveTheSameBitsForExtremeWeights) {
  struct {
    ElementType type;
    int64_t begin;  // of the numbers in a block
    int64_t end;
  } const cases[] = {
      {ElementType::kQ4_0, offsetof(BlockQ4_0, qs), sizeof(BlockQ4_0)},
      {ElementType::kQ5_1, offsetof(BlockQ5_1, qh), sizeof(BlockQ5_1)},
      {ElementType::kQ8_0, offsetof(BlockQ8_0, qs), sizeof(BlockQ8_0)},
      {ElementType::kIQ4_NL, offsetof(BlockIQ4_NL, qs), sizeof(BlockIQ4_NL)},
      {ElementType::kNVFP4, offsetof(BlockNVFP4, qs), sizeof(BlockNVFP4)},
      {ElementType::kQ2_K, offsetof(BlockQ2_K, qs), offsetof(BlockQ2_K, d)},
      {ElementType::kQ3_K, 0, offsetof(BlockQ3_K, scales)},
      {ElementType::kQ4_K, offsetof(BlockQ4_K, qs), sizeof(BlockQ4_K)},
      {ElementType::kQ6_K, 0, offsetof(BlockQ6_K, scales)},
      {ElementType::kIQ2_S, offsetof(BlockIQ2_S, signs), offsetof(BlockIQ2_S, qh)},
      {ElementType::kIQ3_XXS, offsetof(BlockIQ3_XXS, signs_and_scale), sizeof(BlockIQ3_XXS)},
  };
  std::mt19937 random(22);
  constexpr int64_t kLength = 256;
  constexpr int64_t kTokens = 25;
  for (const auto& [type, begin, end] : cases) {
    for (const int fill : {0x00, 0xff, 0x80, 0x7f}) {
      std::vector<std::byte> bytes = RandomRows(type, kRows * kLength, random);
      FillBlocks(type, begin, end, fill, bytes);
      const PackedMatrix matrix(type, kLength, std::move(bytes));
      for (const ActivationCopy copy : CopiesFor(original(), type, kLength)) {
        const OwnedActivations activations(original(), Values(kTokens, kLength, random), kTokens,
                                           kLength, copy);
        ExpectSameBits(GetParam(), matrix.rows, 0, kRows, activations.view());
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(EmulatedAmx, MultipliesManyTokensByTiles) {
  std::mt19937 random(23);
  for (const auto& [table, original] : EmulatedAmxTables()) {
    if (!table.is_available(HostCpu())) {
      GTEST_LOG_(INFO) << "SKIP: this CPU cannot run the " << table.name << " kernels";
      continue;
    }
    struct {
      ElementType type;
      ActivationCopy copy;
      int64_t n_tokens;
      int64_t tiles;              // of tokens
      int64_t products_of_block;  // of 256 elements, for each tile and group of rows
    } const cases[] = {
        {ElementType::kQ4_K, ActivationCopy::kWide, 1, 0, 0},
        {ElementType::kQ4_K, ActivationCopy::kWide, 23, 0, 0},
        // Two planes, 64 elements at once, and the minima.
        {ElementType::kQ4_K, ActivationCopy::kWide, 24, 2, 2 * 4 + 1},
        // Without minima, from a full tile on.
        {ElementType::kQ6_K, ActivationCopy::kWide, 15, 0, 0},
        {ElementType::kQ6_K, ActivationCopy::kWide, 16, 1, 2 * 4},
        {ElementType::kQ6_K, ActivationCopy::kWide, 33, 3, 2 * 4},
        // Those that share a scale.
        {ElementType::kQ4_K, ActivationCopy::kNarrow, 33, 3, 256 / 32},
        {ElementType::kQ4_1, ActivationCopy::kNarrow, 15, 0, 0},
        {ElementType::kQ4_1, ActivationCopy::kNarrow, 16, 1, 256 / 32},
        {ElementType::kQ4_0, ActivationCopy::kNarrow, 11, 0, 0},
        {ElementType::kQ4_0, ActivationCopy::kNarrow, 12, 1, 256 / 32},
        {ElementType::kQ4_0, ActivationCopy::kNarrow, 17, 2, 256 / 32},
        {ElementType::kQ4_0, ActivationCopy::kWide, 33, 3, 256 / 32},
        {ElementType::kIQ2_S, ActivationCopy::kNarrow, 33, 0, 0},
        {ElementType::kQ6_K, ActivationCopy::kNarrow, 33, 0, 0},
        {ElementType::kBF16, ActivationCopy::kNarrow, 33, 0, 0},
        {ElementType::kBF16, ActivationCopy::kRounded, 1, 1, 256 / 32},
        {ElementType::kBF16, ActivationCopy::kRounded, 33, 3, 256 / 32},
        {ElementType::kF16, ActivationCopy::kNarrow, 33, 0, 0},
        {ElementType::kF16, ActivationCopy::kRounded, 33, 0, 0},
        {ElementType::kF16, ActivationCopy::kSplit, 3, 0, 0},
        // Of the parts of both numbers.
        {ElementType::kF16, ActivationCopy::kSplit, 4, 1, 3 * 256 / 32},
        {ElementType::kF16, ActivationCopy::kSplit, 33, 3, 3 * 256 / 32},
    };
    for (const auto& [type, copy, n_tokens, tiles, products_of_block] : cases) {
      constexpr int64_t kLength = 512;
      const PackedMatrix matrix(type, kLength, RandomRows(type, kRows * kLength, random));
      const OwnedActivations activations(table, RandomFloats(n_tokens * kLength, random), n_tokens,
                                         kLength, copy);
      const int64_t before = emulated_tile_products;
      MatMul(table, matrix.rows, 0, kRows, activations.view());
      // For three groups of rows.
      EXPECT_EQ(emulated_tile_products - before, tiles * (kLength / 256) * 3 * products_of_block)
          << table.name << " " << Info(type).name << " " << n_tokens;
    }
  }
}

// Random numbers times a power of two, as rows of BF16 or F16.
std::vector<std::byte> RowsOfHalves(ElementType type, int64_t n, float scale,
                                    std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(n) * sizeof(uint16_t));
  for (size_t at = 0; const float number : RandomFloats(n, random)) {
    const float scaled = number * scale;
    const uint16_t bits = type == ElementType::kF16 ? F32ToF16(scaled) : F32ToBF16(scaled);
    std::memcpy(&bytes[at], &bits, sizeof(bits));
    at += sizeof(bits);
  }
  return bytes;
}

// By tiles, emulated or not, and F16 alone by vectors; of numbers whose products and sums are
// normal, denormal and neither.
TEST(TilesOfFloats, GiveTheSameBitsAloneAndTogetherAndInEveryTable) {
  std::vector<const KernelTable*> tables;
  for (const EmulatedTable& each : EmulatedAmxTables()) tables.push_back(&each.table);
  for (const KernelTable* table : AllKernelTables()) {
    if (table->copy_for_f16 == ActivationCopy::kSplit) tables.push_back(table);
  }
  std::erase_if(tables, [](const KernelTable* table) {
    const bool runs = table->is_available(HostCpu());
    if (!runs) GTEST_LOG_(INFO) << "SKIP: this CPU cannot run the " << table->name << " kernels";
    return !runs;
  });
  struct {
    ElementType type;
    ActivationCopy copy;
    float weights;
    float activations;
  } const cases[] = {
      {ElementType::kBF16, ActivationCopy::kRounded, 1, 1},
      {ElementType::kBF16, ActivationCopy::kRounded, 0x1p-70f, 0x1p-58f},
      {ElementType::kBF16, ActivationCopy::kRounded, 0x1p-126f, 0x1p+10f},
      {ElementType::kF16, ActivationCopy::kSplit, 1, 1},
      {ElementType::kF16, ActivationCopy::kSplit, 0x1p-16f, 0x1p-110f},
      {ElementType::kF16, ActivationCopy::kSplit, 1, 0x1p-120f},
  };
  std::mt19937 random(24);
  constexpr int64_t kLength = 320;
  constexpr int64_t kTokens = 40;
  for (const auto& [type, copy, of_weights, of_activations] : cases) {
    const PackedMatrix matrix(type, kLength,
                              RowsOfHalves(type, kRows * kLength, of_weights, random));
    std::vector<float> values = Values(kTokens, kLength, random);
    for (float& value : values) value *= of_activations;
    std::vector<float> expected;
    for (const KernelTable* table : tables) {
      const auto expect_same = [&](const std::vector<float>& found, const char* how) {
        for (size_t at = 0; at < found.size(); ++at) {
          const auto row = static_cast<int64_t>(at) % kRows;
          if (row >= kRows / kPackedGroupRows * kPackedGroupRows) continue;  // not packed
          ASSERT_TRUE(AreSameBits(found[at], expected[at]))
              << table->name << " " << Info(type).name << " times " << of_weights << how << " row "
              << row << ": " << found[at] << " instead of " << expected[at];
        }
      };
      const OwnedActivations all(*table, values, kTokens, kLength, copy);
      const std::vector<float> together = MatMul(*table, matrix.rows, 0, kRows, all.view());
      if (expected.empty()) expected = together;
      expect_same(together, ", together,");
      std::vector<float> alone;
      for (int64_t token = 0; token < kTokens; ++token) {
        const auto first = values.begin() + token * kLength;
        const OwnedActivations one(*table, {first, first + kLength}, 1, kLength, copy);
        const std::vector<float> out = MatMul(*table, matrix.rows, 0, kRows, one.view());
        alone.insert(alone.end(), out.begin(), out.end());
      }
      expect_same(alone, ", alone,");
      if (HasFatalFailure()) return;
    }
  }
}

TEST(EmulatedAmx, IsReachedByTheCheckOfEveryStart) {
  for (const auto& [table, original] : EmulatedAmxTables()) {
    if (!table.is_available(HostCpu())) {
      GTEST_LOG_(INFO) << "SKIP: this CPU cannot run the " << table.name << " kernels";
      continue;
    }
    for (const ElementTypeInfo& info : AllElementTypes()) {
      if (!IsMultipliedByTiles(info.type)) continue;
      const int64_t before = emulated_tile_products;
      EXPECT_EQ(FindDisagreement(table, std::span(&info.type, 1)), std::nullopt);
      // At least two tiles of tokens, the last one reaching back; two groups; 512 elements, 64 of
      // them in two products.
      EXPECT_GE(emulated_tile_products - before, 2 * 2 * (512 / 64) * 2) << info.name;
    }
  }
}

}  // namespace
}  // namespace thaw
