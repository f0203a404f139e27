// The keys and values of one sequence, for every layer and position.
//
// One block of memory, taken at creation for the whole context; the system backs it as positions
// are first written. The owner is the sequence; a forward pass over several sequences gets one of
// these for each. Not thread safe, but different positions may be written at once.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/attention.h"
#include "model/config.h"

namespace thaw {

class KvCache {
 public:
  KvCache() = default;  // of no positions

  // kInvalidArgument, naming the head size and the types that work, when the heads of the model
  // cannot be stored as `type`.
  static Result<void> CheckType(const ModelConfig& config, KvType type);

  // The errors of CheckType; kResourceExhausted when the system has no memory for `n_positions`
  // positions.
  static Result<KvCache> Create(const ModelConfig& config, KvType type, int64_t n_positions);

  // Bytes that Create takes.
  static uint64_t Bytes(const ModelConfig& config, KvType type, int64_t n_positions);

  KvType type() const { return type_; }
  int64_t capacity() const { return capacity_; }

  // Positions [0, length) hold keys and values. Written by the forward pass; shortened to go back.
  int64_t length() const { return length_; }
  void SetLength(int64_t length);

  // Keeps a key [head_dim] and a value [v_head_dim] of one KV head of one layer.
  void Store(const KernelTable& kernels, int64_t layer, int64_t kv_head, int64_t position,
             const float* key, const float* value);

  // Of one KV head of one layer, from position 0 on: keys in units, values in rows, as
  // kernels/attention.h describes them.
  std::byte* Keys(int64_t layer, int64_t kv_head);
  std::byte* Values(int64_t layer, int64_t kv_head);

 private:
  KvType type_ = KvType::kF16;
  int64_t capacity_ = 0;
  int64_t length_ = 0;
  int64_t n_kv_heads_ = 0;
  int64_t head_dim_ = 0;
  int64_t v_head_dim_ = 0;
  size_t key_bytes_ = 0;    // of one KV head of one layer
  size_t value_bytes_ = 0;  // likewise
  AlignedBuffer memory_;    // [n_layers, n_kv_heads] of keys, then values
};

}  // namespace thaw
