// A file with one line of JSON for every visit of a tile of weights:
//
//   {"pass": 3, "layer": 0, "weight": "blk.0.attn_q.weight", "tile": 17, "result": "HIT",
//    "bytes": 524288, "stall_us": 0.0, "resident_bytes": 41943040, "capacity_bytes": 62914560,
//    "fullness": 0.6667, "hit_rate": 0.5000}
//
// "fullness" is resident / capacity, "hit_rate" that of the visits up to this one. Any file will
// do, a pipe too. Thread safe. Costs about a microsecond a visit, and one buffer of memory.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>

#include "base/result.h"
#include "engine/engine.h"

namespace thaw::cli {

class TraceFile {
 public:
  // kIo where it cannot be written; what stood there is gone.
  static Result<std::unique_ptr<TraceFile>> Create(const std::string& path);

  // Nothing more is written after a failure, which Close tells.
  void Write(const VisitEvent& visit);

  // Writes what is held back. Nothing may be called afterwards.
  Result<void> Close();

 private:
  using Stream = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

  TraceFile(std::string path, Stream stream) : path_(std::move(path)), stream_(std::move(stream)) {}

  const std::string path_;
  std::mutex mutex_;
  // Guarded by mutex_:
  Stream stream_;
  int failure_ = 0;  // errno of the first
  uint64_t visits_ = 0;
  uint64_t hits_ = 0;
};

// One line, without a newline.
std::string TraceLine(const VisitEvent& visit, double hit_rate);

}  // namespace thaw::cli
