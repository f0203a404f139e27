#include "codec/x86/decoders.h"
#include "codec/x86/vectors_avx512vbmi2.h"

namespace thaw {
namespace {

constexpr int kSets = 8;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kScaleBytes = 32;  // of 16 rows of one block of Q8_0

template <int kRawPlanes>
void DecodeEcqOf(StreamCursor& cursor, std::byte* packed) {
  const SlotRegisters slots = LoadSlots(cursor.tables, 0);
  TrellisRegisters trellis = BeginTrellis();
  const int64_t blocks = cursor.stream.cols / kFrozenBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    // Before a unit, the scales of its two blocks, or one.
    if (block % 2 == 0) packed += block + 1 < blocks ? 2 * kScaleBytes : kScaleBytes;
    HoldBack(cursor);
    for (int plane = 0; plane < kRawPlanes; ++plane) PrefetchCoded(cursor.raw + 64 * plane);
    const std::byte* coded = cursor.coded;
#pragma GCC unroll 8
    for (int set = 0; set < kSets; ++set) {
      _mm512_storeu_si512(
          packed + kLineBytes * set,
          TakeIntegers<kRawPlanes>(slots, cursor.states[set], cursor.raw, set, coded, trellis));
    }
    cursor.coded = coded;
    cursor.raw += 8 * kRawPlanes * kSets;
    packed += kLineBytes * kSets;
  }
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
  const SlotRegisters slots = LoadSlots(cursor.tables, 0);
  for (int64_t block = 0; block < cursor.stream.cols / kFrozenBlock; ++block) {
    HoldBack(cursor);
    const std::byte* coded = cursor.coded;
    const std::byte* raw = cursor.raw;
#pragma GCC unroll 8
    for (int set = 0; set < kSets; ++set) {
      if (set % 2 == 0) PrefetchCoded(coded);
      PrefetchCoded(raw + kLineBytes * set);
      const __m512i exponents = TakeSymbols(slots, cursor.states[set], coded);
      const __m512i rest = _mm512_loadu_si512(raw + kLineBytes * set);
      // s * 256 + a, and rotated: s * 128 + a / 2 + (a % 2) * 32768.
      const __m512i low = _mm512_unpacklo_epi8(rest, exponents);
      const __m512i high = _mm512_unpackhi_epi8(rest, exponents);
      _mm512_storeu_si512(packed + kLineBytes * (2 * set), _mm512_shrdi_epi16(low, low, 1));
      _mm512_storeu_si512(packed + kLineBytes * (2 * set + 1), _mm512_shrdi_epi16(high, high, 1));
    }
    cursor.coded = coded;
    cursor.raw += kLineBytes * kSets;
    packed += 2 * kLineBytes * kSets;
  }
}

}  // namespace avx512vbmi2
}  // namespace thaw
