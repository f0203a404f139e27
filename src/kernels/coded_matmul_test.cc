// Products of coded rows have the bits of those of the same rows thawed, in every table.
#include "kernels/coded_matmul.h"

#include <gtest/gtest.h>

#include <random>

#include "base/aligned_buffer.h"
#include "base/cpu_features.h"
#include "codec/codec_test_support.h"
#include "codec/tile_decoder.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

constexpr int64_t kRowsPerStream = 32;
constexpr int64_t kRows = 2 * kRowsPerStream + 16;

AlignedBuffer Allocate(int64_t bytes) {
  return *AlignedBuffer::Allocate(static_cast<size_t>(bytes), "a test");
}

// A tile of three streams, and its rows as they would lie in a file.
struct CodedTile {
  std::vector<std::byte> coded;
  std::vector<std::byte> rows;
};

CodedTile MakeTile(FrozenKind kind, int64_t k) {
  CodedTile tile;
  for (int64_t row = 0; row < kRows; row += kRowsPerStream) {
    const int64_t n = std::min(kRowsPerStream, kRows - row);
    const auto seed = static_cast<uint32_t>(row + k);
    if (kind == FrozenKind::kEcq) {
      // With none, one and two raw planes.
      const double deviation = row == 0 ? 3 : row == kRowsPerStream ? 7 : 20;
      const EcqRows made = RandomEcqRows(n, k, deviation, 5, seed);
      AppendEcqStream(n, k, made.q, made.scales, made.shifts, tile.coded);
      const std::vector<std::byte> rows = made.AsQ8_0();
      tile.rows.insert(tile.rows.end(), rows.begin(), rows.end());
    } else {
      const std::vector<uint16_t> made = RandomBf16(n * k, row == 0 ? 0 : 5, seed);
      AppendBf16Stream(n, k, made, tile.coded);
      const auto bytes = std::as_bytes(std::span(made));
      tile.rows.insert(tile.rows.end(), bytes.begin(), bytes.end());
    }
  }
  return tile;
}

struct CodedProduct {
  FrozenKind kind;
  ActivationCopy copy;
};

class CodedMatMul : public testing::TestWithParam<CodedProduct> {};

TEST_P(CodedMatMul, HasTheBitsOfTheThawedRows) {
  const FrozenKind kind = GetParam().kind;
  for (const KernelTable* kernels : AllKernelTables()) {
    if (!kernels->is_available(HostCpu())) continue;
    // 4160 columns: more than a segment of outliers and two chunks of bf16.
    for (const int64_t k : {64, 96, 1056, 4160}) {
      for (const int64_t n_tokens : {1, 3, 8, 20}) {
        SCOPED_TRACE(testing::Message() << kernels->name << " " << k << " " << n_tokens);
        const CodedTile tile = MakeTile(kind, k);
        std::mt19937 random(5);
        std::normal_distribution<float> normal;
        std::vector<float> x(static_cast<size_t>(n_tokens * k));
        for (float& number : x) number = normal(random);
        for (size_t i = 5; i < x.size(); i += 31) x[i] *= 20;
        AlignedBuffer quantized = Allocate(ActivationBytes(n_tokens, k));
        const Activations a =
            ViewActivations(x.data(), n_tokens, k, quantized.data(), GetParam().copy);
        kernels->quantize_activations(a, 0, n_tokens);
        AlignedBuffer scratch = Allocate(CodedScratchBytes(kind, k));
        std::vector<float> expected(static_cast<size_t>(n_tokens * kRows));
        kernels->matmul(
            {.type = ThawedType(kind), .data = tile.rows.data(), .n_rows = kRows, .k = k}, 0, kRows,
            a, expected.data(), kRows, scratch.data());
        // Tables that pack rows add in another order when they are given others.
        std::vector<std::byte> packed = tile.rows;
        if (kernels->packs_rows) {
          std::vector<std::byte> room(static_cast<size_t>(PackScratchBytes(ThawedType(kind), k)));
          PackRows(ThawedType(kind), k, kRows, tile.rows.data(), packed.data(), room.data());
          kernels->matmul({.type = ThawedType(kind),
                           .data = packed.data(),
                           .n_rows = kRows,
                           .k = k,
                           .is_packed = true},
                          0, kRows, a, expected.data(), kRows, scratch.data());
        }
        const CodedRows coded{.kind = kind,
                              .data = tile.coded.data(),
                              .n_rows = kRows,
                              .k = k,
                              .rows_per_stream = kRowsPerStream};
        std::vector<float> got(expected.size());
        const TileDecoder& decoder = *DecodersFor(kernels->name, HostCpu()).front();
        // Streams in any order, one or two at a time.
        MultiplyCoded(*kernels, decoder, coded, 32, 80, a, got.data(), kRows, scratch.data());
        MultiplyCoded(*kernels, decoder, coded, 0, 32, a, got.data(), kRows, scratch.data());
        EXPECT_EQ(got, expected);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(OfEveryKind, CodedMatMul,
                         testing::Values(CodedProduct{FrozenKind::kEcq, ActivationCopy::kNarrow},
                                         CodedProduct{FrozenKind::kBf16, ActivationCopy::kNarrow},
                                         CodedProduct{FrozenKind::kBf16, ActivationCopy::kRounded}),
                         [](const auto& test) {
                           return std::string(FrozenKindName(test.param.kind)) +
                                  (test.param.copy == ActivationCopy::kRounded ? "_rounded" : "");
                         });

}  // namespace
}  // namespace thaw
