// Every tile has a place of its own: the cache without eviction, for weights that fit.
#include "residency/policy.h"

namespace thaw {
namespace {

class KeepAll final : public Policy {
 public:
  std::string_view name() const override { return "keep-all"; }
  Placement placement() const override { return Placement::kAll; }
  bool keeps_slots(bool /*is_experts*/) const override { return false; }
  bool LeavesBefore(const TileUse& a, const TileUse& b) const override {
    return a.last_visit < b.last_visit;
  }
  std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const override {
    return SpreadOrder(static_cast<int32_t>(uses.size()));
  }
};

}  // namespace

const Policy& KeepAllPolicy() {
  static const KeepAll policy;
  return policy;
}

}  // namespace thaw
