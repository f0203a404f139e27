// Every decoder gives the bytes of the portable one, whatever the stream, and stays inside of it.
#include "codec/tile_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "codec/codec_test_support.h"

namespace thaw {
namespace {

using testing::HasSubstr;

const TileDecoder& Portable() { return *AllTileDecoders().back(); }

std::string ErrorOf(std::span<const std::byte> tile, FrozenKind kind, int64_t cols, int64_t rows) {
  std::vector<std::byte> group(static_cast<size_t>(ThawedGroupBytes(kind, cols)));
  const auto outcome = CheckTile(Portable(), kind, cols, rows, rows, tile, group.data());
  return outcome ? "" : outcome.error().message;
}

TEST(TileDecoder, ATileOfSeveralStreamsThawsWhole) {
  const EcqRows first = RandomEcqRows(32, 96, 2, 10, 1);
  const EcqRows second = RandomEcqRows(16, 96, 4, 10, 2);
  std::vector<std::byte> tile = first.Stream();
  AppendEcqStream(second.rows, second.cols, second.q, second.scales, second.shifts, tile);
  std::vector<std::byte> packed(static_cast<size_t>(3 * ThawedGroupBytes(FrozenKind::kEcq, 96)));
  EXPECT_TRUE(ThawTile(Portable(), FrozenKind::kEcq, 96, 32, 48, tile, packed.data()));
}

TEST(TileDecoder, WhatIsWrongWithAStreamIsNamed) {
  const EcqRows rows = RandomEcqRows(16, 64, 3, 50);
  const std::vector<std::byte> good = rows.Stream();
  ASSERT_EQ(ErrorOf(good, FrozenKind::kEcq, 64, 16), "");
  auto changed = good;
  changed[0] = std::byte{32};
  EXPECT_THAT(ErrorOf(changed, FrozenKind::kEcq, 64, 16), HasSubstr("rows are 32, expected 16"));
  changed = good;
  changed[16] = std::byte{3};
  EXPECT_THAT(ErrorOf(changed, FrozenKind::kEcq, 64, 16), HasSubstr("raw planes are 3"));
  changed = good;
  changed[20] ^= std::byte{1};
  EXPECT_THAT(ErrorOf(changed, FrozenKind::kEcq, 64, 16), HasSubstr("frequencies add up to"));
  changed = good;
  changed.resize(changed.size() - 64);
  EXPECT_THAT(ErrorOf(changed, FrozenKind::kEcq, 64, 16), HasSubstr("expected at most"));
  changed = good;
  changed.resize(changed.size() + 64);
  EXPECT_THAT(ErrorOf(changed, FrozenKind::kEcq, 64, 16), HasSubstr("its streams take"));
}

// A change behind the head may turn into other weights, but one in what is coded shows at the end.
TEST(TileDecoder, AChangedCodedByteShowsAtTheEnd) {
  const EcqRows rows = RandomEcqRows(16, 64, 3, 50);
  const std::vector<std::byte> good = rows.Stream();
  const auto stream = ParseFrozenStream(FrozenKind::kEcq, 64, 16, good);
  ASSERT_TRUE(stream);
  for (const std::byte* at = stream->coded; at < stream->states + 1024; ++at) {
    auto changed = good;
    changed[static_cast<size_t>(at - good.data())] ^= std::byte{0x40};
    EXPECT_NE(ErrorOf(changed, FrozenKind::kEcq, 64, 16), "") << at - good.data();
  }
}

}  // namespace
}  // namespace thaw
