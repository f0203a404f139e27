// Attention of one token on one thread, by kernel table, type of the KV cache and query heads that
// share a KV head. `bytes_per_second` counts keys and values once.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace thaw {
namespace {

constexpr int64_t kHeadDim = 64;
// 256 KiB of float16 keys and values: what a second-level cache holds.
constexpr int64_t kPositions = 1024;

void Attention(benchmark::State& state, const KernelTable* table, KvType type, int64_t group) {
  if (!table->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  const std::vector<float> numbers(static_cast<size_t>(kPositions * kHeadDim), 0.1f);
  const int64_t cache_bytes = kPositions * kHeadDim * KvTypeBytes(type);
  std::vector<std::byte> k(static_cast<size_t>(cache_bytes));
  table->store_kv(numbers.data(), kPositions * kHeadDim, type, k.data());
  const std::vector<std::byte> v = k;
  std::vector<float> scores(static_cast<size_t>(group * kPositions));
  std::vector<float> out(static_cast<size_t>(group * kHeadDim));
  const AttentionArguments arguments = {.q = numbers.data(),
                                        .group = group,
                                        .head_dim = kHeadDim,
                                        .v_head_dim = kHeadDim,
                                        .kv_type = type,
                                        .k = k.data(),
                                        .v = v.data(),
                                        .k_stride = kHeadDim,
                                        .v_stride = kHeadDim,
                                        .n_positions = kPositions,
                                        .scale = 0.125f,
                                        .scores = scores.data(),
                                        .out = out.data()};
  for ([[maybe_unused]] auto _ : state) {
    table->attention(arguments);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * 2 * cache_bytes);
  state.counters["multiply_adds/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * 2 * group * kPositions * kHeadDim),
      benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : AllKernelTables()) {
    for (const KvType type : {KvType::kF32, KvType::kF16}) {
      for (const int64_t group : {1, 3, 8}) {
        const std::string name = std::string("attention/") + table->name +
                                 (type == KvType::kF32 ? "/f32" : "/f16") +
                                 "/group:" + std::to_string(group);
        benchmark::RegisterBenchmark(name.c_str(), Attention, table, type, group);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
