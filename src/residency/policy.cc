#include "residency/policy.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

namespace thaw {

std::span<const Policy* const> AllPolicies() {
  static const std::array<const Policy*, 6> all = {
      &PlannedPolicy(), &LruPolicy(), &LfuPolicy(), &MruPolicy(), &KeepAllPolicy(), &OffPolicy()};
  return all;
}

Result<const Policy*> FindPolicy(std::string_view name) {
  std::string names;
  for (const Policy* policy : AllPolicies()) {
    if (policy->name() == name) return policy;
    names += (names.empty() ? "" : ", ") + std::string(policy->name());
  }
  return Fail(ErrorCode::kInvalidArgument, "there is no policy '{}', only {}", name, names);
}

bool IsUsedLess(const TileUse& a, const TileUse& b) {
  if (a.window_visits != b.window_visits) return a.window_visits < b.window_visits;
  return a.last_visit < b.last_visit;
}

std::vector<int32_t> SpreadOrder(int32_t n) {
  // Multiples of the golden ratio, modulo 1, fill the unit interval evenly however many are taken,
  // so the tiles whose multiple lies below any bound stand at nearly equal distances.
  constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;  // its fraction, times 2^64
  std::vector<int32_t> order(static_cast<size_t>(n));
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {},
                    [](int32_t tile) { return static_cast<uint64_t>(tile) * kGoldenRatio; });
  return order;
}

}  // namespace thaw
