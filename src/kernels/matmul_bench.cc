// Products of weight rows on one thread, by kernel table, type and number of tokens.
//
// `weights/s` counts weights read once for each call (what bounds decode), `multiply_adds/s` counts
// every product (what bounds prefill). The matrix is larger than the last-level cache; `read` is
// what one thread reads of as much memory. Rows are packed where the table packs them.

#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "kernels/kernel_table.h"
#include "tensor/element_type.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

// Rows of a model with 135M (k = 576, 1536) and 8B (k = 4096) parameters.
constexpr int64_t kLengths[] = {1536, 2048, 4096};
constexpr int64_t kTokens[] = {1, 2, 4, 8, 16, 96, 512};
constexpr int64_t kRowsPerCall = 64;
// Twice the 32 MiB of last-level cache of common servers.
constexpr int64_t kMatrixBytes = 64 << 20;

AlignedBuffer Allocate(int64_t bytes) {
  auto buffer = AlignedBuffer::Allocate(static_cast<size_t>(bytes), "benchmark");
  THAW_CHECK(buffer);
  return *std::move(buffer);
}

// Every byte the same: half-precision scales of 0x2121 are 0.0098, floats of 0x21212121 are tiny
// but normal. Denormal or infinite scales would time something else.
constexpr std::byte kAnyByte{0x21};

// As many of them outliers as a real model has, 0.7 %.
std::vector<float> SomeActivations(int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = i % 149 == 5 ? 50.0f : static_cast<float>(i % 17) - 8.0f;
  }
  return values;
}

void MatMul(benchmark::State& state, const KernelTable* table, ElementType type, int64_t k,
            int64_t n_tokens) {
  if (!table->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  const int64_t n_rows = kMatrixBytes / RowBytes(type, k) / kRowsPerCall * kRowsPerCall;
  AlignedBuffer matrix = Allocate(n_rows * RowBytes(type, k));
  for (std::byte& byte : matrix.bytes()) byte = kAnyByte;
  const std::vector<float> values = SomeActivations(n_tokens * k);
  AlignedBuffer quantized = Allocate(ActivationBytes(n_tokens, k));
  AlignedBuffer scratch = Allocate(MatMulScratchBytes(k));
  std::vector<float> out(static_cast<size_t>(n_tokens * n_rows));
  const Activations activations =
      ViewActivations(values.data(), n_tokens, k, quantized.data(), FastestCopy(*table, type));
  table->quantize_activations(activations, 0, n_tokens);
  // Rows of equal bytes are packed already.
  const bool is_packed = table->packs_rows && CanPackRows(type, k);
  const WeightRows weights{type, matrix.data(), n_rows, k, is_packed};

  int64_t row = 0;
  for ([[maybe_unused]] auto _ : state) {
    if (row + kRowsPerCall > n_rows) row = 0;
    table->matmul(weights, row, row + kRowsPerCall, activations, out.data(), n_rows,
                  scratch.data());
    row += kRowsPerCall;
    benchmark::ClobberMemory();
  }
  const auto calls = static_cast<double>(state.iterations());
  const double weight_count = calls * static_cast<double>(kRowsPerCall * k);
  state.counters["weights/s"] = benchmark::Counter(weight_count, benchmark::Counter::kIsRate);
  state.counters["multiply_adds/s"] =
      benchmark::Counter(weight_count * static_cast<double>(n_tokens), benchmark::Counter::kIsRate);
  state.SetBytesProcessed(state.iterations() * kRowsPerCall * RowBytes(type, k));
}

void Read(benchmark::State& state) {
  AlignedBuffer memory = Allocate(kMatrixBytes);
  for (std::byte& byte : memory.bytes()) byte = kAnyByte;
  const std::span<const std::byte> bytes = memory.bytes();
  for ([[maybe_unused]] auto _ : state) {
    std::array<uint64_t, 8> sums = {};
    for (size_t at = 0; at < bytes.size(); at += sizeof(sums)) {
      std::array<uint64_t, 8> words;
      std::memcpy(words.data(), &bytes[at], sizeof(words));
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += words[i];
    }
    benchmark::DoNotOptimize(sums);
  }
  state.SetBytesProcessed(state.iterations() * kMatrixBytes);
}

void Quantize(benchmark::State& state, const KernelTable* table, ActivationCopy copy) {
  if (!table->is_available(HostCpu())) {
    state.SkipWithError("this CPU lacks it");
    return;
  }
  constexpr int64_t kLength = 4096;
  const std::vector<float> values = SomeActivations(kLength);
  AlignedBuffer quantized = Allocate(ActivationBytes(1, kLength));
  const Activations activations =
      ViewActivations(values.data(), 1, kLength, quantized.data(), copy);
  for ([[maybe_unused]] auto _ : state) {
    table->quantize_activations(activations, 0, 1);
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * kLength);
}

[[maybe_unused]] const bool kRegistered = [] {
  benchmark::RegisterBenchmark("read", Read);
  for (const KernelTable* table : AllKernelTables()) {
    const std::string prefix = table->name;
    benchmark::RegisterBenchmark(("quantize/" + prefix).c_str(), Quantize, table,
                                 ActivationCopy::kNarrow);
    benchmark::RegisterBenchmark(("quantize/" + prefix + "/wide").c_str(), Quantize, table,
                                 ActivationCopy::kWide);
    for (const ElementTypeInfo& info : AllElementTypes()) {
      if (!CanMultiply(info.type)) continue;
      for (const int64_t k : kLengths) {
        if (k % info.block_elements != 0) continue;
        for (const int64_t n_tokens : kTokens) {
          const std::string name = "matmul/" + prefix + "/" + info.name +
                                   "/k:" + std::to_string(k) +
                                   "/tokens:" + std::to_string(n_tokens);
          benchmark::RegisterBenchmark(name.c_str(), MatMul, table, info.type, k, n_tokens);
        }
      }
    }
  }
  return true;
}();

}  // namespace
}  // namespace thaw
