// The least recently visited tile leaves first. Below one full cycle of a decode it hits nothing:
// each tile leaves just before it is needed again.
#include "residency/policy.h"

namespace thaw {
namespace {

class LeastRecentlyUsed final : public Policy {
 public:
  std::string_view name() const override { return "lru"; }
  Placement placement() const override { return Placement::kPinnedOnly; }
  bool keeps_slots(bool /*is_experts*/) const override { return true; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override {
    return a.last_visit < b.last_visit;
  }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    return SpreadOrder(static_cast<int32_t>(uses.size()));
  }
};

}  // namespace

const Policy& LruPolicy() {
  static const LeastRecentlyUsed policy;
  return policy;
}

}  // namespace thaw
