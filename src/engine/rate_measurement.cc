#include "engine/rate_measurement.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/cpu_features.h"
#include "base/function_ref.h"
#include "base/round_up.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "engine/random_weights.h"
#include "io/read_queue.h"
#include "io/uncached_file.h"
#include "kernels/coded_matmul.h"
#include "kernels/peak_rate.h"
#include "sampling/split_mix.h"
#include "tensor/packed_rows.h"

namespace thaw {
namespace {

using Clock = std::chrono::steady_clock;

// A median needs three.
constexpr size_t kMinSlices = 3;

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// The median of what `measure` gives, which is done over and over for the stated time. The first,
// which finds memory untouched and threads asleep, does not count.
double MedianOf(double seconds, FunctionRef<double()> measure) {
  measure();
  std::vector<double> slices;
  const auto start = Clock::now();
  do {
    slices.push_back(measure());
  } while (slices.size() < kMinSlices || SecondsSince(start) < seconds);
  return Median(slices);
}

// The same of the seconds that `slice` takes.
double MedianSeconds(double seconds, FunctionRef<void()> slice) {
  return MedianOf(seconds, [&] {
    const auto start = Clock::now();
    slice();
    return SecondsSince(start);
  });
}

Result<AlignedBuffer> Allocate(int64_t bytes, std::string_view purpose) {
  return AlignedBuffer::Allocate(static_cast<size_t>(bytes), purpose);
}

// Rows of the length that models of 1 to 2 billion parameters have; a multiple of every block.
constexpr int64_t kRowLength = 2048;
constexpr int64_t kPrefillTokens = 128;

// Products of a batch lie this far apart, as those of a square matrix do: columns of a power of two
// compete for the same places in a cache.
constexpr int64_t kProductRows = kRowLength;

// Rows of one part of a loop over the matrix: at one token large enough to be as good as free of
// bookkeeping, at 128 tokens (some 100 us) small enough to be shared evenly.
constexpr int64_t kDecodeGrain = 256;
constexpr int64_t kPrefillGrain = 32;
constexpr int64_t kPrefillPartsPerThread = 2;

// Rows of a stream where they are coded: the half million weights that files have.
constexpr int64_t kStreamRows = 256;

// Activations of `n_tokens` tokens such as models have, with the memory for their products. In
// units of the deviation they are uniform within 2, but for outliers, one in 143 (the 0.7 % of
// kernels/activations.h), of 8.
class Batch {
 public:
  static Result<Batch> Create(const KernelTable& kernels, int64_t n_tokens, ActivationCopy copy) {
    constexpr int64_t kOutlierDistance = 143;
    Batch batch;
    batch.values_.resize(static_cast<size_t>(n_tokens * kRowLength));
    SplitMix64 random(0);
    for (size_t i = 0; i < batch.values_.size(); ++i) {
      const bool is_outlier = i % kOutlierDistance == 0;
      batch.values_[i] = is_outlier ? 8.0f : static_cast<float>(4 * random.NextUnit()) - 2.0f;
    }
    THAW_ASSIGN(batch.quantized_, Allocate(ActivationBytes(n_tokens, kRowLength), "activations"));
    batch.view_ =
        ViewActivations(batch.values_.data(), n_tokens, kRowLength, batch.quantized_.data(), copy);
    kernels.quantize_activations(batch.view_, 0, n_tokens);
    return batch;
  }

  const Activations& view() const { return view_; }

 private:
  std::vector<float> values_;
  AlignedBuffer quantized_;
  Activations view_;
};

// A random matrix and the threads that multiply it.
class MatMulBench {
 public:
  static Result<MatMulBench> Create(const WeightForm& form, const KernelTable& kernels,
                                    const TileDecoder& decoder, ThreadPool& pool,
                                    uint64_t buffer_bytes) {
    MatMulBench bench(kernels, decoder, pool);
    THAW_TRY(form.is_coded ? bench.FillCoded(form.type, buffer_bytes)
                           : bench.FillPlain(form.type, buffer_bytes));
    return bench;
  }

