// A vector of the format is one register: 32 states of 16 bits for its even lanes, 32 for its odd
// ones, and what they decode to is a byte a lane, already in the order of packed rows. The states
// of all 8 sets stay in registers for a group; the vectors of different sets do not wait for each
// other.
//
// x' = frequency * x / 128 + bias is one product of 16 bits whose upper half is kept, with the
// frequency times 512.
#include <immintrin.h>

#include <cstring>

#include "codec/x86/decoders.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

constexpr int kSets = 8;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kScaleBytes = 32;  // of 16 rows of one block of Q8_0
constexpr __mmask64 kOddBytes = 0xaaaaaaaaaaaaaaaa;
// How far ahead of what is decoded memory is asked for: 4 bits a weight and 12 weights a nanosecond
// take it in 700 ns, several times what memory takes to answer.
constexpr int64_t kPrefetchBytes = 4096;

// Operands that stay in memory: the states of all sets leave no register for them, and compilers
// that keep them in registers keep states in memory instead, which takes a fifth more time.
struct Operands {
  // The lower bytes of 16-bit numbers, twice each.
  alignas(64) uint8_t lower[64];
  alignas(64) uint16_t lowest_state[32];
  alignas(64) uint16_t upper_mask[32];
  alignas(64) uint16_t one[32];
};
constexpr Operands MakeOperands() {
  Operands made = {};
  for (int i = 0; i < 32; ++i) {
    made.lower[2 * i] = made.lower[2 * i + 1] = static_cast<uint8_t>(2 * i % 16);
    made.lowest_state[i] = kFrozenLowestState;
    made.upper_mask[i] = 0xff00;
    made.one[i] = 1;
  }
  return made;
}
constexpr Operands kOperands = MakeOperands();

// Where a decoder is within a group.
struct Place {
  __m512i even[kSets];
  __m512i odd[kSets];
  // The first 64 entries of the tables; the others stay in memory.
  __m512i doubled_frequency;
  __m512i bias;
  __m512i symbol;
  __m512i escape_symbol;
  const std::byte* coded;
  const std::byte* escapes;
};

THAW_INLINE void Prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes, _MM_HINT_T0);
}

THAW_INLINE Place Begin(const StreamCursor& cursor) {
  Place p;
#pragma GCC unroll 8
  for (int set = 0; set < kSets; ++set) {
    p.even[set] = _mm512_load_si512(cursor.states + 64 * set);
    p.odd[set] = _mm512_load_si512(cursor.states + 64 * set + 32);
  }
  p.doubled_frequency = _mm512_load_si512(cursor.tables.doubled_frequency);
  p.bias = _mm512_load_si512(cursor.tables.bias);
  p.symbol = _mm512_load_si512(cursor.tables.symbol);
  p.escape_symbol = _mm512_set1_epi8(static_cast<char>(cursor.tables.escape_symbol));
  p.coded = cursor.coded;
  p.escapes = cursor.escapes;
  return p;
}

THAW_INLINE void End(const Place& p, const std::byte* raw, StreamCursor& cursor) {
#pragma GCC unroll 8
  for (int set = 0; set < kSets; ++set) {
    _mm512_store_si512(cursor.states + 64 * set, p.even[set]);
    _mm512_store_si512(cursor.states + 64 * set + 32, p.odd[set]);
  }
  cursor.raw = raw;
  cursor.coded = p.coded;
  cursor.escapes = p.escapes;
}

// StreamCursor::HoldBack.
THAW_INLINE void HoldBack(Place& p, StreamCursor& cursor) {
  const std::byte* coded_end = cursor.stream.states;
  const std::byte* escapes_end = cursor.stream.coded;
  if (p.coded > coded_end || p.escapes > escapes_end) [[unlikely]] {
    cursor.was_held_back = true;
    p.coded = p.coded < coded_end ? p.coded : coded_end;
    p.escapes = p.escapes < escapes_end ? p.escapes : escapes_end;
  }
}

