// Products of a group of frozen bf16 with one token, in AVX-512 with VBMI2, over the sums that an
// instruction set makes of its lines:
//   AddLine(words, line)   of line 0 and 1 of every vector in turn, two columns of 16 rows, those
//                          that come next
//   EndChunk(columns)      after a chunk, with the number of columns until there
//   Total()                of 16 rows
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include "codec/x86/vectors_avx512vbmi2.h"
#include "kernels/coded_token.h"
#include "kernels/packed_formats.h"
#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

constexpr int kSets = 8;

// Exponents are decoded and patched by so many vectors, which stay in the nearest cache.
constexpr int64_t kChunkVectors = 64;
static_assert(kChunkVectors * kFrozenLanes <= kKeptBlocks * kKeptBlockBytes);

// Numbers from words that have their sign as the lowest bit.
THAW_INLINE __m512i WithSignFirst(__m512i words) { return _mm512_shrdi_epi16(words, words, 1); }

template <typename Sums>
void MultiplyBf16Group(StreamCursor& cursor, const CodedToken& token, float* out) {
  const SlotRegisters slots = LoadSlots(cursor.tables, 0);
  auto* exponents = reinterpret_cast<uint8_t*>(token.kept);
  Sums sums(*token.activations);
  const int64_t vectors = cursor.stream.cols / kFrozenColsOfVector;
  for (int64_t first = 0; first < vectors; first += kChunkVectors) {
    const int64_t n = vectors - first < kChunkVectors ? vectors - first : kChunkVectors;
    for (int64_t v = 0; v < n; v += kSets) {
      HoldBack(cursor);
      const std::byte* coded = cursor.coded;
#pragma GCC unroll 8
      for (int set = 0; set < kSets; ++set) {
        if (set % 2 == 0) PrefetchCoded(coded);
        PrefetchCoded(cursor.raw + 64 * (v + set));
        _mm512_store_si512(exponents + 64 * (v + set),
                           TakeSymbols(slots, cursor.states[set], coded));
      }
      cursor.coded = coded;
    }
    TakePatches(cursor, (first + n) * kFrozenLanes, [&](int64_t weight, uint8_t value) {
      uint8_t& exponent = exponents[weight - first * kFrozenLanes];
      exponent = static_cast<uint8_t>(exponent + value);
    });
    for (int64_t v = 0; v < n; ++v, cursor.raw += 64) {
      const __m512i exponent = _mm512_load_si512(exponents + 64 * v);
      const __m512i rest = _mm512_loadu_si512(cursor.raw);
      sums.AddLine(WithSignFirst(_mm512_unpacklo_epi8(rest, exponent)), 0);
      sums.AddLine(WithSignFirst(_mm512_unpackhi_epi8(rest, exponent)), 1);
    }
    sums.EndChunk((first + n) * kFrozenColsOfVector);
  }
  Lanes16::StoreFloats(sums.Total(), out);
}

}  // namespace
}  // namespace thaw
