#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/kernel_test_support.h"
#include "kernels/unpack.h"
#include "kernels/x86/avx2.h"

namespace thaw {
namespace {

// Eight bytes behind the last number show whether anything was written there.
constexpr size_t kGuard = 8;

struct Unpacked {
  explicit Unpacked(int64_t k)
      : quants(static_cast<size_t>(k) + kGuard, 99),
        scales(static_cast<size_t>(k / kUnpackGroup) + kGuard, 99.0f),
        offsets(scales) {}

  void By(UnpackRowFunction unpack, const std::byte* row, int64_t k) {
    unpack(row, k, quants.data(), scales.data(), offsets.data());
  }

  std::vector<int8_t> quants;
  std::vector<float> scales;
  std::vector<float> offsets;
};

// The same bits, or both NaN: compilers may choose the sign of a NaN that a product makes.
bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return (std::isnan(x) && std::isnan(y)) ||
           std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

// Any bytes at all, so that scales are also infinite, NaN, negative, subnormal and zero.
TEST(VectorUnpackers, GiveTheSameBitsAsThePortableOnes) {
  if (!HostCpu().avx2 || !HostCpu().f16c) GTEST_SKIP() << "this CPU has no AVX2";
  std::mt19937 random(1);
  int tried = 0;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const UnpackRowFunction vector = avx2::FindUnpacker(info.type);
    if (vector == nullptr) continue;
    ++tried;
    const RowUnpacker* portable = FindRowUnpacker(info.type);
    ASSERT_NE(portable, nullptr) << info.name;
    for (int round = 0; round < 2000; ++round) {
      const int64_t k = info.block_elements * (1 + round % 5);
      ScratchMemory row(RowBytes(info.type, k), /*misalignment=*/static_cast<size_t>(round % 7));
      for (int64_t i = 0; i < RowBytes(info.type, k); ++i) {
        row.data()[i] = static_cast<std::byte>(random());
      }
      Unpacked expected(k);
      Unpacked found(k);
      expected.By(portable->unpack, row.data(), k);
      found.By(vector, row.data(), k);
      ASSERT_EQ(found.quants, expected.quants) << info.name;
      ASSERT_TRUE(SameBits(found.scales, expected.scales)) << info.name;
      if (portable->has_offsets) {
        ASSERT_TRUE(SameBits(found.offsets, expected.offsets)) << info.name;
      }
    }
  }
  EXPECT_EQ(tried, 7) << "the types that look points up in a grid";
}

}  // namespace
}  // namespace thaw
