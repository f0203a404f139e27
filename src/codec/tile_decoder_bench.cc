// Decoding of frozen streams on one thread, by decoder, kind and bits of a weight, to one group of
// packed rows that stays in the cache: from streams that fit the second-level cache, and from 256
// MiB of them, several times the last-level cache of common servers.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "codec/codec_test_support.h"
#include "codec/tile_decoder.h"

namespace thaw {
namespace {

constexpr int64_t kRows = 128;
constexpr int64_t kCols = 2048;
constexpr int64_t kMemoryBytes = 256 << 20;

struct Weights {
  const char* name;
  FrozenKind kind;
  double deviation;  // of the numbers of ecq
};
// Numbers of a normal distribution take log2(deviation) + 2.05 bits.
constexpr Weights kWeights[] = {
    {"ecq/bits:2.9", FrozenKind::kEcq, 1.8},
    {"ecq/bits:3.9", FrozenKind::kEcq, 3.6},
    {"ecq/bits:4.9", FrozenKind::kEcq, 7.2},
    {"bf16", FrozenKind::kBf16, 0},
};

std::vector<std::byte> StreamOf(const Weights& weights) {
  if (weights.kind == FrozenKind::kEcq) {
    return RandomEcqRows(kRows, kCols, weights.deviation).Stream();
  }
  std::vector<std::byte> stream;
  AppendBf16Stream(kRows, kCols, RandomBf16(kRows * kCols), stream);
  return stream;
}

AlignedBuffer Allocate(int64_t bytes) {
  auto buffer = AlignedBuffer::Allocate(static_cast<size_t>(bytes), "benchmark");
  THAW_CHECK(buffer);
  return *std::move(buffer);
}

// An iteration decodes one stream after another of as many as fit `bytes`, at least one.
void Decode(benchmark::State& state, const TileDecoder* decoder, const Weights* weights,
            int64_t bytes) {
  if (!decoder->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  const std::vector<std::byte> stream = StreamOf(*weights);
  const int64_t count = std::max<int64_t>(1, bytes / std::ssize(stream));
  AlignedBuffer tile = Allocate(count * std::ssize(stream));
  for (int64_t i = 0; i < count; ++i) {
    std::ranges::copy(stream, tile.data() + i * std::ssize(stream));
  }
  AlignedBuffer group = Allocate(ThawedGroupBytes(weights->kind, kCols));
  for ([[maybe_unused]] auto _ : state) {
    for (int64_t i = 0; i < count; ++i) {
      StreamCursor cursor(
          TrustedFrozenStream(weights->kind, kCols, tile.data() + i * std::ssize(stream)));
      while (cursor.group < cursor.stream.groups()) DecodeGroup(*decoder, cursor, group.data());
      benchmark::DoNotOptimize(cursor.coded);
      benchmark::ClobberMemory();
    }
  }
  const auto decoded = static_cast<double>(state.iterations() * count * kRows * kCols);
  state.counters["weights/s"] = benchmark::Counter(decoded, benchmark::Counter::kIsRate);
  state.counters["bits"] = 8.0 * static_cast<double>(stream.size()) / (kRows * kCols);
  state.SetBytesProcessed(state.iterations() * count * std::ssize(stream));
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const TileDecoder* decoder : AllTileDecoders()) {
    for (const Weights& weights : kWeights) {
      const std::string name = std::string("decode/") + decoder->name + "/" + weights.name;
      benchmark::RegisterBenchmark((name + "/cache").c_str(), Decode, decoder, &weights,
                                   int64_t{0});
      benchmark::RegisterBenchmark((name + "/memory").c_str(), Decode, decoder, &weights,
                                   kMemoryBytes);
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
