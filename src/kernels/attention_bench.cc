// Attention of one token on one thread, by kernel table, type of the KV cache, query heads that
// share a KV head, and context: 1024 positions of one KV head, which a second-level cache holds, or
// 4096 positions of as many KV heads as no cache holds, one after the other, as a decode visits
// them. `bytes_per_second` counts keys and values once.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/kernel_table.h"

namespace thaw {
namespace {

constexpr int64_t kHeadDim = 64;

struct Context {
  int64_t n_positions;
  int64_t n_kv_heads;
};

// 128 KiB and 64 MiB of keys in float32.
constexpr Context kContexts[] = {{1024, 1}, {4096, 64}};

void Attention(benchmark::State& state, const KernelTable* table, KvType type, int64_t group,
               const Context& context) {
  if (!table->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  const std::vector<float> numbers(static_cast<size_t>(group * kHeadDim), 0.1f);
  const int64_t row_bytes = KvRowBytes(type, kHeadDim);
  const int64_t head_bytes = context.n_positions * row_bytes;
  std::vector<std::byte> k(static_cast<size_t>(context.n_kv_heads * head_bytes));
  for (int64_t row = 0; row < context.n_kv_heads * context.n_positions; ++row) {
    table->store_kv(numbers.data(), kHeadDim, type, k.data() + row * row_bytes);
  }
  const std::vector<std::byte> v = k;
  std::vector<float> scores(static_cast<size_t>(group * context.n_positions));
  std::vector<float> out(static_cast<size_t>(group * kHeadDim));
  AttentionArguments arguments = {.q = numbers.data(),
                                  .group = group,
                                  .head_dim = kHeadDim,
                                  .v_head_dim = kHeadDim,
                                  .kv_type = type,
                                  .k_stride_bytes = row_bytes,
                                  .v_stride_bytes = row_bytes,
                                  .n_positions = context.n_positions,
                                  .scale = 0.125f,
                                  .scores = scores.data(),
                                  .out = out.data()};
  int64_t kv_head = 0;
  for ([[maybe_unused]] auto _ : state) {
    arguments.k = k.data() + kv_head * head_bytes;
    arguments.v = v.data() + kv_head * head_bytes;
    table->attention(arguments);
    benchmark::ClobberMemory();
    kv_head = (kv_head + 1) % context.n_kv_heads;
  }
  state.SetBytesProcessed(state.iterations() * 2 * head_bytes);
  state.counters["multiply_adds/s"] = benchmark::Counter(
      static_cast<double>(state.iterations() * 2 * group * context.n_positions * kHeadDim),
      benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : AllKernelTables()) {
    for (const Context& context : kContexts) {
      for (const int64_t group : {1, 3, 4, 8}) {
        for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kQ8_0}) {
          const std::string name = std::string("attention/") + table->name +
                                   "/positions:" + std::to_string(context.n_positions) +
                                   "/group:" + std::to_string(group) + "/" +
                                   std::string(KvTypeName(type));
          benchmark::RegisterBenchmark(name.c_str(), Attention, table, type, group, context);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
