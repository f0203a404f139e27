// The file that a freezing run leaves: all fields and tensors of the input, the frozen ones as
// blobs.
//
// Memory: a piece of 1 MiB.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/freeze_journal.h"
#include "engine/freeze_plan.h"
#include "gguf/gguf_file.h"

namespace thaw {

// What is frozen as one tensor of the output, or kept as it is.
struct OutputTensor {
  const TensorPlan* plan = nullptr;
  bool is_frozen = false;
  FreezeRecord record = {};  // of a frozen one that is in the journal
};

// What the output takes beside the blobs of frozen tensors, to the byte where those are multiples
// of its alignment.
uint64_t ContainerBytes(const GgufFile& input, std::span<const OutputTensor> tensors);

// Writes the output and returns its bytes; it appears when it is whole. `on_progress(done, total)`
// gets bytes of tensors and returns whether to go on; kCancelled when it said no.
// kResourceExhausted, before anything is written, where the file system has no room for it.
Result<uint64_t> WriteFrozenModel(const GgufFile& input, std::span<const OutputTensor> tensors,
                                  const FreezeJournal& journal, const std::string& path,
                                  FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

}  // namespace thaw
