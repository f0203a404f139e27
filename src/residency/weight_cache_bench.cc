// What a visit of a resident tile costs, statistics and tracker included, by 1 and 2 threads; and
// what reading rows of an embedding from resident tiles costs.
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
    std::vector<WeightMatrix> matrices(1);
    matrices[0] = {.name = "w",
                   .type = ElementType::kF32,
                   .rows = kRows,
                   .cols = kCols,
                   .file = std::move(file)};
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

void ReadResidentRow(benchmark::State& state) {
  WeightCache& cache = *ResidentCache();
  std::vector<std::byte> row(kCols * 4);
  int64_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    if (!cache.ReadRow(0, next, row)) std::abort();
    next = (next + 37) % kRows;
  }
  state.SetBytesProcessed(state.iterations() * std::ssize(row));
}
BENCHMARK(ReadResidentRow);

}  // namespace
}  // namespace thaw
