// Nothing stays: every visit reads. What all other policies are compared with.
#include "residency/policy.h"

namespace thaw {
namespace {

class Off final : public Policy {
 public:
  std::string_view name() const override { return "off"; }
  Placement placement() const override { return Placement::kPinnedOnly; }
  bool keeps_slots(bool /*is_experts*/) const override { return false; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override {
    return a.last_visit < b.last_visit;
  }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    return SpreadOrder(static_cast<int32_t>(uses.size()));
  }
};

}  // namespace

const Policy& OffPolicy() {
  static const Off policy;
  return policy;
}

}  // namespace thaw
