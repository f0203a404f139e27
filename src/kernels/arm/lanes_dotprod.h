// Four rows at a time in NEON with the dot product extension: the vectors that
// kernels/packed_products.h is written in. A packed line of 64 bytes is four of them. For
// *_dotprod.cc and *_i8mm.cc files alone; `static`, for the reason given in x86/avx2.h.
#pragma once

#include <arm_neon.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Lanes4 {
  using Ints = int32x4_t;  // 4 numbers of 32 bits, or 16 bytes
  using Floats = float32x4_t;

  static constexpr int kLanes = 4;
  static constexpr bool kSignedBytes = true;
  static constexpr bool kWidthsAlike = true;
  static constexpr bool kPairsLines = false;
  // 12 sums of integers and 12 of floats, the four vectors of a line and 16 activations of each
  // token make 31 of 32 registers, and 19 loads for 48 dot products.
  static constexpr int kTileTokens = 3;
  static constexpr int kTileVectors = 4;
  // 16 sums of floats (four vectors of rows take turns), the weights of a step and one token's
  // activations fit the registers.
  static constexpr int kMostDirectTokens = 4;
  static constexpr int kMostPlainTokens = 6;  // times floats: four sums of each

  THAW_INLINE Ints Load(const std::byte* p) {
    return vreinterpretq_s32_u8(vld1q_u8(reinterpret_cast<const uint8_t*>(p)));
  }
  THAW_INLINE void Store(Ints x, std::byte* p) {
    vst1q_u8(reinterpret_cast<uint8_t*>(p), vreinterpretq_u8_s32(x));
  }
  THAW_INLINE Floats LoadFloats(const float* p) { return vld1q_f32(p); }
  THAW_INLINE void StoreFloats(Floats x, float* p) { vst1q_f32(p, x); }
  THAW_INLINE uint8x8_t LoadEight(const std::byte* p) {
    return vld1_u8(reinterpret_cast<const uint8_t*>(p));
  }
  THAW_INLINE Floats LoadHalves(const std::byte* p) {
    return vcvt_f32_f16(vreinterpret_f16_u8(LoadEight(p)));
  }
  THAW_INLINE Ints LoadBytesAsWords(const std::byte* p) {
    uint32_t four;
    std::memcpy(&four, p, sizeof(four));
    const uint16x8_t halves = vmovl_u8(vcreate_u8(four));
    return vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(halves)));
  }
  THAW_INLINE Ints LoadHalvesAsWords(const std::byte* p) {
    return vreinterpretq_s32_u32(vmovl_u16(vreinterpret_u16_u8(LoadEight(p))));
  }

  THAW_INLINE Ints Broadcast(int32_t x) { return vdupq_n_s32(x); }
  THAW_INLINE Ints BroadcastByte(int x) {
    return vreinterpretq_s32_s8(vdupq_n_s8(static_cast<int8_t>(x)));
  }
  THAW_INLINE Floats Broadcast(float x) { return vdupq_n_f32(x); }
  // The two floats at p, over and over.
  THAW_INLINE Floats BroadcastPair(const float* p) {
    const float32x2_t pair = vld1_f32(p);
    return vcombine_f32(pair, pair);
  }

  THAW_INLINE Ints And(Ints a, Ints b) { return vandq_s32(a, b); }
  THAW_INLINE Ints Or(Ints a, Ints b) { return vorrq_s32(a, b); }
  THAW_INLINE Ints Xor(Ints a, Ints b) { return veorq_s32(a, b); }
  THAW_INLINE Ints Add(Ints a, Ints b) { return vaddq_s32(a, b); }
  THAW_INLINE Ints Subtract(Ints a, Ints b) { return vsubq_s32(a, b); }
  THAW_INLINE Ints AddBytes(Ints a, Ints b) {
    return vreinterpretq_s32_s8(vaddq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }
  template <int n>
  THAW_INLINE Ints ShiftLeft(Ints x) {
    return vshlq_n_s32(x, n);
  }
  // NEON's own right shifts have no 0.
  template <int n>
  THAW_INLINE Ints ShiftRight(Ints x) {
    if constexpr (n == 0) {
      return x;
    } else {
      return vreinterpretq_s32_u32(vshrq_n_u32(vreinterpretq_u32_s32(x), n));
    }
  }
  template <int n>
  THAW_INLINE Ints ShiftRightSigned(Ints x) {
    if constexpr (n == 0) {
      return x;
    } else {
      return vshrq_n_s32(x, n);
    }
  }
  THAW_INLINE Ints ShiftLeft(Ints x, int n) { return vshlq_s32(x, vdupq_n_s32(n)); }
  THAW_INLINE Ints ShiftRight(Ints x, int n) {
    return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), vdupq_n_s32(-n)));
  }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return vbicq_s32(x, vreinterpretq_s32_u32(vceqq_s32(x, y)));
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const uint8x16_t entries = vld1q_u8(static_cast<const uint8_t*>(table));
    return vreinterpretq_s32_u8(vqtbl1q_u8(entries, vreinterpretq_u8_s32(x)));
  }

  THAW_INLINE Floats AsFloats(Ints x) { return vreinterpretq_f32_s32(x); }
  THAW_INLINE Floats ToFloats(Ints x) { return vcvtq_f32_s32(x); }
  THAW_INLINE Floats Zero() { return vdupq_n_f32(0); }
  THAW_INLINE Floats Add(Floats a, Floats b) { return vaddq_f32(a, b); }
  THAW_INLINE Floats Multiply(Floats a, Floats b) { return vmulq_f32(a, b); }
  THAW_INLINE Floats MultiplyAdd(Floats a, Floats b, Floats c) { return vfmaq_f32(c, a, b); }
  THAW_INLINE Floats Negate(Floats x) { return vnegq_f32(x); }
  // [low[0] + low[1], low[2] + low[3], high[0] + high[1], high[2] + high[3]]
  THAW_INLINE Floats AddNeighbours(Floats low, Floats high) { return vpaddq_f32(low, high); }

  // sum + the products of four bytes each of w with the four of lane `lane` of `a`.
  template <int lane>
  THAW_INLINE Ints DotLane(Ints sum, Ints w, int8x16_t a) {
    return vdotq_laneq_s32(sum, vreinterpretq_s8_s32(w), a, lane);
  }

  // init + the products of four bytes each of w[0..n) with the bytes of 4 n activations.
  template <int kBits, int n>
  THAW_INLINE Ints Dot(const Ints* w, const int8_t* a, Ints init) {
    Ints sum = init;
    if constexpr (n == 1) {
      int32_t four;
      std::memcpy(&four, a, sizeof(four));
      return vdotq_s32(sum, vreinterpretq_s8_s32(w[0]), vreinterpretq_s8_s32(vdupq_n_s32(four)));
    }
    static_assert(n == 1 || n % 4 == 0);
#pragma GCC unroll 2
    for (int j = 0; j + 4 <= n; j += 4) {
      const int8x16_t sixteen = vld1q_s8(a + 4 * j);
      sum = DotLane<0>(sum, w[j], sixteen);
      sum = DotLane<1>(sum, w[j + 1], sixteen);
      sum = DotLane<2>(sum, w[j + 2], sixteen);
      sum = DotLane<3>(sum, w[j + 3], sixteen);
    }
    return sum;
  }

  // A line of kVectors vectors of rows times lane `lane` of the activations of kTokens tokens.
  template <int lane, int kVectors, int kTokens>
  THAW_INLINE void DotLine(const std::byte* w, const int8x16_t (&a)[kTokens],
                           Ints (&sums)[kVectors][kTokens]) {
    Ints line[kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) line[r] = Load(w + 16 * r);
#pragma GCC unroll 8
    for (int t = 0; t < kTokens; ++t) {
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) sums[r][t] = DotLane<lane>(sums[r][t], line[r], a[t]);
    }
  }

  // The same as Dot for kVectors vectors of rows and kTokens tokens. `w` holds line after line, `a`
  // the activations of token after token, token_bytes apart.
  template <int kBits, int n, int kVectors, int kTokens>
  THAW_INLINE void DotTile(const std::byte* w, int64_t line_bytes, const int8_t* a,
                           int64_t token_bytes, Ints (&sums)[kVectors][kTokens]) {
#pragma GCC unroll 2
    for (int j = 0; j < n; j += 4, w += 4 * line_bytes) {
      int8x16_t sixteen[kTokens];
#pragma GCC unroll 8
      for (int t = 0; t < kTokens; ++t) sixteen[t] = vld1q_s8(a + t * token_bytes + 4 * j);
      DotLine<0>(w, sixteen, sums);
      DotLine<1>(w + line_bytes, sixteen, sums);
      DotLine<2>(w + 2 * line_bytes, sixteen, sums);
      DotLine<3>(w + 3 * line_bytes, sixteen, sums);
    }
  }
};

}  // namespace
}  // namespace thaw