// The states of a set after they have given their symbols, `even` and `odd`, with the coded bytes
// that those below 256 take.
THAW_INLINE void Renew(Place& p, const Operands& operands, int set, __m512i even, __m512i odd) {
  const __m512i lowest = _mm512_load_si512(operands.lowest_state);
  const __mmask32 even_takes = _mm512_cmplt_epu16_mask(even, lowest);
  const __mmask32 odd_takes = _mm512_cmplt_epu16_mask(odd, lowest);
  const __mmask64 takes = _mm512_kunpackd(odd_takes, even_takes);
  // Byte i, for those that take one, of the even lanes, and byte 32 + i of the odd ones.
  const __m512i bytes = _mm512_maskz_expand_epi8(takes, _mm512_loadu_si512(p.coded));
  p.coded += _mm_popcnt_u64(takes);
  // To the upper halves of numbers of 16 bits. What their lower halves hold does not matter.
  alignas(64) static constexpr uint8_t kUpper[64] = {
      0, 0,  0, 1,  0, 2,  0, 3,  0, 4,  0, 5,  0, 6,  0, 7,  0, 8,  0, 9,  0, 10,
      0, 11, 0, 12, 0, 13, 0, 14, 0, 15, 0, 16, 0, 17, 0, 18, 0, 19, 0, 20, 0, 21,
      0, 22, 0, 23, 0, 24, 0, 25, 0, 26, 0, 27, 0, 28, 0, 29, 0, 30, 0, 31};
  const __m512i of_even = _mm512_load_si512(kUpper);
  const __m512i of_odd = _mm512_add_epi8(of_even, _mm512_set1_epi8(32));
  p.even[set] =
      _mm512_mask_shldi_epi16(even, even_takes, even, _mm512_permutexvar_epi8(of_even, bytes), 8);
  p.odd[set] =
      _mm512_mask_shldi_epi16(odd, odd_takes, odd, _mm512_permutexvar_epi8(of_odd, bytes), 8);
}

// The symbols that the states of a set give, by lanes, and the states that come next.
THAW_INLINE __m512i TakeSymbols(Place& p, const SlotTables& slot_tables, int set) {
  const Operands* operands = &kOperands;
  const SlotTables* tables = &slot_tables;
  // Compilers must take both for other memory than a vector before.
  asm("" : "+r"(operands), "+r"(tables));
  const __m512i even = p.even[set];
  const __m512i odd = p.odd[set];
  // The lower bytes of the states, by lanes; look-ups go by 7 bits of them.
  const __m512i slots =
      _mm512_mask_shuffle_epi8(even, kOddBytes, odd, _mm512_load_si512(operands->lower));
  const __m512i frequency = _mm512_permutex2var_epi8(
      p.doubled_frequency, slots, _mm512_load_si512(tables->doubled_frequency + 64));
  const __m512i bias =
      _mm512_permutex2var_epi8(p.bias, slots, _mm512_load_si512(tables->bias + 64));
  const __m512i symbols =
      _mm512_permutex2var_epi8(p.symbol, slots, _mm512_load_si512(tables->symbol + 64));
  const __m512i even_product = _mm512_mulhi_epu16(even, _mm512_slli_epi16(frequency, 8));
  const __m512i odd_product =
      _mm512_mulhi_epu16(odd, _mm512_and_si512(frequency, _mm512_load_si512(operands->upper_mask)));
  // The lower, and the upper of two signed bytes as a number of 16 bits.
  const __m512i even_bias = _mm512_maddubs_epi16(_mm512_load_si512(operands->one), bias);
  const __m512i odd_bias = _mm512_srai_epi16(bias, 8);
  Renew(p, *operands, set, _mm512_add_epi16(even_product, even_bias),
        _mm512_add_epi16(odd_product, odd_bias));
  return symbols;
}

// Numbers with the raw bits of one plane: `bits` in the lanes whose bit is set.
THAW_INLINE __m512i AddRawBits(__m512i numbers, const std::byte* plane, int bits) {
  __mmask64 lanes;
  std::memcpy(&lanes, plane, sizeof(lanes));
  return _mm512_mask_mov_epi8(numbers, lanes,
                              _mm512_or_si512(numbers, _mm512_set1_epi8(static_cast<char>(bits))));
}

THAW_INLINE __m512i PutEscapes(Place& p, __mmask64 is_escape, __m512i symbols) {
  const __m512i with = _mm512_mask_expand_epi8(symbols, is_escape, _mm512_loadu_si512(p.escapes));
  p.escapes += _mm_popcnt_u64(is_escape);
  return with;
}

