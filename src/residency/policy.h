// Which tiles stay in the weight cache: pure ordering, no memory and no clock of its own.
//
// The cache knows two ways to hold a tile. A tile with a *place* has memory of its own and never
// leaves it while the capacity lasts. All others share *slots*: a tile takes one when it is read,
// and a policy either lets it go after its visit or keeps it until another tile needs the slot.
//
//   policy     places                   slots
//   planned    as many as fit           let go after the visit: a ring for what is streamed; but
//                                       experts are kept, the least often visited leaves first
//   keep-all   all, or creation fails   none
//   lru        pinned weights alone     kept; the least recently visited leaves first
//   mru        pinned weights alone     kept; the most recently visited leaves first
//   lfu        pinned weights alone     kept; the least often visited leaves first
//   off        pinned weights alone     let go after the visit
//
// Decode visits every tile once a token in the same order, so below one full cycle lru hits
// nothing at all, and no policy hits more than the share that fits; planned reaches it. Of experts
// a token visits those alone that it chooses: which these will be nobody knows, so they are kept by
// how often they were chosen of late.
//
// Implementations are stateless and thread safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "residency/tile_map.h"

namespace thaw {

// What has been seen of a tile.
struct TileUse {
  uint64_t last_visit = 0;  // grows with every visit of any tile; 0: never visited
  int window_visits = 0;    // forward passes among the last `frequency_window` that visited it
};

enum class Placement {
  kPinnedOnly,  // only what the user pinned has a place
  kWhatFits,
  kAll,
};

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string_view name() const = 0;

  virtual Placement placement() const = 0;

  // Whether a tile, an expert's or one that every pass visits, stays in its slot after a visit,
  // until another one needs it.
  virtual bool keeps_slots(bool is_experts) const = 0;

  // Of two tiles that are in slots, whether `a` should leave before `b`.
  virtual bool LeavesBefore(const TileUse& a, const TileUse& b) const = 0;

  // All tiles, the most worth a place first. `uses` has what was seen of each so far.
  virtual std::vector<int32_t> PlaceOrder(std::span<const TileUse> uses) const = 0;
};

// Whether `a` was visited by fewer of the last passes than `b`, or by as many and longer ago.
bool IsUsedLess(const TileUse& a, const TileUse& b);

// kInvalidArgument, with the names that exist, for any other.
Result<const Policy*> FindPolicy(std::string_view name);

// Every policy, the default first.
std::span<const Policy* const> AllPolicies();

const Policy& PlannedPolicy();
const Policy& LruPolicy();
const Policy& LfuPolicy();
const Policy& MruPolicy();
const Policy& KeepAllPolicy();
const Policy& OffPolicy();

// The tiles [0, n) in an order of which every beginning, and so every rest, lies evenly spread.
std::vector<int32_t> SpreadOrder(int32_t n);

}  // namespace thaw