  // Weight bytes times tokens a second for one token, going through the whole matrix.
  Result<double> DecodeRate(double seconds) {
    return Rate(/*n_tokens=*/1, weights_.n_rows, is_coded() ? kStreamRows : kDecodeGrain, seconds);
  }

  // The same for a batch, going through the matrix some rows at a time.
  Result<double> PrefillRate(double seconds) {
    const int64_t grain = is_coded() ? kStreamRows : kPrefillGrain;
    const int64_t rows = grain * kPrefillPartsPerThread * pool_.thread_count();
    return Rate(kPrefillTokens, std::min({rows, kProductRows, weights_.n_rows}), grain, seconds);
  }

 private:
  MatMulBench(const KernelTable& kernels, const TileDecoder& decoder, ThreadPool& pool)
      : kernels_(kernels), pool_(pool), decoder_(decoder) {}

  Result<void> FillPlain(ElementType type, uint64_t buffer_bytes) {
    scratch_stride_ = RoundUp(MatMulScratchBytes(kRowLength), 64);
    const int64_t row_bytes = RowBytes(type, kRowLength);
    const int64_t n_rows = static_cast<int64_t>(buffer_bytes) / row_bytes;
    THAW_ASSIGN(matrix_, Allocate(n_rows * row_bytes, "weights to measure with"));
    const double deviation = 1 / std::sqrt(static_cast<double>(kRowLength));
    RandomWeights(type, deviation, 0).Fill(matrix_.bytes());
    weights_ = {type, matrix_.data(), n_rows, kRowLength};
    if (kernels_.packs_rows && CanPackRows(type, kRowLength)) {
      THAW_ASSIGN(AlignedBuffer scratch,
                  Allocate(PackScratchBytes(type, kRowLength), "packing weights"));
      PackRows(type, kRowLength, n_rows, matrix_.data(), matrix_.data(), scratch.data());
      weights_.is_packed = true;
    }
    THAW_ASSIGN(scratch_, Allocate(pool_.thread_count() * scratch_stride_, "scratch of products"));
    return {};
  }

  // The same stream over and over.
  Result<void> FillCoded(ElementType type, uint64_t buffer_bytes) {
    kind_ = type == ElementType::kQ8_0 ? FrozenKind::kEcq : FrozenKind::kBf16;
    THAW_CHECK(ThawedType(kind_) == type);
    scratch_stride_ = RoundUp(CodedScratchBytes(kind_, kRowLength), 64);
    const std::vector<std::byte> stream =
        RandomFrozenStream(kind_, kStreamRows, kRowLength, /*seed=*/0);
    stream_bytes_ = std::ssize(stream);
    const int64_t streams =
        std::max<int64_t>(1, static_cast<int64_t>(buffer_bytes) / stream_bytes_);
    THAW_ASSIGN(matrix_, Allocate(streams * stream_bytes_, "weights to measure with"));
    for (int64_t i = 0; i < streams; ++i) {
      std::ranges::copy(stream, matrix_.data() + i * stream_bytes_);
    }
    weights_ = {type, matrix_.data(), streams * kStreamRows, kRowLength};
    THAW_ASSIGN(scratch_, Allocate(pool_.thread_count() * scratch_stride_, "scratch of products"));
    return {};
  }

  bool is_coded() const { return stream_bytes_ != 0; }

  // Rows [begin, end), which begin with a stream where they are coded, and end with it.
  void Multiply(int64_t begin, int64_t end, const Activations& batch, float* out,
                int64_t out_stride, int worker) {
    std::byte* scratch = scratch_.data() + worker * scratch_stride_;
    if (!is_coded()) {
      const WeightRows rows = {weights_.type,
                               weights_.data + begin * RowBytes(weights_.type, kRowLength),
                               end - begin, kRowLength, weights_.is_packed};
      return kernels_.matmul(rows, 0, rows.n_rows, batch, out, out_stride, scratch);
    }
    const CodedRows rows = {.kind = kind_,
                            .data = weights_.data + begin / kStreamRows * stream_bytes_,
                            .n_rows = end - begin,
                            .k = kRowLength,
                            .rows_per_stream = kStreamRows};
    MultiplyCoded(kernels_, decoder_, rows, 0, rows.n_rows, batch, out, out_stride, scratch);
  }

