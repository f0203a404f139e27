#include "kernels/unpack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tensor/blocks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

using ::testing::Each;

struct UnpackedRow {
  std::vector<int8_t> quants;
  std::vector<float> scales;
  std::vector<float> offsets;  // empty without offsets
};

// Unpacks into buffers with a guard behind each, and expects the guards unharmed.
UnpackedRow Unpack(const RowUnpacker& unpacker, const std::byte* row, int64_t k) {
  constexpr int8_t kGuard = 99;
  const int64_t groups = k / kUnpackGroup;
  UnpackedRow unpacked;
  unpacked.quants.assign(k + 1, kGuard);
  unpacked.scales.assign(groups + 1, kGuard);
  if (unpacker.has_offsets) unpacked.offsets.assign(groups + 1, kGuard);
  unpacker.unpack(row, k, unpacked.quants.data(), unpacked.scales.data(),
                  unpacker.has_offsets ? unpacked.offsets.data() : nullptr);
  EXPECT_EQ(unpacked.quants.back(), kGuard);
  EXPECT_EQ(unpacked.scales.back(), kGuard);
  unpacked.quants.pop_back();
  unpacked.scales.pop_back();
  if (unpacker.has_offsets) {
    EXPECT_EQ(unpacked.offsets.back(), kGuard);
    unpacked.offsets.pop_back();
  }
  return unpacked;
}

// NaN scales are equal when their bits are.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  const auto bits = [](float value) { return std::bit_cast<uint32_t>(value); };
  return std::ranges::equal(a, b, {}, bits, bits);
}

std::vector<std::byte> RandomBytes(int64_t size, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <typename Block>
const std::byte* Bytes(const Block& block) {
  return reinterpret_cast<const std::byte*>(&block);
}

TEST(UnpackTest, ExactlyTheQuantizedTypesHaveAnUnpacker) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const RowUnpacker* unpacker = FindRowUnpacker(info.type);
    ASSERT_EQ(unpacker != nullptr, info.is_quantized) << info.name;
    if (unpacker != nullptr) {
      EXPECT_EQ(unpacker->type, info.type) << info.name;
    }
  }
}

TEST(UnpackTest, Q4_0HoldsTheElementsOfItsSecondHalfInHighNibbles) {
  BlockQ4_0 block;
  block.d = F32ToF16(0.5f);
  for (int j = 0; j < 16; ++j) block.qs[j] = static_cast<uint8_t>(j | (15 - j) << 4);
  const UnpackedRow row = Unpack(*FindRowUnpacker(ElementType::kQ4_0), Bytes(block), 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(row.quants[j], j - 8);
    EXPECT_EQ(row.quants[16 + j], 7 - j);
  }
  EXPECT_THAT(row.scales, Each(0.5f));
}

TEST(UnpackTest, Q4_1AddsItsMinimum) {
  BlockQ4_1 block;
  block.d = F32ToF16(0.25f);
  block.m = F32ToF16(-3.0f);
  for (int j = 0; j < 16; ++j) block.qs[j] = static_cast<uint8_t>(j | (15 - j) << 4);
  const UnpackedRow row = Unpack(*FindRowUnpacker(ElementType::kQ4_1), Bytes(block), 32);
  for (int j = 0; j < 16; ++j) {
    EXPECT_EQ(row.quants[j], j);
    EXPECT_EQ(row.quants[16 + j], 15 - j);
  }
  EXPECT_THAT(row.scales, Each(0.25f));
  EXPECT_THAT(row.offsets, Each(-3.0f));
}

TEST(UnpackTest, Q8_0KeepsItsBytesEvenMinus128) {
  BlockQ8_0 block;
  block.d = F32ToF16(-2.0f);
  for (int j = 0; j < 32; ++j) block.qs[j] = static_cast<int8_t>(-128 + 8 * j);
  const UnpackedRow row = Unpack(*FindRowUnpacker(ElementType::kQ8_0), Bytes(block), 32);
  for (int j = 0; j < 32; ++j) EXPECT_EQ(row.quants[j], -128 + 8 * j);
  EXPECT_THAT(row.scales, Each(-2.0f));
}

