#include "residency/placement.h"

#include <algorithm>
#include <optional>

#include "base/memory_region.h"
#include "base/round_up.h"
#include "base/units.h"

namespace thaw {
namespace {

constexpr uint64_t kHugePage = kHugePageBytes;

// With 16 slots and 8 reads in flight streaming measured 0.96 of what 32 slots gave, and larger
// rings cost more residency than they give.
constexpr int64_t kRingSlots = 16;

// What little is streamed hides behind the products with half of them: below this, the memory is
// worth more as places.
constexpr int64_t kSmallRingSlots = 8;
constexpr uint64_t kLightStreamBytes = uint64_t{40} << 20;

// One being multiplied, one being read, and one more for a second thread.
constexpr int64_t kMinSlots = 3;

// At small capacities no more than this part of them is ring.
constexpr uint64_t kRingShare = 4;

uint64_t SpanOf(const TileMap& map, const std::vector<char>& tiles) {
  uint64_t bytes = 0;
  for (int32_t t = 0; t < map.tile_count(); ++t) {
    if (tiles[static_cast<size_t>(t)] != 0) bytes += map.tile(t).span_bytes;
  }
  return bytes;
}

// Counts what is held how. Slots keep experts' tiles where the policy says so.
void CountShares(const TileMap& map, const Policy& policy, PlacementTargets& targets) {
  WeightShares& shares = targets.shares;
  shares = {.visited_bytes_per_token = map.visited_bytes()};
  double of_experts = 0;  // visited
  int64_t in_slots = 0;   // tiles that slots keep, if there are enough
  const bool keeps_experts = policy.keeps_slots(/*is_experts=*/true);
  const bool keeps_others = policy.keeps_slots(/*is_experts=*/false);
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    const uint64_t bytes = map.tile(tile).bytes;
    if (targets.placed[static_cast<size_t>(tile)] != 0) {
      shares.resident_bytes += bytes;
    } else if (map.is_chosen(tile)) {
      shares.expert_bytes += bytes;
      of_experts += map.visited_bytes(tile);
      in_slots += keeps_experts ? 1 : 0;
    } else {
      shares.streamed_bytes += bytes;
      in_slots += keeps_others ? 1 : 0;
    }
  }
  double kept = 0;
  if (keeps_experts && in_slots > 0) {
    kept = std::min(1.0, static_cast<double>(targets.slots) / static_cast<double>(in_slots));
  }
  shares.kept_bytes = static_cast<uint64_t>(kept * static_cast<double>(shares.expert_bytes));
  shares.read_bytes_per_token =
      static_cast<double>(shares.streamed_bytes) + (1 - kept) * of_experts;
}

// Gives places in order while `room` lasts, slots being chosen; what is too large is passed over.
void Place(const TileMap& map, const Policy& policy, const std::vector<char>& allowed,
           uint64_t room, PlacementTargets& targets) {
  targets.placed.assign(static_cast<size_t>(map.tile_count()), 0);
  for (const int32_t tile : targets.order) {
    const uint64_t span = map.tile(tile).span_bytes;
    if (allowed[static_cast<size_t>(tile)] == 0 || span > room) continue;
    room -= span;
    targets.placed[static_cast<size_t>(tile)] = 1;
  }
  CountShares(map, policy, targets);
}

// The tiles that every pass visits, and those that are pinned.
std::vector<char> WithoutExperts(const TileMap& map, const std::vector<char>& pinned) {
  std::vector<char> tiles = pinned;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    if (!map.is_chosen(tile)) tiles[static_cast<size_t>(tile)] = 1;
  }
  return tiles;
}

// What every pass visits has places; all other memory is slots, where experts stay by their use.
// Nothing where that does not fit.
std::optional<PlacementTargets> PlaceBesideExperts(const TileMap& map, const Policy& policy,
                                                   const std::vector<char>& pinned,
                                                   PlacementTargets targets) {
  const std::vector<char> dense = WithoutExperts(map, pinned);
  int64_t others = 0;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
    if (dense[static_cast<size_t>(tile)] != 0) continue;
    ++others;
    targets.slot_span_bytes = std::max(targets.slot_span_bytes, map.tile(tile).span_bytes);
  }
  const uint64_t dense_span = SpanOf(map, dense);
  if (others == 0 || dense_span > targets.capacity_bytes) return std::nullopt;
  const uint64_t room = targets.capacity_bytes - dense_span;
  targets.slots = std::min(others, static_cast<int64_t>(room / targets.slot_span_bytes));
  if (targets.slots < std::min(kMinSlots, others)) return std::nullopt;
  targets.slot_bytes = static_cast<uint64_t>(targets.slots) * targets.slot_span_bytes;
  Place(map, policy, dense, dense_span, targets);
  return targets;
}

}  // namespace

