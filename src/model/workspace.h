// The working memory of a forward pass: activations and scratch for a stated number of tokens.
//
// One block, taken at creation; WorkspaceBytes tells its size beforehand by the same arithmetic.
// Owned by the model, used by one forward pass at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "model/config.h"

namespace thaw {

struct WorkspaceSize {
  int64_t max_batch = 1;    // tokens of one forward pass
  int64_t max_context = 1;  // positions of the longest sequence
  int threads = 1;
  int64_t embedding_row_bytes = 0;  // as in the file
};

struct Workspace {
  float* x = nullptr;                   // [batch, d_model], the residual stream
  float* normed = nullptr;              // [batch, d_model]
  float* q = nullptr;                   // [batch, n_heads, head_dim]
  float* k = nullptr;                   // [batch, n_kv_heads, head_dim]
  float* v = nullptr;                   // [batch, n_kv_heads, v_head_dim]
  float* attended = nullptr;            // [batch, n_heads, v_head_dim]
  float* gate = nullptr;                // [batch, d_ff]
  float* up = nullptr;                  // [batch, d_ff]
  float* projected = nullptr;           // [batch, d_model], what a block adds to the stream
  float* cos_sin = nullptr;             // [batch, rope_dim]
  float* scores = nullptr;              // [threads, group, max_context]
  std::byte* quantized = nullptr;       // activations of the batch as int8
  std::byte* matmul_scratch = nullptr;  // [threads, matmul_scratch_stride]
  std::byte* row = nullptr;             // [embedding_row_bytes]
  size_t matmul_scratch_stride = 0;     // bytes

  AlignedBuffer memory;  // what all of them point into
};

uint64_t WorkspaceBytes(const ModelConfig& config, const WorkspaceSize& size);

// kResourceExhausted when the system has no memory for it.
Result<Workspace> AllocateWorkspace(const ModelConfig& config, const WorkspaceSize& size);

}  // namespace thaw
