// Attention over a KV cache in NEON.
#include "kernels/arm/int8_block_neon.h"
#include "kernels/arm/neon.h"
#include "kernels/arm/vector_neon.h"
#include "kernels/attention_tile.h"
#include "tensor/half.h"

namespace thaw::neon {
namespace {

// The operations that attention_tile.h asks for, on 4 floats.
struct Vectors {
  using Type = float32x4_t;
  static constexpr int64_t kLanes = 4;

  // A unit of keys is 4 vectors, and 16 numbers of values lie in one block: 4 x 4 sums, enough
  // chains to hide the latency of an fma.
  static constexpr int kKeyRows = 4;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;
  // 6 x 4 sums, 4 vectors of the panel and a factor: 29 of 32 registers, 24 fma for 10 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 4;

  static Type Zero() { return vdupq_n_f32(0); }
  static Type Set(float x) { return vdupq_n_f32(x); }
  static Type Load(const float* from) { return vld1q_f32(from); }
  static void Store(float* to, Type v) { vst1q_f32(to, v); }
  static Type Add(Type a, Type b) { return vaddq_f32(a, b); }
  static Type Sub(Type a, Type b) { return vsubq_f32(a, b); }
  static Type Mul(Type a, Type b) { return vmulq_f32(a, b); }
  static Type Div(Type a, Type b) { return vdivq_f32(a, b); }
  static Type Fma(Type a, Type b, Type c) { return vfmaq_f32(c, a, b); }
  static Type Max(Type a, Type b) { return vmaxq_f32(a, b); }
  static Type Exp2(Type x) { return neon::Exp2(x); }

  static Type LoadFirst(const float* from, int64_t n) {
    return n >= kLanes ? Load(from) : neon::LoadFirst(from, n);
  }
  // The first n lanes of v, the others of `other`.
  static Type KeepFirst(int64_t n, Type v, Type other) {
    return vbslq_f32(FirstLanes(n), v, other);
  }
  static float SumOfLanes(Type v) { return neon::SumOfLanes(v); }
  static float LargestLane(Type v) { return vmaxvq_f32(v); }

  template <KvType type>
  static Type Widen(uint16x4_t halves) {
    return type == KvType::kF16 ? WidenF16(halves) : WidenBF16(halves);
  }
  template <KvType type>
  static Type LoadHalves(const std::byte* from) {
    return Widen<type>(Load16(from));
  }
  template <KvType type>
  static Type LoadFirstHalves(const std::byte* from, int64_t n) {
    return Widen<type>(LoadFirst16(from, n));
  }
  static Type LoadScales(const std::byte* from) { return LoadHalves<KvType::kBF16>(from); }
  static Type LoadBytes(const std::byte* from) {
    uint32_t four;
    std::memcpy(&four, from, sizeof(four));
    const int16x8_t halves = vmovl_s8(vcreate_s8(four));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(halves)));
  }
  static Type BroadcastScale(const std::byte* from) {
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return WidenBF16(vdup_n_u16(bits));
  }
  static void Prefetch(const std::byte* at) { __builtin_prefetch(at); }
};

// As in portable/attention.cc, where it is derived.
constexpr float kSmallestAmax = 0x1p-119f;

constexpr uint16_t kBF16NaN = 0x7fc0;

void StoreBlock(const float* x, std::byte* out) {
  const FloatBlock block = LoadBlock(x);
  const float amax = LargestMagnitude(&block, 1);
  uint16_t scale = 0;
  int8_t quants[kKvBlock] = {};
  if (!(amax <= kLargestFinite)) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = F32ToBF16(amax / 127.0f);
    StoreBytes(RoundProducts(block, 1.0f / BF16ToF32(scale)), quants);
  }
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), quants, sizeof(quants));
}

void StoreHalves(const float* x, int64_t n, std::byte* out) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const uint16x4_t halves = vreinterpret_u16_f16(vcvt_f16_f32(vld1q_f32(x + i)));
    vst1_u8(reinterpret_cast<uint8_t*>(out + 2 * i), vreinterpret_u8_u16(halves));
  }
  if (i == n) return;
  uint16_t buffer[4];
  vst1_u16(buffer, vreinterpret_u16_f16(vcvt_f16_f32(LoadFirst(x + i, n - i))));
  std::memcpy(out + 2 * i, buffer, static_cast<size_t>(n - i) * 2);
}

void StoreBrainHalves(const float* x, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = F32ToBF16(x[i]);
    std::memcpy(out + 2 * i, &half, sizeof(half));
  }
}

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * 4);
      break;
    case KvType::kF16:
      StoreHalves(x, n, out);
      break;
    case KvType::kBF16:
      StoreBrainHalves(x, n, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) StoreBlock(x + i, out);
      break;
  }
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<Vectors>(arguments, span, states, scratch);
}

}  // namespace thaw::neon
