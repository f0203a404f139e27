#include "engine/budget.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace thaw {
namespace {

// A thirty-second of what is left, and no less than this: page tables, sockets and other programs'
// small needs come out of it.
constexpr uint64_t kMarginShare = 32;
constexpr uint64_t kMinMarginBytes = uint64_t{8} << 20;

// Where no figure is known at all.
constexpr uint64_t kUnknownMemoryBytes = uint64_t{4} << 30;

struct Unit {
  std::string_view name;
  double bytes;
};

constexpr Unit kUnits[] = {{"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40},
                           {"kB", 1e3},     {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
                           {"K", 0x1p10},   {"M", 0x1p20},   {"G", 0x1p30},   {"T", 0x1p40},
                           {"B", 1},        {"", 1}};

struct Amount {
  uint64_t bytes = 0;
  double fraction = 0;
};

std::optional<Amount> ParseAmount(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number) || number < 0) return std::nullopt;
  const std::string_view unit(end, text.data() + text.size());
  if (unit == "%") return Amount{.fraction = number / 100};
  for (const Unit& known : kUnits) {
    if (unit != known.name) continue;
    const double bytes = number * known.bytes;
    if (bytes >= 0x1p62) return std::nullopt;
    return Amount{.bytes = static_cast<uint64_t>(bytes)};
  }
  return std::nullopt;
}

}  // namespace

Result<BudgetRequest> ParseBudget(std::string_view text) {
  constexpr std::string_view kFloor = "floor";
  BudgetRequest request{.base = BudgetRequest::Base::kNothing};
  std::string_view amount = text;
  if (text.starts_with(kFloor)) {
    request.base = BudgetRequest::Base::kFloor;
    amount.remove_prefix(kFloor.size());
    if (amount.empty()) return request;
    if (!amount.starts_with('+')) amount = "?";
    amount.remove_prefix(1);
  }
  const auto parsed = ParseAmount(amount);
  if (!parsed) {
    return Fail(ErrorCode::kInvalidArgument,
                "'{}' is no budget: expected bytes, a size such as 600MiB or 2.5GiB, 50% (of what "
                "the machine leaves), floor, floor+20MiB or floor+50% (of the weights)",
                text);
  }
  request.bytes = parsed->bytes;
  request.fraction = parsed->fraction;
  return request;
}

uint64_t AvailableBytes(const SystemInfo& system, uint64_t resident_bytes) {
  std::optional<uint64_t> left = system.memory_available;
  if (system.cgroup_limit) {
    const uint64_t used = system.cgroup_used.value_or(0);
    const uint64_t held = used - std::min(used, system.cgroup_page_cache.value_or(0));
    const uint64_t in_group = *system.cgroup_limit - std::min(*system.cgroup_limit, held);
    left = std::min(left.value_or(in_group), in_group);
  }
  return left.value_or(kUnknownMemoryBytes) + resident_bytes;
}

uint64_t DefaultBudget(const SystemInfo& system, uint64_t resident_bytes) {
  const uint64_t available = AvailableBytes(system, resident_bytes);
  return available - std::min(available, std::max(available / kMarginShare, kMinMarginBytes));
}

uint64_t BudgetBytes(const BudgetRequest& request, const BudgetBases& bases) {
  const auto amount = [&](uint64_t whole) {
    return request.bytes + static_cast<uint64_t>(request.fraction * static_cast<double>(whole));
  };
  switch (request.base) {
    case BudgetRequest::Base::kDefault:
      return bases.default_bytes;
    case BudgetRequest::Base::kNothing:
      return amount(bases.available_bytes);
    case BudgetRequest::Base::kFloor:
      return bases.floor_bytes + amount(bases.weight_bytes);
  }
  return bases.default_bytes;
}

}  // namespace thaw
