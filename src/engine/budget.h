// What a user states as a budget, and how many bytes that is.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "base/system_info.h"

namespace thaw {

// "450MiB", "2.5GiB", "1000000": bytes. "50%": of what the machine or its cgroup leaves. "floor",
// "floor+20MiB", "floor+50%": above the least with which the model runs, the percentage being of
// its weights.
struct BudgetRequest {
  enum class Base { kDefault, kNothing, kFloor };
  Base base = Base::kDefault;
  uint64_t bytes = 0;   // above the base
  double fraction = 0;  // above the base; 0.5 for 50 %
};

// kInvalidArgument with the forms that are understood.
Result<BudgetRequest> ParseBudget(std::string_view text);

// Bytes that this process may come to hold in all: what it holds now (`resident_bytes`) and what
// the machine, or the tightest cgroup around it, still leaves. Page cache counts as left, for the
// system takes it back. Absent figures bound nothing.
uint64_t AvailableBytes(const SystemInfo& system, uint64_t resident_bytes);

// AvailableBytes less a margin: what is left also moves without us.
uint64_t DefaultBudget(const SystemInfo& system, uint64_t resident_bytes);

// What a request is relative to.
struct BudgetBases {
  uint64_t available_bytes = 0;  // AvailableBytes
  uint64_t default_bytes = 0;    // DefaultBudget
  uint64_t floor_bytes = 0;
  uint64_t weight_bytes = 0;
};
uint64_t BudgetBytes(const BudgetRequest& request, const BudgetBases& bases);

}  // namespace thaw
