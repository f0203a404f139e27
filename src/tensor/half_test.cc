#include "tensor/half.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace thaw {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// The value of a binary16 by its definition.
double HalfByDefinition(uint16_t half) {
  const int exponent = half >> 10 & 31;
  const int mantissa = half & 1023;
  const double sign = half & 0x8000 ? -1.0 : 1.0;
  if (exponent == 31) return mantissa == 0 ? sign * kInfinity : std::nan("");
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(HalfTest, EveryHalfWidensToItsValueByDefinition) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const float value = F16ToF32(static_cast<uint16_t>(half));
    const double expected = HalfByDefinition(static_cast<uint16_t>(half));
    ASSERT_EQ(std::isnan(value), std::isnan(expected)) << half;
    ASSERT_EQ(std::signbit(value), half >= 0x8000) << half;
    if (!std::isnan(expected)) {
      ASSERT_EQ(value, expected) << half;
    }
  }
}

TEST(HalfTest, EveryHalfSurvivesTheRoundTripAndNaNsBecomeQuiet) {
  for (uint32_t half = 0; half < 0x10000; ++half) {
    const bool is_nan = (half & 0x7fff) > 0x7c00;
    ASSERT_EQ(F32ToF16(F16ToF32(static_cast<uint16_t>(half))), half | (is_nan ? 0x0200 : 0))
        << half;
  }
}

TEST(HalfTest, NarrowingToF16RoundsToNearestAndTiesToEven) {
  // Between each half and the next: just below the middle, the middle, just above it.
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    const float low = F16ToF32(static_cast<uint16_t>(half));
    // Above the largest half lies 2^16, the step that binary16 no longer has.
    const float high = half == 0x7bff ? 65536.0f : F16ToF32(static_cast<uint16_t>(half + 1));
    const float middle = low + (high - low) / 2;  // exact: halves have 13 bits to spare in a float
    ASSERT_EQ(F32ToF16(std::nextafter(middle, 0.0f)), half);
    ASSERT_EQ(F32ToF16(middle), half + (half & 1));
    ASSERT_EQ(F32ToF16(std::nextafter(middle, kInfinity)), half + 1);
    ASSERT_EQ(F32ToF16(-middle), 0x8000 + half + (half & 1));
  }
}

TEST(HalfTest, NarrowingToF16OverflowsToInfinityAndUnderflowsToSignedZero) {
  EXPECT_EQ(F32ToF16(kInfinity), 0x7c00);
  EXPECT_EQ(F32ToF16(-std::numeric_limits<float>::max()), 0xfc00);
  EXPECT_EQ(F32ToF16(65504.0f), 0x7bff);
  EXPECT_EQ(F32ToF16(std::numeric_limits<float>::denorm_min()), 0x0000);
  EXPECT_EQ(F32ToF16(-1e-10f), 0x8000);
}

TEST(HalfTest, NarrowingKeepsNaN) {
  // A payload in the low bits only must not turn into an infinity.
  for (const uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fc00000u, 0xffffffffu}) {
    const auto nan = std::bit_cast<float>(bits);
    EXPECT_TRUE(std::isnan(F16ToF32(F32ToF16(nan)))) << bits;
    EXPECT_TRUE(std::isnan(BF16ToF32(F32ToBF16(nan)))) << bits;
    EXPECT_EQ(F32ToF16(nan) >> 15, bits >> 31) << bits;
    EXPECT_EQ(F32ToBF16(nan) >> 15, bits >> 31) << bits;
  }
}

TEST(HalfTest, EveryBF16IsTheUpperHalfOfAFloat) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = BF16ToF32(static_cast<uint16_t>(bits));
    ASSERT_EQ(std::bit_cast<uint32_t>(value), bits << 16);
    const bool is_nan = (bits & 0x7fff) > 0x7f80;
    ASSERT_EQ(F32ToBF16(value), bits | (is_nan ? 0x0040 : 0)) << bits;
  }
}

TEST(HalfTest, NarrowingToBF16RoundsToNearestAndTiesToEven) {
  for (uint32_t upper = 0; upper < 0x7f80; ++upper) {
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>(upper << 16 | 0x7fff)), upper);
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>(upper << 16 | 0x8000)), upper + (upper & 1));
    ASSERT_EQ(F32ToBF16(std::bit_cast<float>(upper << 16 | 0x8001)), upper + 1);
  }
}

TEST(HalfTest, E8M0CodesAreHalvedPowersOfTwo) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(HalvedE8M0ToF32(static_cast<uint8_t>(code)), std::ldexp(1.0f, code - 128)) << code;
  }
}

TEST(HalfTest, UE4M3CodesAreHalvedAndTheirNaNIsZero) {
  for (int code = 0; code < 256; ++code) {
    const int exponent = code >> 3 & 15;
    const int mantissa = code & 7;
    const float full = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                     : std::ldexp(1.0f + mantissa / 8.0f, exponent - 7);
    const float expected = code == 0x7f ? 0.0f : full / 2;
    EXPECT_EQ(HalvedUE4M3ToF32(static_cast<uint8_t>(code)), expected) << code;
  }
  EXPECT_EQ(HalvedUE4M3ToF32(0x7e), 224.0f);  // the largest value is 448
}

}  // namespace
}  // namespace thaw
