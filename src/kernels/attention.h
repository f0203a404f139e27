// Causal attention of one token to the stored positions of one KV head.
//
// A KV head serves `group` query heads (grouped-query attention; 1 for multi-head attention). Keys
// and values of past positions lie in a KV cache in float32 or float16; the caller owns everything.
// The softmax is exact in two passes over all positions, so the result depends on nothing but the
// token's query and the positions it sees: not on batch, chunk or thread.
//
// Costs: reads every visible key and value once for each four query heads.
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw {

enum class KvType { kF32, kF16 };

// Bytes of one stored number.
int64_t KvTypeBytes(KvType type);

struct AttentionArguments {
  const float* q = nullptr;  // [group, head_dim]
  int64_t group = 1;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;

  KvType kv_type = KvType::kF32;
  const std::byte* k = nullptr;  // [n_positions, head_dim], rows k_stride numbers apart
  const std::byte* v = nullptr;  // [n_positions, v_head_dim], rows v_stride numbers apart
  int64_t k_stride = 0;
  int64_t v_stride = 0;

  int64_t n_positions = 0;  // how many the token sees, itself included; >= 1
  float scale = 1;          // of q . k before the softmax

  float* scores = nullptr;  // [group, n_positions], scratch
  float* out = nullptr;     // [group, v_head_dim]
};

}  // namespace thaw
