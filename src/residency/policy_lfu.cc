// The tile that the fewest of the last forward passes visited leaves first, the least recently
// visited among equals: made for weights of which each pass needs only some.
#include "residency/policy.h"

namespace thaw {
namespace {

class LeastFrequentlyUsed final : public Policy {
 public:
  std::string_view name() const override { return "lfu"; }
  Placement placement() const override { return Placement::kPinnedOnly; }
  bool keeps_slots(bool /*is_experts*/) const override { return true; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override { return IsUsedLess(a, b); }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    return SpreadOrder(static_cast<int32_t>(uses.size()));
  }
};

}  // namespace

const Policy& LfuPolicy() {
  static const LeastFrequentlyUsed policy;
  return policy;
}

}  // namespace thaw
