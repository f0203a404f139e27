// The work of a freezing run that may be interrupted: finished tensors in a folder beside the
// output.
//
//   OUT.freezing/parameters     what the run was asked for, as text
//   OUT.freezing/tensor-00012   one finished tensor: its tiles, its head, a record of 96 bytes
//
// Files appear whole or not at all (io/output_file.h), so that whatever stands there is finished. A
// folder with other parameters is emptied. Owned by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "io/file.h"
#include "io/output_file.h"

namespace thaw {

// What became of a tensor; as it lies at the end of its file, but for the hash.
struct FreezeRecord {
  // What its file holds.
  enum class Outcome : uint64_t { kFrozen = 1, kNotExact = 2, kNotSmaller = 3 };

  Outcome outcome = Outcome::kFrozen;
  uint64_t tile_bytes = 0;
  uint64_t head_bytes = 0;
  double target_bits = 0;  // that a weight was to take; 0 where no number was asked for
  double step = 0;         // of the quantizer
  double error = 0;        // sums of QuantizedRows
  double energy = 0;
  double source_rmse = 0;  // asked for by way of a type; 0 for none
  double seconds = 0;

  uint64_t blob_bytes() const { return head_bytes + tile_bytes; }
};

class FreezeJournal {
 public:
  // What a folder held.
  enum class Found { kNothing, kSameRun, kOtherRun };

  // Opens the folder of `output`, or makes it. kInvalidArgument where something else stands there,
  // kIo where it cannot be written.
  static Result<FreezeJournal> Open(const std::string& output, const std::string& parameters);

  Found found() const { return found_; }

  // Nothing where the tensor is not finished, or where its file is not what Finish wrote.
  std::optional<FreezeRecord> Find(size_t tensor) const;

  // Where the tiles of a tensor go; Finish makes it part of the journal, in place of an earlier
  // one.
  Result<OutputFile> Start(size_t tensor) const;
  static Result<void> Finish(OutputFile file, std::span<const std::byte> head, FreezeRecord record);

  // Hands out the blob of a finished tensor, piece by piece: its head, its tiles.
  Result<void> ReadBlob(size_t tensor, const FreezeRecord& record,
                        FunctionRef<Result<void>(std::span<const std::byte>)> take) const;

  // Removes the folder with all that is in it.
  Result<void> Remove() const;

 private:
  FreezeJournal(std::string folder, Found found) : folder_(std::move(folder)), found_(found) {}
  std::string PathOf(size_t tensor) const;

  std::string folder_;
  Found found_;
};

}  // namespace thaw
