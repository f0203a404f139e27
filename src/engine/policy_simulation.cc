#include "engine/policy_simulation.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "io/file.h"
#include "residency/policy.h"
#include "residency/weight_cache.h"
#include "sampling/split_mix.h"

namespace thaw {
namespace {

// As long as another file, but its bytes are whatever the reader's memory holds: the pages behind a
// cache over it stay untouched.
class BlankFile final : public File {
 public:
  explicit BlankFile(const File& other) : path_(other.path()), size_(other.size()) {}

  const std::string& path() const override { return path_; }
  uint64_t size() const override { return size_; }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= size_) return 0;
    return static_cast<size_t>(std::min<uint64_t>(out.size(), size_ - offset));
  }

 private:
  const std::string path_;
  const uint64_t size_;
};

Result<TileMap> BlankCopy(const TileMap& original) {
  std::map<const File*, std::shared_ptr<const File>> blanks;
  const auto blank_out = [&](std::shared_ptr<const File>& file) {
    std::shared_ptr<const File>& blank = blanks[file.get()];
    if (blank == nullptr) blank = std::make_shared<BlankFile>(*file);
    file = blank;
  };
  std::vector<WeightMatrix> matrices(original.matrices().begin(), original.matrices().end());
  for (WeightMatrix& matrix : matrices) {
    blank_out(matrix.file);
    for (ExpertTensor& tensor : matrix.expert_tensors) blank_out(tensor.file);
    // As bytes, which nobody looks into: their memory stays untouched. Rows of frozen ones take as
    // much as they do on the whole.
    matrix.cols =
        matrix.is_frozen() ? FrozenBytes(*matrix.frozen) / matrix.rows : matrix.row_bytes();
    matrix.frozen = nullptr;
    matrix.type = ElementType::kI8;
    matrix.is_packed = false;
  }
  return TileMap::Create(std::move(matrices));
}

using Visits = std::vector<int32_t>;  // tiles, in the order of one pass

// Draws the experts of one layer.
std::vector<int64_t> DrawExperts(const WeightMatrix& matrix, SimulatedRouter router,
                                 SplitMix64& random) {
  std::vector<std::pair<double, int64_t>> arrivals;  // of each expert, at its own rate
  for (int64_t expert = 0; expert < matrix.n_experts; ++expert) {
    const int64_t rank = 1 + (expert + matrix.layer) % matrix.n_experts;
    const double slowness = router == SimulatedRouter::kZipf ? static_cast<double>(rank) : 1;
    arrivals.emplace_back(-std::log1p(-random.NextUnit()) * slowness, expert);
  }
  std::ranges::sort(arrivals);
  std::vector<int64_t> experts;
  for (int64_t i = 0; i < matrix.n_used; ++i) {
    experts.push_back(arrivals[static_cast<size_t>(i)].second);
  }
  std::ranges::sort(experts);
  return experts;
}

Visits DrawPass(const TileMap& map, SimulatedRouter router, SplitMix64& random) {
  Visits visits;
  std::vector<int64_t> experts;
  int32_t layer = -1;  // that they are of
  for (int32_t i = 0; i < static_cast<int32_t>(map.matrices().size()); ++i) {
    const WeightMatrix& matrix = map.matrix(i);
    if (matrix.is_chosen() && matrix.layer != layer) {
      experts = DrawExperts(matrix, router, random);
      layer = matrix.layer;
    }
    const auto visit = [&](const TileMap::Range& tiles) {
      for (int32_t tile = tiles.first; tile < tiles.first + tiles.count; ++tile) {
        visits.push_back(tile);
      }
    };
    if (!matrix.is_chosen()) visit(map.tiles_of(i));
    for (size_t e = 0; matrix.is_chosen() && e < experts.size(); ++e) {
      visit(map.tiles_of(i, experts[e]));
    }
  }
  return visits;
}

Result<void> RunPass(WeightCache& cache, const Visits& visits) {
  THAW_TRY(cache.BeginPass(cache.map().tile_count()));
  for (const int32_t tile : visits) THAW_TRY(cache.Pin(tile));
  return {};
}