uint64_t FullCapacity(const TileMap& map, const Policy& policy) {
  const uint64_t slots = static_cast<uint64_t>(map.tile_count()) * map.largest_span_bytes();
  return RoundUp(policy.placement() == Placement::kPinnedOnly ? slots : map.span_bytes(),
                 kHugePage);
}

uint64_t AddressBytes(const TileMap& map) {
  return RoundUp(static_cast<uint64_t>(map.tile_count()) * map.most_tile_span_bytes(), kHugePage);
}

uint64_t MinimumCapacity(const TileMap& map, const Policy& policy,
                         const std::vector<char>& pinned) {
  const uint64_t everything = RoundUp(map.span_bytes(), kHugePage);
  if (policy.placement() == Placement::kAll) return everything;
  const int64_t slots = std::min<int64_t>(kMinSlots, std::ranges::count(pinned, 0));
  const uint64_t with_slots = RoundUp(
      SpanOf(map, pinned) + static_cast<uint64_t>(slots) * map.largest_span_bytes(), kHugePage);
  return policy.placement() == Placement::kPinnedOnly ? with_slots
                                                      : std::min(everything, with_slots);
}

Result<PlacementTargets> ChoosePlacement(const TileMap& map, const Policy& policy,
                                         std::span<const TileUse> uses,
                                         const std::vector<char>& pinned, uint64_t capacity_bytes) {
  const uint64_t minimum = MinimumCapacity(map, policy, pinned);
  if (capacity_bytes < minimum) {
    return Fail(ErrorCode::kResourceExhausted, "{} for weights are too few: policy '{}' needs {}{}",
                FormatBytes(capacity_bytes), policy.name(), FormatBytes(minimum),
                std::ranges::count(pinned, 1) > 0 ? " with what is pinned" : "");
  }
  PlacementTargets targets;
  targets.capacity_bytes =
      std::min(capacity_bytes, FullCapacity(map, policy)) / kHugePage * kHugePage;
  targets.order = policy.PlaceOrder(uses);
  std::ranges::stable_partition(targets.order,
                                [&](int32_t tile) { return pinned[static_cast<size_t>(tile)]; });

  const std::vector<char> all(pinned.size(), 1);
  const bool everything_fits = targets.capacity_bytes >= map.span_bytes();
  const bool pinned_only = policy.placement() == Placement::kPinnedOnly;
  if (everything_fits && (!pinned_only || std::ranges::count(pinned, 0) == 0)) {
    Place(map, policy, all, targets.capacity_bytes, targets);
    return targets;
  }
  if (!pinned_only && map.has_experts() && policy.keeps_slots(/*is_experts=*/true)) {
    if (auto beside = PlaceBesideExperts(map, policy, pinned, targets)) return *std::move(beside);
  }
  const uint64_t slot = map.largest_span_bytes();
  targets.slot_span_bytes = slot;
  // Places are for what every pass visits.
  const std::vector<char> allowed = pinned_only ? pinned : WithoutExperts(map, pinned);
  const uint64_t pinned_span = SpanOf(map, pinned);
  const auto most_slots = static_cast<int64_t>((targets.capacity_bytes - pinned_span) / slot);
  const auto place = [&](int64_t slots) {
    targets.slots = std::clamp(slots, std::min(kMinSlots, most_slots), most_slots);
    targets.slot_bytes = static_cast<uint64_t>(targets.slots) * slot;
    Place(map, policy, allowed, targets.capacity_bytes - targets.slot_bytes, targets);
  };
  if (policy.keeps_slots(/*is_experts=*/false)) {
    place(std::min<int64_t>(most_slots, map.tile_count()));
    return targets;
  }
  place(std::min(kRingSlots, static_cast<int64_t>(targets.capacity_bytes / kRingShare / slot)));
  if (targets.slots > kSmallRingSlots && targets.shares.streamed_bytes <= kLightStreamBytes) {
    place(kSmallRingSlots);
  }
  return targets;
}

bool MatchesPattern(std::string_view name, std::string_view pattern) {
  size_t n = 0;
  size_t p = 0;
  size_t star = std::string_view::npos;  // the latest in the pattern
  size_t after_star = 0;                 // how far in the name it reaches
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = n;
    } else if (p < pattern.size() && pattern[p] == name[n]) {
      ++p;
      ++n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

Result<std::vector<char>> MatchTiles(const TileMap& map, std::span<const std::string> patterns) {
  std::vector<char> matched(static_cast<size_t>(map.tile_count()), 0);
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (int32_t tile = 0; tile < map.tile_count(); ++tile) {
      if (!MatchesPattern(map.matrix_of(tile).name, pattern)) continue;
      matched[static_cast<size_t>(tile)] = 1;
      any = true;
    }
    if (!any) {
      return Fail(ErrorCode::kInvalidArgument,
                  "no weights are named '{}' (`*` stands for any characters, names are those that "
                  "`thaw inspect` lists)",
                  pattern);
    }
  }
  return matched;
}

}  // namespace thaw
