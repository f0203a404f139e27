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

  static Type LoadBytes(const std::byte* from) {
    uint32_t four;
    std::memcpy(&four, from, sizeof(four));
    const int16x8_t halves = vmovl_s8(vcreate_s8(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
  }
  static Type BroadcastBF16(const std::byte* from) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return vreinterpretq_f32_u32(vshll_n_u16(vdup_n_u16(bits), 16));
  }
  static int64_t AheadBytes(int64_t /*block_bytes*/) { return attention_tile::kLeadBytes; }
  static void Prefetch(const std::byte* at) { __builtin_prefetch(at); }
};

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  StoreKvRow<Vectors, Blocks>(x, n, type, out);
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::neon
