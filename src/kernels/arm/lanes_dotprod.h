// Four rows at a time in NEON with the dot product extension: the vectors that
// kernels/packed_products.h is written in. A packed line of 64 bytes is four of them. For
// *_dotprod.cc and *_i8mm.cc files alone; `static`, for the reason given in x86/avx2.h.
#pragma once

#include <arm_neon.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/codebooks.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

struct Lanes4 {
  using Ints = int32x4_t;  // 4 numbers of 32 bits, or 16 bytes
  using Floats = float32x4_t;

  static constexpr int kLanes = 4;
  static constexpr bool kSignedBytes = true;
  static constexpr bool kSignedPanels = true;
  static constexpr bool kWidensBytes = false;
  static constexpr bool kWidthsAlike = true;
  static constexpr bool kTakesLinesInTurn = false;
  static constexpr bool kHalvesLines = false;
  static constexpr bool kTakesHighNibbles = false;
  static constexpr bool kPairsLines = false;
  static constexpr bool kPairsSums = false;
  static constexpr bool kScalesHalves = false;
  static constexpr bool kScalesWords = true;
  // 12 sums of integers and 12 of floats, the four vectors of a line and 16 activations of each
  // token make 31 of 32 registers, and 19 loads for 48 dot products.
  static constexpr int kTileTokens = 3;
  static constexpr int kWholeTileTokens = 3;
  static constexpr int kTileVectors = 4;
  // 16 sums of floats (four vectors of rows take turns), the weights of a step and one token's
  // activations fit the registers.
  static constexpr int kDirectTokens = 4;
  static constexpr int kMostBatches = 1;
  static constexpr int kMostPlainTokens = 6;  // times floats: four sums of each
  static constexpr int64_t kAheadBytes = 8 << 10;
  static constexpr int64_t kAheadBytesIntoL2 = kAheadBytes;
  static constexpr int kMostTokensInOrder = 0;
  static constexpr bool AsksAhead() { return false; }
  static constexpr bool AsksInTurn() { return false; }
  static constexpr bool AsksAheadIntoL2() { return false; }

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
  // Of the lower halves of words.
  THAW_INLINE Floats HalvesOfWords(Ints x) {
    return vcvt_f32_f16(vreinterpret_f16_s16(vmovn_s32(x)));
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
  THAW_INLINE Ints SubtractBytes(Ints a, Ints b) {
    return vreinterpretq_s32_s8(vsubq_s8(vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b)));
  }
  // Rounded up.
  THAW_INLINE Ints AverageBytes(Ints a, Ints b) {
    return vreinterpretq_s32_u8(vrhaddq_u8(vreinterpretq_u8_s32(a), vreinterpretq_u8_s32(b)));
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
  THAW_INLINE Ints ShiftRightLoaded(Ints x, const int32_t* n) { return ShiftRight(x, *n); }
  THAW_INLINE Ints ZeroWhereEqual(Ints x, Ints y) {
    return vbicq_s32(x, vreinterpretq_s32_u32(vceqq_s32(x, y)));
  }
  // Entry x, for bytes x below 16, of the 16 bytes at `table`.
  THAW_INLINE Ints LookUp(const void* table, Ints x) {
    const uint8x16_t entries = vld1q_u8(static_cast<const uint8_t*>(table));
    return vreinterpretq_s32_u8(vqtbl1q_u8(entries, vreinterpretq_u8_s32(x)));
  }
  // Byte i of every word is byte (pattern >> 8 i) % 256 of it, or 0 where that is 0x80.
  THAW_INLINE Ints ShuffleBytes(Ints x, int32_t pattern) {
    alignas(16) static constexpr int32_t kWords[4] = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    const Ints places = AddBytes(vld1q_s32(kWords), vdupq_n_s32(pattern));
    return vreinterpretq_s32_u8(vqtbl1q_u8(vreinterpretq_u8_s32(x), vreinterpretq_u8_s32(places)));
  }
  // Bytes of `yes` where the one bit of the pattern is set in `bits`, and of `no` elsewhere.
  THAW_INLINE Ints Select(Ints bits, Ints pattern, Ints yes, Ints no) {
    const uint8x16_t is_set = vtstq_u8(vreinterpretq_u8_s32(bits), vreinterpretq_u8_s32(pattern));
    return vreinterpretq_s32_u8(
        vbslq_u8(is_set, vreinterpretq_u8_s32(yes), vreinterpretq_u8_s32(no)));
  }
  THAW_INLINE Ints LookUpEight(const uint16_t* table, Ints x) {
    const uint16x8_t at = vreinterpretq_u16_s32(x);
    uint16x8_t entries = vdupq_n_u16(table[vgetq_lane_u16(at, 0)]);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 1), entries, 1);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 2), entries, 2);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 3), entries, 3);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 4), entries, 4);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 5), entries, 5);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 6), entries, 6);
    entries = vld1q_lane_u16(table + vgetq_lane_u16(at, 7), entries, 7);
    return vreinterpretq_s32_u16(entries);
  }
  // Numbers of 16 bits to the entries of a table that they name.
  template <size_t kEntries, int n>
  THAW_INLINE void LookUpHalves(const std::array<uint16_t, kEntries>& table, Ints (&x)[n]) {
#pragma GCC unroll 4
    for (int i = 0; i < n; ++i) {
      x[i] = LookUpEight(reinterpret_cast<const uint16_t*>(&table), x[i]);
    }
  }
  // The octets that index(row, 0) names as lines [0] and [1], four bytes of each row, and those of
  // index(row, 1) as [2] and [3].
  template <typename Indices>
  THAW_INLINE void LookUpBy(const GridPoint8* points, const Indices& index, Ints* lines) {
    for (int i = 0; i < 2; ++i) {
      SplitOctets(LoadPoints(points, index(0, i), index(1, i)),
                  LoadPoints(points, index(2, i), index(3, i)), lines + 2 * i);
    }
  }
  // The lower halves of words as index(row, 0), the upper as index(row, 1).
  struct RowIndices {
    uint16x8_t numbers;

    [[gnu::always_inline]] uint64_t operator()(int row, int i) const {
      return numbers[2 * row + i];
    }
  };
  THAW_INLINE RowIndices IndicesOf(Ints x) { return {vreinterpretq_u16_s32(x)}; }
  THAW_INLINE Ints LoadPoints(const GridPoint8* points, uint64_t row, uint64_t next) {
    return vreinterpretq_s32_s8(
        vcombine_s8(vld1_s8(reinterpret_cast<const int8_t*>(points + row)),
                    vld1_s8(reinterpret_cast<const int8_t*>(points + next))));
  }
  // Eight bytes of rows 0 and 1 and of rows 2 and 3 to two lines.
  THAW_INLINE void SplitOctets(Ints low, Ints high, Ints* lines) {
    lines[0] = vuzp1q_s32(low, high);
    lines[1] = vuzp2q_s32(low, high);
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

  // sum + the products of both halves of the words.
  THAW_INLINE Ints AddHalfProducts(Ints sum, Ints a, Ints b) {
    const int16x8_t x = vreinterpretq_s16_s32(a);
    const int16x8_t y = vreinterpretq_s16_s32(b);
    const int32x4_t low = vmull_s16(vget_low_s16(x), vget_low_s16(y));
    return vaddq_s32(sum, vpaddq_s32(low, vmull_high_s16(x, y)));
  }
  // sum + x * scale, both of which fit 16 bits.
  THAW_INLINE Ints AddScaled(Ints sum, Ints x, Ints scale) { return vmlaq_s32(sum, x, scale); }

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
