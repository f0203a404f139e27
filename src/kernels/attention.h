// Causal attention of one token to the stored positions of one KV head.
//
// A KV head serves `group` query heads (grouped-query attention; 1 for multi-head attention). Keys
// and values of past positions lie in a KV cache in one of the forms of KvType; the caller owns
// everything. The softmax is exact in two passes over all positions, so the result depends on
// nothing but the token's query and the positions it sees: not on batch, chunk or thread.
//
// Costs: reads every visible key and value once for each four query heads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace thaw {

// How the numbers of a row (one key or value of one head at one position) are stored.
enum class KvType {
  kF32,
  kF16,
  kQ8_0,  // blocks of a scale and 32 int8, below
};

// A block of kQ8_0: a scale in bfloat16, then 32 int8; number = scale * int8. The blocks of a row
// follow each other without gaps, at any alignment.
//
// The scale is that of the block's largest magnitude / 127, rounded to nearest, and the integers
// are rounded for that rounded scale, so a number is off by at most half the scale. Two bytes hold
// it because memory is what the type is for; bfloat16 because a float16 has no scales for blocks
// above 8e6 and ever coarser ones for blocks below 0.008, while the 2^-9 that a bfloat16 is off
// leaves the largest number at 127.25 at most, which still rounds to 127. A block whose largest
// magnitude is below 2^-119 is zero; one with a NaN or an infinity reads as NaN.
inline constexpr int64_t kKvBlock = 32;
inline constexpr int64_t kKvBlockBytes = 2 + kKvBlock;

// "f32", "f16" or "q8_0".
std::string_view KvTypeName(KvType type);

// Whether rows of n numbers can be stored so: those of kQ8_0 are whole blocks.
bool CanStoreKv(KvType type, int64_t n);

// Bytes of a stored row of n numbers; a started block counts as a whole one.
int64_t KvRowBytes(KvType type, int64_t n);

struct AttentionArguments {
  const float* q = nullptr;  // [group, head_dim]
  int64_t group = 1;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;

  KvType kv_type = KvType::kF32;  // CanStoreKv of both head sizes
  const std::byte* k = nullptr;   // [n_positions] rows of head_dim numbers
  const std::byte* v = nullptr;   // [n_positions] rows of v_head_dim numbers
  int64_t k_stride_bytes = 0;     // from row to row
  int64_t v_stride_bytes = 0;

  int64_t n_positions = 0;  // how many the token sees, itself included; >= 1
  float scale = 1;          // of q . k before the softmax

  float* scores = nullptr;  // [group, n_positions], scratch
  float* out = nullptr;     // [group, v_head_dim]
};

}  // namespace thaw