// The share of the bytes of all passes from `first_counted` on that is hit when what is needed last
// is given up.
double BeladysHitRate(const TileMap& map, uint64_t capacity_bytes, std::span<const Visits> passes,
                      size_t first_counted) {
  Visits all;
  size_t uncounted = 0;
  for (size_t i = 0; i < passes.size(); ++i) {
    if (i == first_counted) uncounted = all.size();
    all.insert(all.end(), passes[i].begin(), passes[i].end());
  }
  std::vector<size_t> next(all.size());  // visit of the same tile; all.size(): none
  std::vector<size_t> latest(static_cast<size_t>(map.tile_count()), all.size());
  for (size_t i = all.size(); i-- > 0;) {
    next[i] = std::exchange(latest[static_cast<size_t>(all[i])], i);
  }
  std::set<std::pair<size_t, int32_t>> held;  // by the next visit
  uint64_t held_bytes = 0;
  uint64_t hit_bytes = 0;
  uint64_t counted_bytes = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const uint64_t bytes = map.tile(all[i]).bytes;
    const bool is_hit = held.erase({i, all[i]}) > 0;
    if (i >= uncounted) {
      counted_bytes += bytes;
      hit_bytes += is_hit ? bytes : 0;
    }
    if (!is_hit) held_bytes += bytes;
    held.insert({next[i], all[i]});
    while (held_bytes > capacity_bytes) {
      const auto last = std::prev(held.end());
      held_bytes -= map.tile(last->second).bytes;
      held.erase(last);
    }
  }
  return counted_bytes == 0 ? 1
                            : static_cast<double>(hit_bytes) / static_cast<double>(counted_bytes);
}

double Share(uint64_t part, uint64_t rest) {
  return part + rest == 0 ? 0 : static_cast<double>(part) / static_cast<double>(part + rest);
}

}  // namespace

std::string_view SimulatedRouterName(SimulatedRouter router) {
  return router == SimulatedRouter::kUniform ? "uniform" : "zipf";
}

Result<PolicySimulation> SimulatePolicies(const TileMap& map, uint64_t capacity_bytes,
                                          std::span<const std::string> pinned, int passes,
                                          SimulatedRouter router) {
  PolicySimulation simulation = {
      .capacity_bytes = capacity_bytes, .router = router, .passes = passes};
  // One pass finds what every pass visits; how often experts are used shows only in time.
  const int uncounted = map.has_experts() ? passes : 1;
  SplitMix64 random(1);
  std::vector<Visits> all_visits;
  for (int pass = 0; pass < uncounted + passes; ++pass) {
    all_visits.push_back(DrawPass(map, router, random));
  }
  if (map.has_experts()) {
    simulation.best_possible_hit_rate_bytes =
        BeladysHitRate(map, capacity_bytes, all_visits, static_cast<size_t>(uncounted));
  }
  for (const Policy* policy : AllPolicies()) {
    SimulatedPolicy& result = simulation.policies.emplace_back();
    result.policy = policy->name();
    THAW_ASSIGN(TileMap blank, BlankCopy(map));
    auto cache = WeightCache::Create(std::move(blank), {.capacity_bytes = capacity_bytes,
                                                        .policy = policy,
                                                        .pinned = {pinned.begin(), pinned.end()},
                                                        .prefetch_ahead = 0,
                                                        .io_threads = 1,
                                                        .use_uring = false});
    if (!cache) {
      if (cache.error().code != ErrorCode::kResourceExhausted) return Fail(cache.error());
      result.fits = false;
      continue;
    }
    const std::span<const Visits> visits = all_visits;
    const auto run = [&](std::span<const Visits> some) -> Result<void> {
      for (const Visits& of_pass : some) THAW_TRY(RunPass(**cache, of_pass));
      return {};
    };
    THAW_TRY(run(visits.first(static_cast<size_t>(uncounted))));
    const CacheStatistics first = (*cache)->Statistics();
    THAW_TRY(run(visits.subspan(static_cast<size_t>(uncounted))));
    const CacheStatistics all = (*cache)->Statistics();
    result.hit_rate = Share(all.hits - first.hits, all.misses - first.misses);
    result.hit_rate_bytes =
        Share(all.hit_bytes - first.hit_bytes, all.miss_bytes - first.miss_bytes);
    if (policy == &PlannedPolicy() && !map.has_experts()) {
      simulation.best_possible_hit_rate_bytes = all.shares.HitRateBytes();
    }
  }
  return simulation;
}

}  // namespace thaw
