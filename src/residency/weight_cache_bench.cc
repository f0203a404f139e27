// What a visit of a resident tile costs, statistics and tracker included, by 1 and 2 threads; and
// what a row of an embedding costs, from resident tiles and from the row cache.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <vector>

#include "io/memory_file.h"
#include "residency/weight_cache.h"

namespace thaw {
namespace {

constexpr int64_t kRows = 16 * 128;
constexpr int64_t kCols = 1024;  // of float32: 4 KiB a row, 128 rows a tile

const std::shared_ptr<WeightCache>& ResidentCache() {
  static const std::shared_ptr<WeightCache> resident = [] {
    auto file =
        std::make_shared<MemoryFile>("m.gguf", std::vector<std::byte>(size_t{kRows * kCols * 4}));
    std::vector<WeightMatrix> matrices;
    for (const MatrixUse use : {MatrixUse::kBoth, MatrixUse::kLookedUp}) {
      matrices.push_back({.name = "w",
                          .type = ElementType::kF32,
                          .rows = kRows,
                          .cols = kCols,
                          .file = file,
                          .use = use});
    }
    auto cache = WeightCache::Create(TileMap::Create(std::move(matrices)).value(), {}).value();
    cache->Preload([](uint64_t, uint64_t) { return true; }).value();
    return std::shared_ptr<WeightCache>(std::move(cache));
  }();
  return resident;
}

// Each thread visits tiles of its own, as the threads of a matrix product do.
void VisitResident(benchmark::State& state) {
  WeightCache& cache = *ResidentCache();
  const int32_t step = state.threads();
  int32_t tile = state.thread_index();
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(cache.Pin(tile).value().data().data());
    tile = (tile + step) % cache.map().tile_count();
  }
}
BENCHMARK(VisitResident)->Threads(1)->Threads(2);

// All threads visit the same tile: the worst that sharing costs.
void VisitTheSame(benchmark::State& state) {
  WeightCache& cache = *ResidentCache();
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(cache.Pin(0).value().data().data());
}
BENCHMARK(VisitTheSame)->Threads(2);

// Of the first matrix, whose tiles are resident, or the second, of which 128 rows stay in the row
// cache.
void ReadRow(benchmark::State& state) {
  WeightCache& cache = *ResidentCache();
  TableRow at = {.matrix = static_cast<int32_t>(state.range(0))};
  const auto touch = [](size_t, std::span<const std::byte> bytes) -> Result<void> {
    benchmark::DoNotOptimize(bytes.data());
    return {};
  };
  for ([[maybe_unused]] auto _ : state) {
    if (!cache.ReadRows({&at, 1}, touch)) std::abort();
    at.row = (at.row + 37) % 128;
  }
}
BENCHMARK(ReadRow)->Arg(0)->Arg(1);

}  // namespace
}  // namespace thaw
