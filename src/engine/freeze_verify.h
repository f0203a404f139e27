// A frozen model compared with what it was made of.
//
// Every tile is read again, its hash compared and its streams decoded; what comes out is compared
// with the input: bf16 bit by bit, ecq by the error that the run has reported. Tiles go to all
// threads of the pool; memory of one for each.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "codec/frozen_tensor.h"
#include "codec/tile_decoder.h"
#include "engine/freeze_plan.h"
#include "engine/imatrix.h"
#include "gguf/gguf_file.h"

namespace thaw {

struct VerifiedTensor {
  const TensorPlan* plan = nullptr;
  double error = 0;  // sums of QuantizedRows
  double energy = 0;
};

struct VerifyWork {
  const GgufFile* input = nullptr;
  const ImportanceMatrix* importance = nullptr;  // that the errors are weighted by; may be null
  const GgufFile* output = nullptr;
  const TileDecoder* decoder = &PortableDecoder();
  ThreadPool* pool = nullptr;
  const std::atomic<bool>* cancel = nullptr;  // may be null
};

// kCorrupt names file, tensor and tile and says what differs; kCancelled when `cancel` was set.
// `on_weights` gets how many more weights are done.
Result<void> VerifyFrozenTensor(const VerifyWork& work, const VerifiedTensor& tensor,
                                FunctionRef<void(int64_t weights)> on_weights);

// Memory of a thread.
uint64_t VerifyingBytes(const TensorPlan& plan);

}  // namespace thaw
