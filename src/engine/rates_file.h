// Keeps the rates of a machine in a small text file, so that only the first run measures them.
//
//   thaw machine rates 4
//   cpu AMD EPYC avx2 fma f16c           what was measured, as MachineIdentity has it; the
//   cores 2                              rest of the line is the value
//   kernels avx2
//   threads 2
//   buffer_bytes 134217728
//   memory_bytes_per_second 4.1e+10
//   fork_join_seconds 2.5e-06
//   matmul Q4_0 2.5e+10 1.1e+11          type, decode, prefill; a line for each type
//   disk 254:0 3.4e+09                   device, rate; a line for each device
//
// Lines in this order, one space between words, a line break after each. The file is written whole
// or not at all. Two programs that write it at once: the last one wins, nothing breaks.
#pragma once

#include <span>
#include <string>

#include "base/result.h"
#include "base/thread_pool.h"
#include "codec/tile_decoder.h"
#include "engine/machine_rates.h"
#include "engine/rate_measurement.h"
#include "io/file.h"
#include "kernels/kernel_table.h"
#include "tensor/element_type.h"

namespace thaw {

struct RatesFile {
  MachineIdentity identity;
  MachineRates rates;
};

// kNotFound where there is no file; kCorrupt, naming the line, for one that this program did not
// write or that was changed since.
Result<RatesFile> LoadRates(const std::string& path);

Result<void> SaveRates(const std::string& path, const MachineIdentity& identity,
                       const MachineRates& rates);

// What rates are wanted, and how those that are not known yet may be measured.
struct RatesRequest {
  std::span<const WeightForm> types;                // CanMultiply holds for each
  const TileDecoder* decoder = &PortableDecoder();  // of coded ones
  const File* file = nullptr;                       // the disk under it; nullptr: no disk
  std::string cache_path = {};                      // "": nothing is kept
  bool remeasure = false;                           // although they are known
  MeasurementLimits limits = {};
};

// The rates in the file at cache_path, as far as they are of this machine, these kernels and as
// many threads, and were measured over as large a buffer as the limits allow now (any, where they
// allow none); the rest is measured, and the file rewritten with all of them. A file that is
// corrupt or of another machine, and one that cannot be written, cost a log line and nothing else.
// About half a second for each type and a quarter for the disk where nothing is known.
Result<MachineRates> ObtainRates(const RatesRequest& request, const KernelTable& kernels,
                                 ThreadPool& pool);

}  // namespace thaw
