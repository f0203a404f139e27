// Attention, by kernel table, type of the KV cache, query heads that share a KV head,
// and context.
//
// decode: one token at 1024 positions of one KV head, which a second-level cache holds, or at 8192
// positions of as many KV heads as no cache holds, one after the other, as a decode visits them, on
// one thread or two with heads of their own. `bytes_per_second` counts keys and values once, in
// real time for the latter. Adding up a block of memory as large as those tells what reading alone
// takes on the same machine in the same minute.
//
// prefill: a prompt of one sequence from its beginning, one KV head. `flops` counts the products of
// queries and visible keys, and of weights and visible values.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "kernels/kernel_table.h"

namespace thaw {
namespace {

constexpr int64_t kHeadDim = 64;

AlignedBuffer Memory(int64_t bytes) {
  return *AlignedBuffer::Allocate(static_cast<size_t>(bytes), "a benchmark");
}

std::vector<float> RandomFloats(int64_t n, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = normal(random);
  return values;
}

// Keys and values of some KV heads, and what attends to them.
class Heads {
 public:
  Heads(const KernelTable& table, KvType type, int64_t group, int64_t n_positions, int64_t n_heads,
        int64_t n_tokens)
      : key_bytes_(KeyBytes(type, kHeadDim, n_positions)),
        value_bytes_(ValueBytes(type, kHeadDim, n_positions)),
        k_(Memory(n_heads * key_bytes_)),
        v_(Memory(n_heads * value_bytes_)),
        scratch_(Memory(AttentionScratchBytes(group, kHeadDim, kHeadDim))) {
    std::mt19937 random(1);
    q_ = RandomFloats(n_tokens * group * kHeadDim, random);
    out_.resize(q_.size());
    const std::vector<float> numbers = RandomFloats(16 * kHeadDim, random);
    for (int64_t head = 0; head < n_heads; ++head) {
      for (int64_t i = 0; i < n_positions; ++i) {
        const float* x = numbers.data() + i % 16 * kHeadDim;
        StoreKey(table, x, kHeadDim, type, i, k_.data() + head * key_bytes_);
        StoreValue(table, x, kHeadDim, type, i, v_.data() + head * value_bytes_);
      }
    }
    arguments_ = {.q_stride = group * kHeadDim,
                  .group = group,
                  .head_dim = kHeadDim,
                  .v_head_dim = kHeadDim,
                  .kv_type = type,
                  .scale = 0.125f,
                  .out_stride = group * kHeadDim};
  }

  void Run(const KernelTable& table, int64_t head, int64_t first_token, int64_t n_tokens,
           int64_t first_position) {
    arguments_.q = q_.data() + first_token * arguments_.q_stride;
    arguments_.out = out_.data() + first_token * arguments_.out_stride;
    arguments_.n_tokens = n_tokens;
    arguments_.first_position = first_position;
    arguments_.k = k_.data() + head * key_bytes_;
    arguments_.v = v_.data() + head * value_bytes_;
    Attend(table, arguments_, scratch_.data());
    benchmark::ClobberMemory();
  }
  int64_t bytes_of_head() const { return key_bytes_ + value_bytes_; }

 private:
  int64_t key_bytes_;
  int64_t value_bytes_;
  AlignedBuffer k_;
  AlignedBuffer v_;
  AlignedBuffer scratch_;
  std::vector<float> q_;
  std::vector<float> out_;
  AttentionArguments arguments_;
};

bool Skips(benchmark::State& state, const KernelTable& table) {
  if (table.is_available(HostCpu())) return false;
  state.SkipWithError("this CPU lacks it");
  return true;
}

struct Context {
  int64_t n_positions;
  int64_t n_kv_heads;
};

// 256 KiB and 128 MiB of keys and values in float16.
constexpr Context kContexts[] = {{1024, 1}, {8192, 64}};

void Decode(benchmark::State& state, const KernelTable* table, KvType type, int64_t group,
            const Context& context) {
  if (Skips(state, *table)) return;
  Heads heads(*table, type, group, context.n_positions, context.n_kv_heads, 1);
  int64_t head = 0;
  for ([[maybe_unused]] auto _ : state) {
    heads.Run(*table, head, 0, 1, context.n_positions - 1);
    head = (head + 1) % context.n_kv_heads;
  }
  state.SetBytesProcessed(state.iterations() * heads.bytes_of_head());
}

void ReadMemory(benchmark::State& state) {
  const std::vector<uint64_t> numbers(size_t{128} << 17, 1);
  for ([[maybe_unused]] auto _ : state) {
    // Eight sums: one would wait for its own additions.
    uint64_t sums[8] = {};
    for (size_t i = 0; i < numbers.size(); i += 8) {
      for (size_t j = 0; j < 8; ++j) sums[j] += numbers[i + j];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(numbers.size() * 8));
}
BENCHMARK(ReadMemory)->Name("read/128MiB")->ThreadRange(1, 2)->UseRealTime();

void Prefill(benchmark::State& state, const KernelTable* table, KvType type, int64_t group,
             int64_t n_tokens) {
  if (Skips(state, *table)) return;
  Heads heads(*table, type, group, n_tokens, 1, n_tokens);
  const int64_t most = AttentionTileTokens(group);
  for ([[maybe_unused]] auto _ : state) {
    for (int64_t i = 0; i < n_tokens; i += most) {
      heads.Run(*table, 0, i, std::min(most, n_tokens - i), i);
    }
  }
  const int64_t pairs = n_tokens * (n_tokens + 1) / 2 * group;
  state.counters["flops"] = benchmark::Counter(
      static_cast<double>(state.iterations() * pairs * 4 * kHeadDim), benchmark::Counter::kIsRate);
}

[[maybe_unused]] const bool kRegistered = [] {
  for (const KernelTable* table : AllKernelTables()) {
    for (const KvType type : kAllKvTypes) {
      const auto name = [&](const std::string& what, int64_t n, int64_t group) {
        return "attention/" + what + "/" + table->name + "/positions:" + std::to_string(n) +
               "/group:" + std::to_string(group) + "/" + std::string(KvTypeName(type));
      };
      for (const int64_t group : {1, 3, 4, 8}) {
        for (const Context& context : kContexts) {
          auto* decode =
              benchmark::RegisterBenchmark(name("decode", context.n_positions, group).c_str(),
                                           Decode, table, type, group, context);
          if (context.n_kv_heads > 1) decode->ThreadRange(1, 2)->UseRealTime();
        }
      }
      for (const int64_t n_tokens : {512, 2048}) {
        benchmark::RegisterBenchmark(name("prefill", n_tokens, 8).c_str(), Prefill, table, type, 8,
                                     n_tokens);
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
