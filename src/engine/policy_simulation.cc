#include "engine/policy_simulation.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "io/file.h"
#include "residency/policy.h"
#include "residency/weight_cache.h"

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
  std::vector<WeightMatrix> matrices(original.matrices().begin(), original.matrices().end());
  for (WeightMatrix& matrix : matrices) {
    std::shared_ptr<const File>& blank = blanks[matrix.file.get()];
    if (blank == nullptr) blank = std::make_shared<BlankFile>(*matrix.file);
    matrix.file = blank;
    // As bytes, which nobody looks into: their memory stays untouched.
    matrix.cols = matrix.row_bytes();
    matrix.type = ElementType::kI8;
    matrix.is_packed = false;
  }
  return TileMap::Create(std::move(matrices));
}

Result<void> RunPass(WeightCache& cache) {
  THAW_TRY(cache.BeginPass(cache.map().tile_count()));
  for (int32_t tile = 0; tile < cache.map().tile_count(); ++tile) THAW_TRY(cache.Pin(tile));
  return {};
}

double Share(uint64_t part, uint64_t rest) {
  return part + rest == 0 ? 0 : static_cast<double>(part) / static_cast<double>(part + rest);
}

}  // namespace

Result<PolicySimulation> SimulatePolicies(const TileMap& map, uint64_t capacity_bytes,
                                          std::span<const std::string> pinned, int passes) {
  PolicySimulation simulation = {.capacity_bytes = capacity_bytes, .passes = passes};
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
    THAW_TRY(RunPass(**cache));
    const CacheStatistics first = (*cache)->Statistics();
    for (int pass = 0; pass < passes; ++pass) THAW_TRY(RunPass(**cache));
    const CacheStatistics all = (*cache)->Statistics();
    result.hit_rate = Share(all.hits - first.hits, all.misses - first.misses);
    result.hit_rate_bytes =
        Share(all.hit_bytes - first.hit_bytes, all.miss_bytes - first.miss_bytes);
    if (policy == &PlannedPolicy()) {
      simulation.best_possible_hit_rate_bytes = all.shares.HitRateBytes();
    }
  }
  return simulation;
}

}  // namespace thaw
