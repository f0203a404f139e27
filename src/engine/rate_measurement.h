// Measures what engine/machine_rates.h holds, by doing it: reading memory, multiplying random
// weights by the kernels that will multiply the model's, reading the file that will be read.
//
// Each function works for about the stated time in slices, at least three of them, and takes the
// median slice, so that what else the machine does in between counts little. It allocates what it
// needs within the stated allowance and frees it again. The pool is used as the engine uses it; run
// nothing else on it meanwhile. Other programs on the machine lower what is measured, as they will
// lower the speed of the model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/cpu_features.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "codec/tile_decoder.h"
#include "engine/machine_rates.h"
#include "io/file.h"
#include "kernels/kernel_table.h"
#include "residency/weight_cache.h"
#include "tensor/element_type.h"

namespace thaw {

// Weights and memory are measured over this much where the allowance has room for it: four times
// the 32 MiB of last-level cache of common machines, so that little of a pass is left of the one
// before.
inline constexpr uint64_t kMeasuredBytes = uint64_t{128} << 20;

// Of the allowance, for all but that: requests of the disk (4 MiB), or 128 tokens with their
// products (3 MiB) and the scratch of each thread (12 KiB).
inline constexpr uint64_t kMeasurementScratchBytes = uint64_t{8} << 20;

struct MeasurementLimits {
  uint64_t memory_bytes = kMeasuredBytes + kMeasurementScratchBytes;  // at any moment
  double seconds = 0.2;                                               // of each measurement

  // Of the weights or the memory that is measured: MachineRates::buffer_bytes. kResourceExhausted,
  // naming what is needed, when it would be less than 2 MiB.
  Result<uint64_t> BufferBytes() const;
};

// Those that give a Result fail with kResourceExhausted when the allowance is too small or the
// system has no memory.

// Bytes a second that all threads of the pool read from memory.
Result<double> MeasureMemoryRate(ThreadPool& pool, const MeasurementLimits& limits);

// Reads the weights that a cache holds by all threads of the pool, again and again, a part at a
// time; takes no memory. They are pinned as long as this is there.
class ResidentReader {
 public:
  ResidentReader(WeightCache& weights, ThreadPool& pool);

  uint64_t bytes() const { return bytes_; }  // of all of them

  // Bytes a second of reading what comes next: kMeasuredBytes in whole tiles, or all where there is
  // less. There must be some.
  double ReadOn();

 private:
  ThreadPool& pool_;
  std::vector<PinnedTile> tiles_;
  uint64_t bytes_ = 0;
  size_t next_ = 0;  // of the tiles
};

// The median of such readings.
struct ResidentRate {
  double bytes_per_second = 0;  // 0 where it holds none
  uint64_t bytes = 0;           // of the weights; as MachineRates::buffer_bytes
};
ResidentRate MeasureResidentRate(WeightCache& weights, ThreadPool& pool, double seconds);

// Seconds that a loop on all threads takes beyond the work in it, evenly shared: for starting it,
// for the last part to end, and for cores that other programs hold.
double MeasureForkJoin(ThreadPool& pool, const MeasurementLimits& limits);

// What all threads of the pool do of the best loop of kernels/peak_rate.h; takes no memory. Nothing
// where the CPU has no such instruction.
struct Int8Rate {
  const char* instruction = "";
  double operations_per_second = 0;  // multiplications and additions of int8 numbers
};
std::optional<Int8Rate> MeasureInt8Rate(ThreadPool& pool, double seconds,
                                        const CpuFeatures& cpu = HostCpu());

// How evenly one fixed loop of arithmetic runs that is done over and over on every thread of the
// pool at once: how much longer than at best on the same thread it took, 0 for not at all. On cores
// that are this program's alone and keep their frequency both are next to 0. A frequency that falls
// raises the median, a neighbour that takes a core for a while the other.
struct LoopTimes {
  double least_seconds = 0;  // of all
  double median_excess = 0;
  double p90_excess = 0;
};
LoopTimes MeasureLoopTimes(ThreadPool& pool, double seconds);

// CanMultiply(type.type) must hold; coded are Q8_0 and BF16, which `decoder` decodes.
Result<MatMulRate> MeasureMatMul(const WeightForm& type, const KernelTable& kernels,
                                 const TileDecoder& decoder, ThreadPool& pool,
                                 const MeasurementLimits& limits);

// Bytes a second that the disk under `file` gives: requests of 512 KiB, 8 in flight, past the page
// cache. Where the file has no such way, plain reads, which may be the page cache's rate; they will
// be the same when the model is read. Begins at the start of the file and goes round.
Result<double> MeasureDiskRate(const File& file, const MeasurementLimits& limits);

}  // namespace thaw