template <int kRawPlanes>
void DecodeEcqOf(StreamCursor& cursor, std::byte* packed) {
  Place p = Begin(cursor);
  const std::byte* raw = cursor.raw;
  // Of the vectors before: the bits z, and numbers whose lowest bits are those of m.
  __m512i z1 = _mm512_setzero_si512();
  __m512i z2 = z1;
  __m512i z3 = z1;
  __m512i m1 = z1;
  __m512i m2 = z1;
  const int64_t blocks = cursor.stream.cols / kFrozenBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    // Before a unit, the scales of its two blocks, or one.
    if (block % 2 == 0) packed += block + 1 < blocks ? 2 * kScaleBytes : kScaleBytes;
    HoldBack(p, cursor);
    for (int plane = 0; plane < kRawPlanes; ++plane) Prefetch(raw + 64 * plane);
#pragma GCC unroll 8
    for (int set = 0; set < kSets; ++set) {
      if (set % 2 == 0) Prefetch(p.coded);
      const __m512i symbols = TakeSymbols(p, cursor.tables, set);
      const __mmask64 is_escape = _mm512_cmpeq_epi8_mask(symbols, p.escape_symbol);
      __m512i m = symbols;
      if (kRawPlanes >= 1) m = AddRawBits(m, raw + 8 * kRawPlanes * set, 3);
      if (kRawPlanes == 2) m = AddRawBits(m, raw + 8 * kRawPlanes * set + 8, 4);
      // Without a branch: it would be mispredicted too often, with an escape in each tenth vector.
      m = PutEscapes(p, is_escape, m);
      const __m512i z = _mm512_ternarylogic_epi32(z1, z3, m2, 0x96);  // ^
      // z in place of the lowest bits.
      const __m512i q = _mm512_ternarylogic_epi32(_mm512_set1_epi8(1), z, m, 0xca);
      _mm512_storeu_si512(packed + kLineBytes * set, q);
      z3 = z2;
      z2 = z1;
      z1 = z;
      m2 = m1;
      m1 = m;
    }
    raw += 8 * kRawPlanes * kSets;
    packed += kLineBytes * kSets;
  }
  End(p, raw, cursor);
}

}  // namespace

namespace avx512vbmi2 {

void DecodeEcq(StreamCursor& cursor, std::byte* packed) {
  switch (cursor.stream.header.raw_planes) {
    case 0:
      return DecodeEcqOf<0>(cursor, packed);
    case 1:
      return DecodeEcqOf<1>(cursor, packed);
    default:
      return DecodeEcqOf<2>(cursor, packed);
  }
}

void DecodeBf16(StreamCursor& cursor, std::byte* packed) {
  Place p = Begin(cursor);
  const std::byte* raw = cursor.raw;
  for (int64_t block = 0; block < cursor.stream.cols / kFrozenBlock; ++block) {
    HoldBack(p, cursor);
#pragma GCC unroll 8
    for (int set = 0; set < kSets; ++set) {
      if (set % 2 == 0) Prefetch(p.coded);
      Prefetch(raw + kLineBytes * set);
      __m512i exponents = TakeSymbols(p, cursor.tables, set);
      const __mmask64 is_escape = _mm512_cmpeq_epi8_mask(exponents, p.escape_symbol);
      if (is_escape != 0) [[unlikely]]
        exponents = PutEscapes(p, is_escape, exponents);
      const __m512i rest = _mm512_loadu_si512(raw + kLineBytes * set);
      // s * 256 + a, and rotated: s * 128 + a / 2 + (a % 2) * 32768.
      const __m512i low = _mm512_unpacklo_epi8(rest, exponents);
      const __m512i high = _mm512_unpackhi_epi8(rest, exponents);
      _mm512_storeu_si512(packed + kLineBytes * (2 * set), _mm512_shrdi_epi16(low, low, 1));
      _mm512_storeu_si512(packed + kLineBytes * (2 * set + 1), _mm512_shrdi_epi16(high, high, 1));
    }
    raw += kLineBytes * kSets;
    packed += 2 * kLineBytes * kSets;
  }
  End(p, raw, cursor);
}

}  // namespace avx512vbmi2
}  // namespace thaw