  Result<double> Rate(int64_t n_tokens, int64_t slice_rows, int64_t grain, double seconds) {
    THAW_ASSIGN(const Batch batch,
                Batch::Create(kernels_, n_tokens, FastestCopy(kernels_, weights_.type)));
    const int64_t product_rows = std::max(slice_rows, kProductRows);
    std::vector<float> products(static_cast<size_t>(product_rows * n_tokens));
    const int64_t row_bytes = RowBytes(weights_.type, kRowLength);
    int64_t next_row = 0;
    const double slice_seconds = MedianSeconds(seconds, [&] {
      if (next_row + slice_rows > weights_.n_rows) next_row = 0;
      float* out = products.data() + std::min(next_row % product_rows, product_rows - slice_rows);
      pool_.ParallelFor(slice_rows, grain, [&](int64_t begin, int64_t end, int worker) {
        Multiply(next_row + begin, next_row + end, batch.view(), out + begin, product_rows, worker);
      });
      next_row += slice_rows;
    });
    return static_cast<double>(slice_rows * row_bytes * n_tokens) / slice_seconds;
  }

  const KernelTable& kernels_;
  ThreadPool& pool_;
  const TileDecoder& decoder_;
  FrozenKind kind_ = FrozenKind::kEcq;
  int64_t stream_bytes_ = 0;  // 0 where rows are not coded
  int64_t scratch_stride_ = 0;
  AlignedBuffer matrix_;
  AlignedBuffer scratch_;
  WeightRows weights_;
};

constexpr uint64_t kRequestBytes = 512 << 10;
constexpr int kRequestsInFlight = 8;

// Reads that end one after another, and how many bytes a second those are.
class ReadLog {
 public:
  // By any thread.
  void Add(Result<void> outcome) {
    const double now = SecondsSince(start_);
    const std::lock_guard lock(mutex_);
    ends_.push_back(now);
    if (outcome_ && !outcome) outcome_ = std::move(outcome);
  }

  // The median over runs of 32 requests (16 MiB) or, where the disk was too slow for three such,
  // over all. The first run, while which the requests get under way, does not count.
  Result<double> Rate(uint64_t request_bytes) {
    if (!outcome_) return Fail(std::move(outcome_).error());
    constexpr size_t kRun = 32;
    std::ranges::sort(ends_);
    std::vector<double> run_seconds;
    for (size_t i = 2 * kRun; i < ends_.size(); i += kRun) {
      run_seconds.push_back(ends_[i] - ends_[i - kRun]);
    }
    const auto bytes = static_cast<double>(request_bytes);
    if (run_seconds.size() < kMinSlices) {
      return bytes * static_cast<double>(ends_.size()) / ends_.back();
    }
    return bytes * kRun / Median(run_seconds);
  }

 private:
  const Clock::time_point start_ = Clock::now();
  std::mutex mutex_;  // guards the two below
  std::vector<double> ends_;
  Result<void> outcome_;  // the first error
};

}  // namespace

Result<uint64_t> MeasurementLimits::BufferBytes() const {
  // Some hundred rows of the widest type: a part of a loop for each thread.
  constexpr uint64_t kMinBufferBytes = uint64_t{2} << 20;
  if (memory_bytes < kMeasurementScratchBytes + kMinBufferBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "{} are too little to measure the machine's rates in: {} are needed",
                FormatBytes(memory_bytes), FormatBytes(kMeasurementScratchBytes + kMinBufferBytes));
  }
  return std::min(memory_bytes - kMeasurementScratchBytes, kMeasuredBytes);
}

