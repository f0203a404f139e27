// One tensor of a model to the tiles of a frozen one (docs/format.md).
//
// Streams are read, quantized and encoded by all threads of a pool, a batch at a time, and written
// in their order: what is written depends on the tensor and the recipe alone. Memory: one stream a
// thread while it is encoded (WorkerBytes), and the coded bytes of a batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "codec/frozen_tensor.h"
#include "codec/trellis_quantizer.h"
#include "engine/freeze_plan.h"
#include "gguf/gguf_file.h"
#include "io/output_file.h"

namespace thaw {

// How a tensor is coded.
struct FreezeRecipe {
  // Of ecq: one for each matrix, or one for all.
  std::vector<TrellisQuantizer> quantizers;
  // Of a stream, the states left out, as a sample tells: what decides how many fill a tile.
  double bits_per_weight = 0;
};

struct FreezeOutcome {
  // False where an F32 tensor turned out to hold more than BF16 does; nothing else is set then, and
  // what was written is of no use.
  bool is_exact = true;
  FrozenTensor tensor = {};  // offsets of tiles from the start of the blob
  uint64_t tile_bytes = 0;
  double error = 0;  // sums of QuantizedRows
  double energy = 0;
};

// What is shared by all tensors of a run.
struct FreezeWork {
  const GgufFile* file = nullptr;
  ThreadPool* pool = nullptr;
  int64_t batch_streams = 1;
  const std::atomic<bool>* cancel = nullptr;  // looked at between batches; may be null
};

// Appends the tiles. `on_weights` gets how many more weights are done. kCancelled when `cancel` was
// set; the errors of ReadRows.
Result<FreezeOutcome> FreezeTensor(const FreezeWork& work, const TensorPlan& plan,
                                   const FreezeRecipe& recipe, OutputFile& tiles,
                                   FunctionRef<void(int64_t weights)> on_weights);

// Memory that encoding any stream of the tensor takes of a thread, and what its result takes at
// most while its batch waits.
uint64_t WorkerBytes(const TensorPlan& plan);
uint64_t StreamBytesAtMost(const TensorPlan& plan);

}  // namespace thaw
