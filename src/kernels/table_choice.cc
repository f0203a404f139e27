#include "kernels/table_choice.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/check.h"
#include "base/stopwatch.h"

namespace thaw {
namespace {

// Of both types together some 100 us by dot products of AVX-512: long beside the clock's step, and
// short enough that of five times one is undisturbed.
constexpr int64_t kTimedRows = 64;
constexpr int64_t kTimedLength = 2048;
constexpr int64_t kTimedTokens = 64;

constexpr ElementType kTypes[] = {ElementType::kQ4_K, ElementType::kQ6_K};

// What all bytes of the rows are, so that they are the same packed or not, and weights of moderate
// size in both types: as a half-precision scale it is 0.065.
constexpr auto kRowByte = std::byte{0x2c};

}  // namespace

KernelChoice ChooseByTime(const KernelTable& first, const KernelTable& second, TableTimer seconds) {
  constexpr int kRounds = 5;
  double least_first = std::numeric_limits<double>::infinity();
  double least_second = least_first;
  for (int round = 0; round < kRounds; ++round) {
    least_first = std::min(least_first, seconds(first));
    least_second = std::min(least_second, seconds(second));
  }
  if (least_first <= least_second) return {&first, &second, least_second / least_first};
  return {&second, &first, least_first / least_second};
}

double ProductTimer::operator()(const KernelTable& table) {
  using Clock = std::chrono::steady_clock;
  if (rows_ == nullptr) Prepare(table);
  const auto start = Clock::now();
  for (const ElementType type : kTypes) {
    table.matmul({type, rows_, kTimedRows, kTimedLength, table.packs_rows}, 0, kTimedRows,
                 activations_, out_.data(), kTimedRows, scratch_);
  }
  return SecondsSince(start);
}

// Every table quantizes activations to the same bits.
void ProductTimer::Prepare(const KernelTable& table) {
  int64_t row_bytes = 0;
  for (const ElementType type : kTypes)
    row_bytes = std::max(row_bytes, RowBytes(type, kTimedLength));
  const int64_t quantized_bytes = ActivationBytes(kTimedTokens, kTimedLength);
  const int64_t scratch_bytes = MatMulScratchBytes(kTimedLength);
  auto memory = AlignedBuffer::Allocate(
      static_cast<size_t>(quantized_bytes + scratch_bytes + kTimedRows * row_bytes),
      "timing the kernels");
  THAW_CHECK(memory);
  memory_ = *std::move(memory);
  scratch_ = memory_.data() + quantized_bytes;
  rows_ = scratch_ + scratch_bytes;
  std::fill_n(rows_, kTimedRows * row_bytes, kRowByte);
  values_.assign(kTimedTokens * kTimedLength, 1.0f);
  out_.resize(kTimedTokens * kTimedRows);
  activations_ = ViewActivations(values_.data(), kTimedTokens, kTimedLength, memory_.data(),
                                 ActivationCopy::kWide);
  table.quantize_activations(activations_, 0, kTimedTokens);
}

}  // namespace thaw
