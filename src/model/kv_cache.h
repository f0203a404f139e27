// The keys and values of one sequence, for every layer and position that will be seen again: layers
// with a window hold the latest positions alone, in a ring. The states of recurrent layers are kept
// beside them (model/recurrent_state.h).
//
// One block of memory, taken at creation for the whole context; the system backs it as positions
// are first written. The owner is the sequence; a forward pass over several sequences gets one of
// these for each. Not thread safe, but different positions may be written at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/kernel_table.h"
#include "model/config.h"
#include "model/recurrent_state.h"

namespace thaw {

struct KvSize {
  KvType type = KvType::kF16;
  int64_t n_positions = 1;  // at most
  int64_t max_batch = 1;    // positions that a forward pass stores before it looks at them
};

class KvCache {
 public:
  KvCache() = default;  // of no positions

  // kInvalidArgument, naming the head size and the types that work, when the heads of the model
  // cannot be stored as `type`.
  static Result<void> CheckType(const ModelConfig& config, KvType type);

  // As what `type` is best kept where these kernels compute: kF16 as KernelTable::halves, if all
  // heads can be stored so.
  static KvType TypeToKeep(const ModelConfig& config, KvType type, const KernelTable& kernels);

  // The errors of CheckType; kResourceExhausted when the system has no memory for it.
  static Result<KvCache> Create(const ModelConfig& config, const KvSize& size);

  // Bytes that Create takes.
  static uint64_t Bytes(const ModelConfig& config, const KvSize& size);

  // Bytes of the keys, values and states that the last of `length` positions sees.
  static uint64_t BytesSeen(const ModelConfig& config, KvType type, int64_t length);

  KvType type() const { return size_.type; }
  int64_t capacity() const { return size_.n_positions; }
  int64_t max_batch() const { return size_.max_batch; }

  // Positions [0, length) hold keys and values, as far as a later token sees them.
  int64_t length() const { return length_; }
  // The forward pass has stored positions up to `length`.
  void Extend(int64_t length);
  // Goes back to `length` positions, or to fewer, perhaps none, where what a token there sees is
  // held no longer: windows reach back less far than the sequence went on, and recurrent layers
  // hold few states. Returns how many are left.
  int64_t GoBack(int64_t length);

  // Keeps a key [heads.size] and a value [heads.v_size] of one KV head of one layer.
  void Store(const KernelTable& kernels, int64_t layer, int64_t kv_head, int64_t position,
             const float* key, const float* value);

  // Of the recurrent layers.
  RecurrentState& states() { return states_; }

  // Of one KV head of one layer: keys and values as kernels/attention.h describes them. Position p
  // lies where p % Ring(layer) does; 0: where p does.
  std::byte* Keys(int64_t layer, int64_t kv_head);
  std::byte* Values(int64_t layer, int64_t kv_head);

  // The same of the keys by which a layer chooses keys: float rows, of float16 where the rest is
  // q8_0.
  void StoreIndexKey(const KernelTable& kernels, int64_t layer, int64_t position, const float* key);
  // Those of positions [first, first + count).
  WeightRows IndexKeys(int64_t layer, int64_t first, int64_t count) const;

  int64_t Ring(int64_t layer) const;

 private:
  // The keys and values of one layer.
  struct Layer {
    HeadShape heads = {};
    size_t offset = 0;       // of the first KV head in memory_
    size_t key_bytes = 0;    // of one KV head
    size_t value_bytes = 0;  // likewise
    int64_t held = 0;        // positions
    Window window = {};
    int64_t index_key_size = 0;
    size_t index_offset = 0;  // of the keys by which it chooses
  };
  static std::vector<Layer> LayOut(const ModelConfig& config, const KvSize& size);

  KvSize size_ = {.n_positions = 0};
  int64_t length_ = 0;
  int64_t longest_ = 0;  // that it has been since it was empty
  std::vector<Layer> layers_;
  RecurrentState states_;
  AlignedBuffer memory_;  // layer by layer, [heads.n_kv] of keys, then values
};

}  // namespace thaw
