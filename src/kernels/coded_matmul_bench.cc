// Products of frozen rows that stay coded, on one thread, by kernel table, kind and number of
// tokens: from streams that fit the second-level cache, and from 256 MiB of them, several times the
// last-level cache of common servers. `weights/s` counts weights decoded.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "codec/codec_test_support.h"
#include "kernels/coded_matmul.h"

namespace thaw {
namespace {

constexpr int64_t kRows = 256;
constexpr int64_t kCols = 2048;
constexpr int64_t kMemoryBytes = 256 << 20;
// Of the numbers of ecq: 3.97 bits.
constexpr double kDeviation = 3.6;

AlignedBuffer Allocate(int64_t bytes) {
  auto buffer = AlignedBuffer::Allocate(static_cast<size_t>(bytes), "benchmark");
  THAW_CHECK(buffer);
  return *std::move(buffer);
}

std::vector<std::byte> StreamOf(FrozenKind kind) {
  if (kind == FrozenKind::kEcq) return RandomEcqRows(kRows, kCols, kDeviation).Stream();
  std::vector<std::byte> stream;
  AppendBf16Stream(kRows, kCols, RandomBf16(kRows * kCols), stream);
  return stream;
}

// An iteration multiplies one stream after another of as many as fit `bytes`, at least one.
void MultiplyCodedRows(benchmark::State& state, const KernelTable* kernels, FrozenKind kind,
                       int64_t n_tokens, int64_t bytes) {
  if (!kernels->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  const TileDecoder& decoder = *DecodersFor(kernels->name, HostCpu()).front();
  const std::vector<std::byte> stream = StreamOf(kind);
  const int64_t count = std::max<int64_t>(1, bytes / std::ssize(stream));
  AlignedBuffer tile = Allocate(count * std::ssize(stream));
  for (int64_t i = 0; i < count; ++i) {
    std::ranges::copy(stream, tile.data() + i * std::ssize(stream));
  }
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n_tokens * kCols));
  for (float& value : values) value = normal(random);
  AlignedBuffer memory = Allocate(ActivationBytes(n_tokens, kCols));
  const Activations batch = ViewActivations(values.data(), n_tokens, kCols, memory.data(),
                                            FastestCopy(*kernels, ThawedType(kind)));
  kernels->quantize_activations(batch, 0, n_tokens);
  AlignedBuffer scratch = Allocate(CodedScratchBytes(kind, kCols));
  const CodedRows rows{.kind = kind,
                       .data = tile.data(),
                       .n_rows = count * kRows,
                       .k = kCols,
                       .rows_per_stream = kRows};
  std::vector<float> products(static_cast<size_t>(n_tokens * rows.n_rows));
  for ([[maybe_unused]] auto _ : state) {
    MultiplyCoded(*kernels, decoder, rows, 0, rows.n_rows, batch, products.data(), rows.n_rows,
                  scratch.data());
    benchmark::DoNotOptimize(products.data());
    benchmark::ClobberMemory();
  }
  state.counters["weights/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * rows.n_rows * kCols), benchmark::Counter::kIsRate);
  state.counters["bits"] = 8.0 * static_cast<double>(stream.size()) / (kRows * kCols);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* kernels : AllKernelTables()) {
    for (const FrozenKind kind : kAllFrozenKinds) {
      for (const int64_t n_tokens : {1, 2, 8, 512}) {
        const std::string name = std::string("coded/") + kernels->name + "/" +
                                 std::string(FrozenKindName(kind)) +
                                 "/tokens:" + std::to_string(n_tokens);
        benchmark::RegisterBenchmark((name + "/cache").c_str(), MultiplyCodedRows, kernels, kind,
                                     n_tokens, int64_t{0});
        benchmark::RegisterBenchmark((name + "/memory").c_str(), MultiplyCodedRows, kernels, kind,
                                     n_tokens, kMemoryBytes);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
