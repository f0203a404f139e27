// The products with I8MM against those with dot products alone.
#include <algorithm>
#include <cstring>

#include "kernels/arm/dotprod.h"
#include "kernels/arm/i8mm.h"
#include "kernels/kernel_test_support.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

TEST(PackedProductsWithI8mm, AreThoseWithDotProductsBitForBit) {
  if (!HostCpu().i8mm || !HostCpu().asimddp) GTEST_SKIP() << "this CPU has no i8mm";
  std::mt19937 random(1);
  constexpr int64_t kGroups = 3;
  constexpr int64_t kRows = kGroups * kPackedGroupRows;
  constexpr int64_t kTokens = 14;  // more than a tile, and a rest
  const KernelTable& table = **SelectKernels("i8mm");
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const int64_t k = 2048 + std::max(info.block_elements, kActivationStep);
    if (!CanMultiply(info.type) || !CanPackRows(info.type, k)) continue;
    std::vector<std::byte> rows = RandomRows(info.type, kRows * k, random);
    std::vector<std::byte> pack_scratch(static_cast<size_t>(PackScratchBytes(info.type, k)));
    PackRows(info.type, k, kRows, rows.data(), rows.data(), pack_scratch.data());
    std::vector<float> values = RandomFloats(kTokens * k, random);
    for (size_t i = 3; i < values.size(); i += 97) values[i] *= 20;  // outliers
    const OwnedActivations activations(table, values, kTokens, k);
    std::vector<float> with(static_cast<size_t>(kTokens * kRows));
    std::vector<float> without(with.size());
    ScratchMemory scratch(kPackedScratchBytes);
    i8mm::MultiplyPacked(info.type, rows.data(), kGroups, activations.view(), with.data(), kRows,
                         scratch.data());
    dotprod::MultiplyPacked(info.type, rows.data(), kGroups, activations.view(), without.data(),
                            kRows, scratch.data());
    EXPECT_EQ(0, std::memcmp(with.data(), without.data(), with.size() * sizeof(float)))
        << info.name;
  }
}

}  // namespace
}  // namespace thaw