class UnpackEveryTypeTest : public ::testing::TestWithParam<RowUnpacker> {
 protected:
  static constexpr int64_t kElements = 4096;

  const RowUnpacker& unpacker() const { return GetParam(); }
  int64_t row_bytes() const { return RowBytes(unpacker().type, kElements); }
};

TEST_P(UnpackEveryTypeTest, QuantsOfAnyBytesLieWithinPlusMinus127) {
  const std::vector<std::byte> bytes = RandomBytes(row_bytes(), 1);
  const int lowest = unpacker().type == ElementType::kQ8_0 ? -128 : -127;
  for (const int8_t quant : Unpack(unpacker(), bytes.data(), kElements).quants) {
    ASSERT_GE(quant, lowest);
  }
}

TEST_P(UnpackEveryTypeTest, RowsMayLieAtAnyAlignment) {
  const std::vector<std::byte> aligned = RandomBytes(row_bytes(), 2);
  const UnpackedRow expected = Unpack(unpacker(), aligned.data(), kElements);
  std::vector<std::byte> moved(aligned.size() + 3);
  for (int shift = 1; shift <= 3; ++shift) {
    std::copy(aligned.begin(), aligned.end(), moved.begin() + shift);
    const UnpackedRow row = Unpack(unpacker(), moved.data() + shift, kElements);
    EXPECT_EQ(row.quants, expected.quants) << shift;
    EXPECT_TRUE(SameBits(row.scales, expected.scales)) << shift;
    EXPECT_TRUE(SameBits(row.offsets, expected.offsets)) << shift;
  }
}

TEST_P(UnpackEveryTypeTest, ARowIsItsBlocksOneByOne) {
  const std::vector<std::byte> bytes = RandomBytes(row_bytes(), 3);
  const UnpackedRow row = Unpack(unpacker(), bytes.data(), kElements);
  const ElementTypeInfo& info = Info(unpacker().type);
  UnpackedRow joined;
  for (int64_t i = 0; i < kElements / info.block_elements; ++i) {
    const UnpackedRow block =
        Unpack(unpacker(), bytes.data() + i * info.block_bytes, info.block_elements);
    joined.quants.insert(joined.quants.end(), block.quants.begin(), block.quants.end());
    joined.scales.insert(joined.scales.end(), block.scales.begin(), block.scales.end());
    joined.offsets.insert(joined.offsets.end(), block.offsets.begin(), block.offsets.end());
  }
  EXPECT_EQ(row.quants, joined.quants);
  EXPECT_TRUE(SameBits(row.scales, joined.scales));
  EXPECT_TRUE(SameBits(row.offsets, joined.offsets));
}

TEST_P(UnpackEveryTypeTest, ZeroBytesMeanZero) {
  const std::vector<std::byte> bytes(row_bytes(), std::byte{0});
  const UnpackedRow row = Unpack(unpacker(), bytes.data(), kElements);
  for (int64_t i = 0; i < kElements; ++i) {
    const float offset = unpacker().has_offsets ? row.offsets[i / kUnpackGroup] : 0.0f;
    ASSERT_EQ(row.scales[i / kUnpackGroup] * row.quants[i] + offset, 0.0f) << i;
  }
}

std::vector<RowUnpacker> AllUnpackers() {
  std::vector<RowUnpacker> unpackers;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (const RowUnpacker* unpacker = FindRowUnpacker(info.type)) unpackers.push_back(*unpacker);
  }
  return unpackers;
}

INSTANTIATE_TEST_SUITE_P(Types, UnpackEveryTypeTest, ::testing::ValuesIn(AllUnpackers()),
                         [](const auto& unpacker) -> std::string {
                           return Info(unpacker.param.type).name;
                         });

}  // namespace
}  // namespace thaw
