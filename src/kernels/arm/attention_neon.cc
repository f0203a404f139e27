// Attention over a KV cache in NEON.
#include "kernels/arm/int8_block_neon.h"
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/attention_tile.h"
#include "kernels/store_kv.h"

namespace thaw::neon {
namespace {

struct AttentionVectors : Vectors {
  // A unit of keys is 4 vectors, and 16 numbers of values lie in one block: 4 x 4 sums, enough
  // chains to hide the latency of an fma.
  static constexpr int kKeyRows = 4;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;
  // 6 x 4 sums, 4 vectors of the panel and a factor: 29 of 32 registers, 24 fma for 10 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 4;

  // 4 x 4 sums, and the first and the second numbers of 4 vectors of pairs.
  static constexpr int kPairRows = 4;
  static constexpr int kPairVectors = 4;

  using Ints = int32x4_t;
  static int32x4_t ZeroInts() { return vdupq_n_s32(0); }
  static int32x4_t WidenPairs(const std::byte* from) {
    return vreinterpretq_s32_s16(vmovl_s8(vld1_s8(reinterpret_cast<const int8_t*>(from))));
  }
  static int32x4_t LoadPairs(const std::byte* from) {
    return vreinterpretq_s32_s8(vld1q_s8(reinterpret_cast<const int8_t*>(from)));
  }
  static int32x4_t SetPair(const int16_t* from) {
    int32_t pair;
    std::memcpy(&pair, from, sizeof(pair));
    return vdupq_n_s32(pair);
  }
  // What b is taken apart into is the same for all rows.
  static int32x4_t AddProducts(int32x4_t sum, int32x4_t a, int32x4_t b) {
    const int16x4_t pair = vget_low_s16(vreinterpretq_s16_s32(a));
    sum = vmlal_lane_s16(sum, vmovn_s32(b), pair, 0);
    return vmlal_lane_s16(sum, vshrn_n_s32(b, 16), pair, 1);
  }
  // As integers: a NaN is above all others.
  static float32x4_t MaxOrNan(float32x4_t a, float32x4_t b) {
    return vreinterpretq_f32_u32(vmaxq_u32(vreinterpretq_u32_f32(a), vreinterpretq_u32_f32(b)));
  }
  static float LargestOrNan(float32x4_t v) {
    return __builtin_bit_cast(float, vmaxvq_u32(vreinterpretq_u32_f32(v)));
  }
  static float32x4_t ToFloats(int32x4_t v) { return vcvtq_f32_s32(v); }
  static void StoreShorts(int16_t* to, float32x4_t a, float32x4_t b) {
    vst1q_s16(to, vcombine_s16(vqmovn_s32(vcvtnq_s32_f32(a)), vqmovn_s32(vcvtnq_s32_f32(b))));
  }

  static int64_t AheadBytes(int64_t /*block_bytes*/) { return attention_tile::kLeadBytes; }
  static void Prefetch(const std::byte* at) { __builtin_prefetch(at); }
  static constexpr bool kAsksForShorts = false;
  static bool AsksInTurn() { return false; }
  static int64_t PairsAheadBytes(int64_t block_bytes) { return AheadBytes(block_bytes); }
  static void PrefetchPairs(const std::byte* at) { Prefetch(at); }
};

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  StoreKvRow<AttentionVectors, Blocks>(x, n, type, out);
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::neon
