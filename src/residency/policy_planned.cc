// Places for as many tiles as fit, the rest streamed: the best that any policy can do for weights
// that are visited in a fixed cycle. What is streamed is spread evenly over the cycle, so that
// reads hide behind the products of the tiles between. Experts get what memory the others leave.
#include <algorithm>

#include "residency/policy.h"

namespace thaw {
namespace {

class Planned final : public Policy {
 public:
  std::string_view name() const override { return "planned"; }
  Placement placement() const override { return Placement::kWhatFits; }
  bool keeps_slots(bool is_experts) const override { return is_experts; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override { return IsUsedLess(a, b); }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    std::vector<int32_t> order = SpreadOrder(static_cast<int32_t>(uses.size()));
    std::ranges::stable_sort(order, std::ranges::greater(), [&](int32_t tile) {
      return uses[static_cast<size_t>(tile)].window_visits;
    });
    return order;
  }
};

}  // namespace

const Policy& PlannedPolicy() {
  static const Planned policy;
  return policy;
}

}  // namespace thaw
