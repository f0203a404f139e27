// The most recently visited tile leaves first: in a fixed cycle that is the one needed farthest in
// the future.
#include "residency/policy.h"

namespace thaw {
namespace {

class MostRecentlyUsed final : public Policy {
 public:
  std::string_view name() const override { return "mru"; }
  Placement placement() const override { return Placement::kPinnedOnly; }
  bool keeps_slots(bool /*is_experts*/) const override { return true; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override {
    return a.last_visit > b.last_visit;
  }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    return SpreadOrder(static_cast<int32_t>(uses.size()));
  }
};

}  // namespace

const Policy& MruPolicy() {
  static const MostRecentlyUsed policy;
  return policy;
}

}  // namespace thaw