Result<double> MeasureMemoryRate(ThreadPool& pool, const MeasurementLimits& limits) {
  // A part of a loop: some 10 us of reading.
  constexpr int64_t kGrain = 256 << 10;
  THAW_ASSIGN(const uint64_t buffer_bytes, limits.BufferBytes());
  const auto bytes = static_cast<int64_t>(buffer_bytes);
  THAW_ASSIGN(AlignedBuffer buffer, Allocate(bytes, "memory to measure"));
  std::ranges::fill(buffer.bytes(), std::byte{1});  // pages never written to are all the same one
  std::atomic<uint64_t> sum{0};                     // so that the reads are not left out
  const double seconds = MedianSeconds(limits.seconds, [&] {
    pool.ParallelFor(bytes, kGrain, [&](int64_t begin, int64_t end, int) {
      const std::span part = std::as_const(buffer).bytes().subspan(
          static_cast<size_t>(begin), static_cast<size_t>(end - begin));
      sum.fetch_add(SumWords(part, HostCpu()), std::memory_order_relaxed);
    });
  });
  return static_cast<double>(bytes) / seconds;
}

ResidentReader::ResidentReader(WeightCache& weights, ThreadPool& pool) : pool_(pool) {
  for (int32_t tile = 0; tile < weights.map().tile_count(); ++tile) {
    std::optional<PinnedTile> pinned = weights.PinIfResident(tile);
    if (!pinned) continue;
    bytes_ += pinned->data().size();
    tiles_.push_back(*std::move(pinned));
  }
}

double ResidentReader::ReadOn() {
  THAW_CHECK(!tiles_.empty());
  const size_t first = next_;
  uint64_t bytes = 0;
  int64_t count = 0;
  for (; count < std::ssize(tiles_) && bytes < kMeasuredBytes; ++count) {
    bytes += tiles_[next_].data().size();
    next_ = (next_ + 1) % tiles_.size();
  }
  std::atomic<uint64_t> sum{0};  // so that the reads are not left out
  const auto start = Clock::now();
  // A tile is some 50 us of reading.
  pool_.ParallelFor(count, 1, [&](int64_t i, int64_t, int) {
    const PinnedTile& tile = tiles_[(first + static_cast<size_t>(i)) % tiles_.size()];
    sum.fetch_add(SumWords(tile.data(), HostCpu()), std::memory_order_relaxed);
  });
  return static_cast<double>(bytes) / SecondsSince(start);
}

ResidentRate MeasureResidentRate(WeightCache& weights, ThreadPool& pool, double seconds) {
  ResidentReader reader(weights, pool);
  if (reader.bytes() == 0) return {};
  return {.bytes_per_second = MedianOf(seconds, [&] { return reader.ReadOn(); }),
          .bytes = reader.bytes()};
}

double MeasureForkJoin(ThreadPool& pool, const MeasurementLimits& limits) {
  // As the loops of a forward pass are: some parts for each thread, long enough for all to come.
  constexpr int kPartsPerThread = 4;
  constexpr double kPartSeconds = 5e-6;
  constexpr int kLoops = 20;  // in a slice: a few of them wait for something else
  const double seconds = MedianSeconds(limits.seconds, [&] {
    for (int i = 0; i < kLoops; ++i) {
      pool.ParallelFor(kPartsPerThread * pool.thread_count(), 1, [](int64_t, int64_t, int) {
        const auto start = Clock::now();
        while (SecondsSince(start) < kPartSeconds) {
        }
      });
    }
  });
  // Above 0, as all rates are: by the step of the clock.
  return std::max(seconds / kLoops - kPartsPerThread * kPartSeconds, 1e-9);
}

std::optional<Int8Rate> MeasureInt8Rate(ThreadPool& pool, double seconds, const CpuFeatures& cpu) {
  const Int8PeakLoop* loop = FindInt8PeakLoop(cpu);
  if (loop == nullptr) return std::nullopt;
  // A part of a loop: some 20 us, far above what starting it costs, and parts enough that threads
  // whose cores others hold for a while leave theirs to the rest.
  constexpr int64_t kRounds = 5000;
  constexpr int kPartsPerThread = 16;
  const int64_t parts = int64_t{kPartsPerThread} * pool.thread_count();
  std::atomic<int32_t> sum{0};  // so that the products are not left out
  const double slice_seconds = MedianSeconds(seconds, [&] {
    pool.ParallelFor(parts, 1, [&](int64_t, int64_t, int) {
      sum.fetch_add(loop->run(kRounds), std::memory_order_relaxed);
    });
  });
  const auto operations = static_cast<double>(parts * kRounds * loop->operations_per_round);
  return Int8Rate{.instruction = loop->instruction,
                  .operations_per_second = operations / slice_seconds};
}

