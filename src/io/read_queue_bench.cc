// Rates of reading a file of 256 MiB in requests of 512 KiB into huge pages: from the disk (evicted
// before each pass) and from the page cache. The file lies in the folder for temporary files, which
// has to be on the disk in question.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_region.h"
#include "io/read_queue.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

constexpr uint64_t kFileBytes = uint64_t{256} << 20;
constexpr uint64_t kRequestBytes = uint64_t{512} << 10;

struct BenchFile {
  TemporaryDirectory dir;
  std::string path = dir.Write("bench.bin", std::string(kFileBytes, 'x'));
  std::shared_ptr<const File> file = OpenFile(path).value();

  void Evict() const {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    ::fsync(descriptor);
    ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
    ::close(descriptor);
  }

  void Warm() const {
    std::vector<std::byte> bytes(kFileBytes);
    if (const auto read = ReadExactlyAt(*file, 0, bytes); !read) std::abort();
  }
};

const BenchFile& TheFile() {
  static const BenchFile file;
  return file;
}

void ReadAll(benchmark::State& state, ReadQueue& queue, bool is_cached) {
  const BenchFile& bench = TheFile();
  if (is_cached) bench.Warm();
  const auto slots = static_cast<uint64_t>(queue.depth());
  MemoryRegion memory = MemoryRegion::Reserve(slots * kRequestBytes, "a benchmark").value();
  for ([[maybe_unused]] auto _ : state) {
    if (!is_cached) {
      state.PauseTiming();
      bench.Evict();
      state.ResumeTiming();
    }
    uint64_t next = 0;
    const auto submit = [&](uint64_t slot) {
      queue.Submit(
          {bench.file.get(), next, kRequestBytes, memory.data() + slot * kRequestBytes, slot});
      next += kRequestBytes;
    };
    for (uint64_t slot = 0; slot < slots; ++slot) submit(slot);
    while (queue.pending() > 0) {
      const ReadCompletion completion = queue.Wait();
      if (!completion.outcome) {
        state.SkipWithError(completion.outcome.error().message.c_str());
        return;
      }
      if (next < kFileBytes) submit(completion.tag);
    }
  }
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFileBytes));
}

void Uring(benchmark::State& state) {
  auto queue = CreateUringQueue(static_cast<int>(state.range(0)));
  if (!queue) {
    state.SkipWithError(queue.error().message.c_str());
    return;
  }
  ReadAll(state, **queue, state.range(1) != 0);
}

void Plain(benchmark::State& state) { ReadAll(state, *CreatePlainQueue(), state.range(1) != 0); }

BENCHMARK(Uring)
    ->ArgsProduct({{1, 2, 4, 8, 16}, {0}})
    ->Args({8, 1})
    ->ArgNames({"depth", "cached"})
    ->UseRealTime();
BENCHMARK(Plain)->Args({1, 0})->Args({1, 1})->ArgNames({"depth", "cached"})->UseRealTime();

void AskWhetherCached(benchmark::State& state) {
  const File& file = *TheFile().file;
  uint64_t offset = 0;
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(file.IsCached(offset, kRequestBytes));
    offset = (offset + kRequestBytes) % kFileBytes;
  }
}
BENCHMARK(AskWhetherCached);

void CheckUnchanged(benchmark::State& state) {
  const File& file = *TheFile().file;
  for ([[maybe_unused]] auto _ : state) benchmark::DoNotOptimize(file.CheckUnchanged());
}
BENCHMARK(CheckUnchanged);

}  // namespace
}  // namespace thaw
