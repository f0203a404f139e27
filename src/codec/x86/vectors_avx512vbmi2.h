// Vectors of the format (docs/format.md, sections 3 to 5) in registers of AVX-512 with VBMI2: a
// byte a lane, already in the order of packed rows. For files that are compiled for it alone; in an
// anonymous namespace and `static`, for the reason given in x86/decoders.h.
//
// The two planes of bytes of a set's states stay in memory, where the next vector of the set finds
// them 8 vectors later; tables and constants fill the registers. Bytes that lie in place cost less
// than they save: the lower plane is what is looked up, and a state is renewed by moving its lower
// byte up and expanding coded bytes to where it was.
//
// x' = frequency * x / 128 + bias is one product of 16 bits whose upper half is kept, with the
// frequency times 512.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "codec/frozen_stream.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

inline constexpr __mmask64 kOddBytes = 0xaaaaaaaaaaaaaaaa;
// How far ahead of what is decoded memory is asked for: 4 bits a weight and 15 weights a nanosecond
// take it in 550 ns, several times what memory takes to answer.
inline constexpr int64_t kCodedPrefetchBytes = 4096;

THAW_INLINE void PrefetchCoded(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p) + kCodedPrefetchBytes, _MM_HINT_T0);
}

// StreamCursor::HoldBack.
THAW_INLINE void HoldBack(StreamCursor& cursor) {
  if (cursor.coded > cursor.stream.states) [[unlikely]] {
    cursor.was_held_back = true;
    cursor.coded = cursor.stream.states;
  }
}

// `odd` in the odd bytes, `even` in the others.
THAW_INLINE __m512i MixBytes(__m512i even, __m512i odd) {
  return _mm512_mask_mov_epi8(even, kOddBytes, odd);
}

// SlotTables, 64 entries a register.
struct SlotRegisters {
  __m512i doubled_frequency[2];
  __m512i bias[2];
  __m512i symbol[2];
};

// Symbols are given xor `flipped`.
THAW_INLINE SlotRegisters LoadSlots(const SlotTables& tables, int flipped) {
  SlotRegisters r;
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(flipped));
#pragma GCC unroll 2
  for (int i = 0; i < 2; ++i) {
    r.doubled_frequency[i] = _mm512_load_si512(tables.doubled_frequency + 64 * i);
    r.bias[i] = _mm512_load_si512(tables.bias + 64 * i);
    r.symbol[i] = _mm512_xor_si512(_mm512_load_si512(tables.symbol + 64 * i), flip);
  }
  return r;
}

// The symbols that the states of a set give, by lanes. Renews the states and moves `coded` on.
THAW_INLINE __m512i TakeSymbols(const SlotRegisters& slots, StateSet& set,
                                const std::byte*& coded) {
  const __m512i low = _mm512_load_si512(set.low);
  const __m512i high = _mm512_load_si512(set.high);
  // Look-ups go by 7 bits of a byte.
  const __m512i frequency =
      _mm512_permutex2var_epi8(slots.doubled_frequency[0], low, slots.doubled_frequency[1]);
  const __m512i bias = _mm512_permutex2var_epi8(slots.bias[0], low, slots.bias[1]);
  const __m512i symbols = _mm512_permutex2var_epi8(slots.symbol[0], low, slots.symbol[1]);
  const __m512i upper = _mm512_set1_epi16(static_cast<int16_t>(0xff00));
  const __m512i even =
      _mm512_add_epi16(_mm512_mulhi_epu16(MixBytes(low, _mm512_slli_epi16(high, 8)),
                                          _mm512_slli_epi16(frequency, 8)),
                       // The lower of two signed bytes.
                       _mm512_maddubs_epi16(_mm512_set1_epi16(1), bias));
  const __m512i odd = _mm512_add_epi16(_mm512_mulhi_epu16(MixBytes(_mm512_srli_epi16(low, 8), high),
                                                          _mm512_and_si512(frequency, upper)),
                                       _mm512_srai_epi16(bias, 8));
  const __m512i new_low = MixBytes(even, _mm512_slli_epi16(odd, 8));
  const __m512i new_high = MixBytes(_mm512_srli_epi16(even, 8), odd);
  const __mmask64 takes = _mm512_testn_epi8_mask(new_high, new_high);
  _mm512_store_si512(set.low, _mm512_mask_expand_epi8(new_low, takes, _mm512_loadu_si512(coded)));
  _mm512_store_si512(set.high, _mm512_mask_mov_epi8(new_high, takes, new_low));
  coded += _mm_popcnt_u64(takes);
  return symbols;
}

// Numbers with the raw bits of one plane: `bits`, which they do not have yet, in the lanes whose
// bit is set.
THAW_INLINE __m512i AddRawPlane(__m512i numbers, const std::byte* plane, int bits) {
  __mmask64 lanes;
  std::memcpy(&lanes, plane, sizeof(lanes));
  return _mm512_mask_add_epi8(numbers, lanes, numbers, _mm512_set1_epi8(static_cast<char>(bits)));
}

// The trellis of 64 lanes: what it keeps of the vectors before, the bits z, and numbers whose
// lowest bits are those of m.
struct TrellisRegisters {
  __m512i z1, z2, z3, m1, m2;
};

THAW_INLINE TrellisRegisters BeginTrellis() {
  const __m512i zero = _mm512_setzero_si512();
  return {.z1 = zero, .z2 = zero, .z3 = zero, .m1 = zero, .m2 = zero};
}

// The integers of the numbers that come next, as SlotTables has them: z in place of the lowest bit.
THAW_INLINE __m512i Step(TrellisRegisters& t, __m512i m) {
  const __m512i z = _mm512_ternarylogic_epi32(t.z1, t.z3, t.m2, 0x96);  // ^
  t = {.z1 = z, .z2 = t.z1, .z3 = t.z2, .m1 = m, .m2 = t.m1};
  return _mm512_ternarylogic_epi32(_mm512_set1_epi8(1), z, m, 0xca);
}

// The integers of vector `set` of a block of 8. `raw`: the planes of the block.
template <int kRawPlanes>
THAW_INLINE __m512i TakeIntegers(const SlotRegisters& slots, StateSet& states, const std::byte* raw,
                                 int set, const std::byte*& coded, TrellisRegisters& trellis) {
  if (set % 2 == 0) PrefetchCoded(coded);
  __m512i m = TakeSymbols(slots, states, coded);
  if (kRawPlanes >= 1) m = AddRawPlane(m, raw + 8 * kRawPlanes * set, 3);
  if (kRawPlanes == 2) m = AddRawPlane(m, raw + 8 * kRawPlanes * set + 8, 4);
  return Step(trellis, m);
}

}  // namespace
}  // namespace thaw