LoopTimes MeasureLoopTimes(ThreadPool& pool, double seconds) {
  // Some 300 us of arithmetic: a thread that is put aside in one of them, for the milliseconds that
  // schedulers give others, shows as a loop that takes several times as long.
  constexpr int kSteps = 200'000;
  std::mutex mutex;  // guards the two below
  std::vector<double> excesses;
  double least_seconds = std::numeric_limits<double>::infinity();
  std::atomic<uint64_t> sum{0};  // so that the arithmetic is not left out
  pool.ParallelFor(pool.thread_count(), 1, [&](int64_t, int64_t, int) {
    std::vector<double> times;
    SplitMix64 random(0);
    const auto start = Clock::now();
    do {
      const auto loop_start = Clock::now();
      uint64_t part = 0;
      for (int i = 0; i < kSteps; ++i) part += random.Next();
      sum.fetch_add(part, std::memory_order_relaxed);
      times.push_back(SecondsSince(loop_start));
    } while (times.size() < kMinSlices || SecondsSince(start) < seconds);
    const double least = *std::ranges::min_element(times);
    const std::lock_guard lock(mutex);
    least_seconds = std::min(least_seconds, least);
    for (const double time : times) excesses.push_back(time / least - 1);
  });
  std::ranges::sort(excesses);
  return {.least_seconds = least_seconds,
          .median_excess = excesses[excesses.size() / 2],
          .p90_excess = excesses[excesses.size() * 9 / 10]};
}

Result<MatMulRate> MeasureMatMul(const WeightForm& type, const KernelTable& kernels,
                                 const TileDecoder& decoder, ThreadPool& pool,
                                 const MeasurementLimits& limits) {
  THAW_CHECK(CanMultiply(type.type));
  THAW_ASSIGN(const uint64_t buffer_bytes, limits.BufferBytes());
  THAW_ASSIGN(MatMulBench bench, MatMulBench::Create(type, kernels, decoder, pool, buffer_bytes));
  MatMulRate rate = {.type = type};
  THAW_ASSIGN(rate.decode_bytes_per_second, bench.DecodeRate(limits.seconds));
  THAW_ASSIGN(rate.prefill_bytes_per_second, bench.PrefillRate(limits.seconds));
  return rate;
}

Result<double> MeasureDiskRate(const File& file, const MeasurementLimits& limits) {
  // 32 GiB: no disk gives more in the time that a measurement takes.
  constexpr int64_t kMaxRequests = 1 << 16;
  const uint64_t request_bytes = std::min(kRequestBytes, file.size());
  if (request_bytes == 0) {
    return Fail(ErrorCode::kInvalidArgument, "{}: no disk rate from an empty file", file.path());
  }
  THAW_TRY(limits.BufferBytes());
  // Not owned: the caller keeps it until this returns.
  const UncachedFile uncached(std::shared_ptr<const File>(std::shared_ptr<void>(), &file));
  const uint64_t stride = ReadSpan(0, request_bytes, ReadAlignment(uncached));
  THAW_ASSIGN(AlignedBuffer buffer,
              AlignedBuffer::Allocate(kRequestsInFlight * stride, "reads to measure",
                                      static_cast<size_t>(ReadAlignment(uncached))));
  ThreadPool readers(kRequestsInFlight);
  const uint64_t places = file.size() / request_bytes;
  const auto start = Clock::now();
  ReadLog log;
  readers.ParallelFor(kMaxRequests, 1, [&](int64_t index, int64_t, int worker) {
    if (index > 0 && SecondsSince(start) > limits.seconds) return;
    const uint64_t offset = static_cast<uint64_t>(index) % places * request_bytes;
    log.Add(ReadNow({.file = &uncached,
                     .offset = offset,
                     .bytes = request_bytes,
                     .buffer = buffer.data() + static_cast<uint64_t>(worker) * stride,
                     .tag = 0})
                .outcome);
  });
  return log.Rate(request_bytes);
}

}  // namespace thaw
