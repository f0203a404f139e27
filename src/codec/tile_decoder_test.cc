// Every decoder gives the bytes of the portable one, whatever the stream, and stays inside of it.
#include "codec/tile_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>

#include "codec/codec_test_support.h"

namespace thaw {
namespace {

using testing::HasSubstr;

const TileDecoder& Portable() { return *AllTileDecoders().back(); }

// What one decoder makes of a tile of one stream: the packed rows, and the error, empty without
// one.
struct Thawed {
  std::vector<std::byte> packed;
  std::string error;
};

// The tile lies in memory of exactly its bytes, and so does what is made of it.
Thawed Thaw(const TileDecoder& decoder, FrozenKind kind, int64_t rows, int64_t cols,
            std::span<const std::byte> tile) {
  const auto bytes = static_cast<size_t>(rows / kFrozenGroupRows * ThawedGroupBytes(kind, cols));
  const std::unique_ptr<std::byte[]> copy(new std::byte[tile.size()]);
  const std::unique_ptr<std::byte[]> packed(new std::byte[bytes]());
  std::ranges::copy(tile, copy.get());
  const auto outcome =
      ThawTile(decoder, kind, cols, rows, rows, {copy.get(), tile.size()}, packed.get());
  return {.packed = {packed.get(), packed.get() + bytes},
          .error = outcome ? "" : outcome.error().message};
}

class EachTileDecoder : public testing::TestWithParam<const TileDecoder*> {
 protected:
  void SetUp() override {
    if (!GetParam()->is_available(HostCpu())) {
      GTEST_SKIP() << "this CPU cannot run the decoder " << GetParam()->name;
    }
  }
  void ExpectTheBytesOfThePortable(FrozenKind kind, int64_t rows, int64_t cols,
                                   std::span<const std::byte> tile) {
    const Thawed expected = Thaw(Portable(), kind, rows, cols, tile);
    const Thawed found = Thaw(*GetParam(), kind, rows, cols, tile);
    EXPECT_EQ(found.error, expected.error);
    const auto [at, other] = std::ranges::mismatch(found.packed, expected.packed);
    EXPECT_EQ(at - found.packed.begin(), std::ssize(expected.packed)) << "the first that differs";
  }
};
INSTANTIATE_TEST_SUITE_P(, EachTileDecoder, testing::ValuesIn(AllTileDecoders()),
                         [](const auto& test) { return std::string(test.param->name); });

struct Shape {
  int64_t rows;
  int64_t cols;
};
constexpr Shape kShapes[] = {{16, 32},  {96, 32},   {32, 64},  {48, 96},
                             {16, 160}, {32, 2048}, {16, 5632}};

TEST_P(EachTileDecoder, GivesTheBytesOfThePortableForEcq) {
  std::set<int> raw_planes;
  std::set<int> sixteens_of_symbols;
  for (const auto [rows, cols] : kShapes) {
    for (const double deviation : {0.0, 0.3, 0.7, 1.5, 3.5, 6.0, 12.0, 24.0}) {
      for (const int tails : {0, 3, 300}) {
        // Shapes of many weights with some of the distributions.
        if (rows * cols > 16384 && (tails == 300) != (deviation == 1.5)) continue;
        SCOPED_TRACE(testing::Message() << rows << " " << cols << " " << deviation << " " << tails);
        const std::vector<std::byte> tile = RandomEcqRows(rows, cols, deviation, tails).Stream();
        raw_planes.insert(std::to_integer<int>(tile[16]));
        sixteens_of_symbols.insert(std::to_integer<int>(tile[17]) / 16);
        EXPECT_EQ(Thaw(*GetParam(), FrozenKind::kEcq, rows, cols, tile).error, "");
        ExpectTheBytesOfThePortable(FrozenKind::kEcq, rows, cols, tile);
      }
    }
  }
  EXPECT_EQ(raw_planes, (std::set<int>{0, 1, 2}));
  EXPECT_EQ(sixteens_of_symbols, (std::set<int>{0, 1, 2}));
}

TEST_P(EachTileDecoder, GivesTheBytesOfThePortableForBf16) {
  for (const auto [rows, cols] : kShapes) {
    for (const int tails : {0, 3, 1000}) {
      std::vector<std::byte> tile;
      AppendBf16Stream(rows, cols, RandomBf16(rows * cols, tails), tile);
      EXPECT_EQ(Thaw(*GetParam(), FrozenKind::kBf16, rows, cols, tile).error, "");
      ExpectTheBytesOfThePortable(FrozenKind::kBf16, rows, cols, tile);
    }
    std::vector<std::byte> tile;
    const std::vector<uint16_t> constant(static_cast<size_t>(rows * cols), 0xbf81);
    AppendBf16Stream(rows, cols, constant, tile);
    ExpectTheBytesOfThePortable(FrozenKind::kBf16, rows, cols, tile);
  }
}

// A stream whose head, shifts, scales and gaps keep to the format, and nothing else: everything
// that is coded is random bytes, of random lengths.
std::vector<std::byte> StreamOfAnything(FrozenKind kind, int64_t rows, int64_t cols,
                                        std::mt19937& random) {
  const auto below = [&](uint32_t n) { return static_cast<uint32_t>(random() % n); };
  const auto weights = static_cast<uint32_t>(rows * cols);
  const bool is_ecq = kind == FrozenKind::kEcq;
  FrozenStreamHeader header = {};
  header.rows = static_cast<uint32_t>(rows);
  // None, few, or more than are taken.
  const uint32_t lengths[] = {0, below(100), below(weights), weights};
  header.coded_bytes = lengths[below(4)];
  header.patches = lengths[below(3)] / 4;
  header.raw_planes = static_cast<uint8_t>(is_ecq ? below(3) : 8);
  header.symbols =
      static_cast<uint8_t>(2 + below(is_ecq ? std::min(43, (128 >> header.raw_planes) - 1) : 43));
  const uint32_t range = is_ecq ? 128 >> header.raw_planes : 256;
  const uint32_t first = below(range - header.symbols + 1);
  header.first_symbol = static_cast<uint8_t>(is_ecq ? first - range / 2 : first);
  // Some without a slot, none with all.
  const uint32_t favourite = below(header.symbols);
  const uint32_t of_favourite = below(126);
  ++header.frequencies[(favourite + 1) % header.symbols];
  for (uint32_t i = 1; i < kFrozenSlots - 1; ++i) {
    ++header.frequencies[i <= of_favourite ? favourite : below(header.symbols)];
  }
  ++header.frequencies[(favourite + 1) % header.symbols];
  const size_t raw = weights / 8 * header.raw_planes;
  const size_t scales = is_ecq ? 2 * static_cast<size_t>(rows) : 0;
  const size_t bytes =
      sizeof(header) + raw + scales + 3 * size_t{header.patches} + header.coded_bytes + 1024;
  std::vector<std::byte> stream((bytes + 63) / 64 * 64);
  std::generate_n(stream.begin(), bytes, [&] { return static_cast<std::byte>(random()); });
  std::memcpy(stream.data(), &header, sizeof(header));
  auto at = stream.begin() + static_cast<int64_t>(sizeof(header) + raw);
  at = std::fill_n(at, scales, std::byte{0x11});
  for (uint32_t i = 0; i < header.patches; ++i) {
    *at++ = static_cast<std::byte>(1 + below(4));
    *at++ = std::byte{0};
  }
  for (uint32_t i = 0; i < header.patches; ++i) *at++ |= std::byte{1};
  return stream;
}

TEST_P(EachTileDecoder, GivesTheBytesOfThePortableForAnythingAndStaysInside) {
  std::mt19937 random(1);
  for (const FrozenKind kind : kAllFrozenKinds) {
    for (int i = 0; i < 400; ++i) {
      const Shape shape = kShapes[random() % 5];
      const std::vector<std::byte> tile = StreamOfAnything(kind, shape.rows, shape.cols, random);
      SCOPED_TRACE(testing::Message() << FrozenKindName(kind) << ", stream " << i);
      ASSERT_TRUE(ParseFrozenStream(kind, shape.cols, shape.rows, tile));
      ExpectTheBytesOfThePortable(kind, shape.rows, shape.cols, tile);
      if (HasFailure()) break;
    }
  }
}

TEST(DecodersFor, AreThoseThatTheCpuRunsAndTheNameAllowsInTheirOrder) {
  const auto names = [](const std::vector<const TileDecoder*>& decoders) {
    std::vector<std::string> all;
    for (const TileDecoder* decoder : decoders) all.emplace_back(decoder->name);
    return all;
  };
  CpuFeatures cpu;
  for (const auto& [name, feature] : AllCpuFeatures()) cpu.*feature = true;
  EXPECT_THAT(DecodersFor("amx", cpu), testing::ElementsAreArray(AllTileDecoders()));
  EXPECT_THAT(names(DecodersFor("amx", CpuFeatures{})), testing::ElementsAre("portable"));
  EXPECT_THAT(names(DecodersFor("portable", cpu)), testing::ElementsAre("portable"));
  // Under the names that they have on some machine, whatever this one has.
  TileDecoder wide = Portable();
  wide.name = "avx512vbmi2";
  TileDecoder narrow = Portable();
  narrow.name = "avx2";
  const TileDecoder* const decoders[] = {&wide, &narrow, &Portable()};
  EXPECT_THAT(DecodersFor("avx2", cpu, decoders), testing::ElementsAre(&narrow, &Portable()));
  EXPECT_THAT(DecodersFor("avxvnni", cpu, decoders), testing::ElementsAre(&narrow, &Portable()));
  EXPECT_THAT(DecodersFor("avx512", cpu, decoders), testing::ElementsAreArray(decoders));
  narrow.is_available = [](const CpuFeatures&) { return false; };
  EXPECT_THAT(DecodersFor("avx2", cpu, decoders), testing::ElementsAre(&Portable()));
}

TEST(CodecBackend, IsRefusedWithTheNamesThatThereAre) {
  EXPECT_TRUE(CheckCodecBackend(kCpuBackend));
  const auto other = CheckCodecBackend("abacus");
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(other.error().message, testing::AllOf(HasSubstr("'abacus'"), HasSubstr("cpu")));
}

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
