// What is encoded decodes to the same, and takes about as many bits as its entropy.
#include "codec/stream_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "codec/codec_test_support.h"
#include "codec/tile_decoder.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

const TileDecoder& Portable() { return *AllTileDecoders().back(); }

// The rows of a tile of one stream as they would lie in a file.
std::vector<std::byte> RowsOf(FrozenKind kind, int64_t rows, int64_t cols,
                              std::span<const std::byte> tile) {
  std::vector<std::byte> packed(static_cast<size_t>(rows / 16 * ThawedGroupBytes(kind, cols)));
  const auto outcome = ThawTile(Portable(), kind, cols, rows, rows, tile, packed.data());
  EXPECT_TRUE(outcome) << outcome.error().message;
  std::vector<std::byte> out(packed.size());
  const int64_t row_bytes = RowBytes(ThawedType(kind), cols);
  for (int64_t row = 0; row < rows; ++row) {
    CopyPackedRow(ThawedType(kind), cols, rows, packed.data(), row, out.data() + row * row_bytes);
  }
  return out;
}

double Entropy(std::span<const int8_t> q) {
  std::map<int, double> counts;
  for (const int8_t x : q) ++counts[x >> 1];
  double bits = 0;
  for (const auto& [m, count] : counts) {
    bits -= count * std::log2(count / static_cast<double>(q.size()));
  }
  return bits / static_cast<double>(q.size());
}

TEST(StreamEncoder, EcqComesBackAsItWas) {
  for (const int64_t cols : {32, 64, 96, 416}) {
    for (const double deviation : {0.0, 0.3, 1.5, 3.6, 7.0, 15.0, 30.0}) {
      for (const int tails : {0, 20}) {
        SCOPED_TRACE(testing::Message() << cols << " " << deviation << " " << tails);
        const EcqRows made = RandomEcqRows(48, cols, deviation, tails);
        EXPECT_EQ(RowsOf(FrozenKind::kEcq, 48, cols, made.Stream()), made.AsQ8_0());
      }
    }
  }
}

TEST(StreamEncoder, EcqTakesFewBitsMoreThanItsEntropy) {
  for (const double deviation : {1.2, 1.8, 3.6, 7.0, 14.0}) {
    const EcqRows made = RandomEcqRows(128, 4096, deviation);
    const auto weights = static_cast<double>(made.q.size());
    const double bits = 8 * static_cast<double>(made.Stream().size()) / weights;
    const double entropy = Entropy(made.q);
    RecordProperty("bits", std::to_string(bits) + " of " + std::to_string(entropy));
    // 0.0166 bits are states and header, 0.004 the scales.
    EXPECT_LT(bits, 1.013 * entropy + 0.022) << deviation << ": entropy " << entropy;
  }
}

TEST(StreamEncoder, Bf16ComesBackAsItWas) {
  for (const int64_t cols : {32, 96, 416}) {
    for (const int tails : {0, 20, 1000}) {
      const std::vector<uint16_t> made = RandomBf16(48 * cols, tails);
      std::vector<std::byte> stream;
      AppendBf16Stream(48, cols, made, stream);
      const auto bytes = std::as_bytes(std::span(made));
      EXPECT_THAT(RowsOf(FrozenKind::kBf16, 48, cols, stream),
                  testing::ElementsAreArray(bytes.begin(), bytes.end()));
    }
  }
}

TEST(StreamEncoder, Bf16OfANormalDistributionTakesTwoThirds) {
  const std::vector<uint16_t> made = RandomBf16(128 * 4096);
  std::vector<std::byte> stream;
  AppendBf16Stream(128, 4096, made, stream);
  EXPECT_LT(static_cast<double>(stream.size()), 0.67 * 2 * static_cast<double>(made.size()));
}

}  // namespace
}  // namespace thaw
