// Half of a vector at a time: the lower bytes of 32 states in one register, their upper bytes in
// another. Slots, symbols and the coded bytes that states take are bytes by lanes. Words, which the
// product needs, are those of even lanes and those of odd ones.
//
// States lie in memory, and 8 vectors go through three loops: what owns their slots, what it gives
// and makes of the states, the bytes that they take. Each loop keeps its tables in registers and
// has 16 halves that do not wait for each other; one loop took a seventh more time.
//
// There is no look-up in 128 entries here. What owns a slot is found by counting: the slots are cut
// into 16 buckets of 8, each with the number of what owns its first slot and a bit for every other
// slot at which the next one begins, so that
//
//   number = that of the bucket + bits of the bucket up to the slot
//
// Frequency, first slot and symbol then stand in tables by number, of 16 entries for each shuffle.
// Numbers go to those that own slots alone.
#include <immintrin.h>

#include <cstring>

#include "codec/x86/decoders.h"

#define THAW_INLINE [[gnu::always_inline]] static inline

namespace thaw {
namespace {

constexpr int kSets = 8;
constexpr int kHalves = 2;
constexpr int64_t kLineBytes = 64;
constexpr int64_t kHalfBytes = 32;
constexpr int64_t kScaleBytes = 32;  // of 16 rows of one block of Q8_0
// How far ahead of what is decoded memory is asked for: 4 bits a weight and 6 weights a nanosecond
// take it in 1.4 us, several times what memory takes to answer.
constexpr int64_t kPrefetchBytes = 4096;

constexpr int kEntries = 16;        // of a table that one shuffle looks up
constexpr int kBuckets = kEntries;  // of slots
constexpr int kBucketSlots = kFrozenSlots / kBuckets;
constexpr int kMostTables = (kFrozenMaxSymbols + kEntries - 1) / kEntries;

// What is looked up. Entries of numbers that are not given are 0. In tables by number, those behind
// the first sixteen are xored with the entry 16 before.
struct Tables {
  alignas(16) uint8_t bucket_number[kBuckets];
  alignas(16) uint8_t bucket_begins[kBuckets];  // bit j - 1: slot j begins the next number
  alignas(16) uint8_t frequency[kMostTables * kEntries];  // plus 128
  alignas(16) uint8_t first_slot[kMostTables * kEntries];
  alignas(16) uint8_t symbol[kMostTables * kEntries];
  int numbers;
};

THAW_INLINE void XorWithSixteenBefore(uint8_t* table) {
  for (int i = kMostTables * kEntries - 1; i >= kEntries; --i) {
    table[i] = static_cast<uint8_t>(table[i] ^ table[i - kEntries]);
  }
}

THAW_INLINE void MakeTables(const StreamCursor& cursor, Tables& t) {
  std::memset(&t, 0, sizeof(t));
  int number = -1;
  for (int slot = 0; slot < kFrozenSlots;) {
    const int frequency = cursor.tables.doubled_frequency[slot] / 2;
    ++number;
    t.frequency[number] = static_cast<uint8_t>(128 + frequency);
    t.first_slot[number] = static_cast<uint8_t>(slot);
    t.symbol[number] = cursor.tables.symbol[slot];
    if (slot % kBucketSlots != 0) {
      const int begins = t.bucket_begins[slot / kBucketSlots] | 1 << (slot % kBucketSlots - 1);
      t.bucket_begins[slot / kBucketSlots] = static_cast<uint8_t>(begins);
    }
    const int end = slot + frequency;
    for (int bucket = (slot + kBucketSlots - 1) / kBucketSlots; bucket * kBucketSlots < end;
         ++bucket) {
      t.bucket_number[bucket] = static_cast<uint8_t>(number);
    }
    slot = end;
  }
  t.numbers = number + 1;
  XorWithSixteenBefore(t.frequency);
  XorWithSixteenBefore(t.first_slot);
  XorWithSixteenBefore(t.symbol);
}

// What owns the slots of the 8 vectors of a block, by number, and then what they decode to.
struct BlockSymbols {
  alignas(32) std::byte lanes[kSets][kFrozenLanes];
};

THAW_INLINE __m256i Load(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}
THAW_INLINE void Store(__m256i x, void* p) { _mm256_storeu_si256(static_cast<__m256i*>(p), x); }
THAW_INLINE __m256i LoadTable(const uint8_t* p) {
  return _mm256_broadcastsi128_si256(_mm_load_si128(reinterpret_cast<const __m128i*>(p)));
}
THAW_INLINE void Prefetch(const std::byte* p) {
  _mm_prefetch(reinterpret_cast<const char*>(p) + kPrefetchBytes, _MM_HINT_T0);
}

// StreamCursor::HoldBack.
THAW_INLINE void HoldBack(StreamCursor& cursor) {
  if (cursor.coded > cursor.stream.states) [[unlikely]] {
    cursor.was_held_back = true;
    cursor.coded = cursor.stream.states;
  }
}

// The numbers of what owns the slots of a block's states.
THAW_INLINE void FindNumbers(const Tables& t, const StreamCursor& cursor, BlockSymbols& numbers) {
  const __m256i low_bits = _mm256_set1_epi8(15);
  // Bits of a bucket's slots up to each, but for the first. A shuffle goes by the lowest 4 bits of
  // bytes below 128.
  const __m256i up_to = _mm256_setr_epi8(0, 1, 3, 7, 15, 31, 63, 127, 0, 1, 3, 7, 15, 31, 63, 127,
                                         0, 1, 3, 7, 15, 31, 63, 127, 0, 1, 3, 7, 15, 31, 63, 127);
  const __m256i bits = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2,
                                        1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
  const __m256i begins = LoadTable(t.bucket_begins);
  const __m256i number = LoadTable(t.bucket_number);
  for (int set = 0; set < kSets; ++set) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const __m256i low = Load(cursor.states[set].low + kHalfBytes * h);
      const __m256i buckets = _mm256_and_si256(_mm256_srli_epi16(low, 3), low_bits);
      const __m256i slots = _mm256_and_si256(low, _mm256_set1_epi8(127));
      const __m256i begun =
          _mm256_and_si256(_mm256_shuffle_epi8(begins, buckets), _mm256_shuffle_epi8(up_to, slots));
      const __m256i below = _mm256_shuffle_epi8(bits, begun);
      const __m256i above =
          _mm256_shuffle_epi8(bits, _mm256_and_si256(_mm256_srli_epi16(begun, 4), low_bits));
      Store(_mm256_add_epi8(_mm256_shuffle_epi8(number, buckets), _mm256_add_epi8(below, above)),
            numbers.lanes[set] + kHalfBytes * h);
    }
  }
}

// A table by number in registers.
template <int kTables>
struct NumberTable {
  __m256i sixteens[kTables];
};
template <int kTables>
THAW_INLINE NumberTable<kTables> LoadNumberTable(const uint8_t* table) {
  NumberTable<kTables> loaded;
#pragma GCC unroll 3
  for (int i = 0; i < kTables; ++i) loaded.sixteens[i] = LoadTable(table + kEntries * i);
  return loaded;
}

// Entries by numbers below 128. A shuffle gives 0 where a byte is 128 or more, as those below 0
// are.
template <int kTables>
THAW_INLINE __m256i LookUp(const NumberTable<kTables>& table, __m256i numbers) {
  __m256i found = _mm256_shuffle_epi8(table.sixteens[0], numbers);
#pragma GCC unroll 2
  for (int i = 1; i < kTables; ++i) {
    const __m256i of_table =
        _mm256_sub_epi8(numbers, _mm256_set1_epi8(static_cast<char>(kEntries * i)));
    found = _mm256_xor_si256(found, _mm256_shuffle_epi8(table.sixteens[i], of_table));
  }
  return found;
}

// For each lane where `takes` is 255, and not 0: how many of the lanes before it in its half are
// such.
THAW_INLINE __m256i PlacesOfTaken(__m256i takes) {
  // Counts up to each lane, within its four: 0x01010101 times those lanes' 1, which are `takes`
  // times -0x01010101, as 255 * 0x01010101 is -1.
  const __m256i of_four = _mm256_mullo_epi32(takes, _mm256_set1_epi32(-0x04030201));
  const __m256i fours =
      _mm256_setr_epi8(-1, -1, -1, -1, 3, 3, 3, 3, -1, -1, -1, -1, 11, 11, 11, 11, -1, -1, -1, -1,
                       3, 3, 3, 3, -1, -1, -1, -1, 11, 11, 11, 11);
  const __m256i eights = _mm256_setr_epi8(-1, -1, -1, -1, -1, -1, -1, -1, 7, 7, 7, 7, 7, 7, 7, 7,
                                          -1, -1, -1, -1, -1, -1, -1, -1, 7, 7, 7, 7, 7, 7, 7, 7);
  const __m256i of_eight = _mm256_add_epi8(of_four, _mm256_shuffle_epi8(of_four, fours));
  return _mm256_add_epi8(_mm256_add_epi8(of_eight, takes), _mm256_shuffle_epi8(of_eight, eights));
}

// Puts symbols in the places of numbers, and steps states on but for the bytes that they take.
template <int kTables>
[[gnu::noinline]] void TakeSymbols(const Tables& t, StreamCursor& cursor, BlockSymbols& symbols) {
  const __m256i even_bytes = _mm256_set1_epi16(255);
  const __m256i even_sevens = _mm256_set1_epi16(127);
  const __m256i odd_sevens = _mm256_set1_epi16(127 << 8);
  const __m256i odd_bytes = _mm256_set1_epi16(-256);
  const auto symbol_table = LoadNumberTable<kTables>(t.symbol);
  const auto frequency_table = LoadNumberTable<kTables>(t.frequency);
  const auto first_table = LoadNumberTable<kTables>(t.first_slot);
  for (int set = 0; set < kSets; ++set) {
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      std::byte* lanes = symbols.lanes[set] + kHalfBytes * h;
      uint8_t* lows = cursor.states[set].low + kHalfBytes * h;
      uint8_t* highs = cursor.states[set].high + kHalfBytes * h;
      const __m256i numbers = Load(lanes);
      const __m256i low = Load(lows);
      const __m256i high = Load(highs);
      Store(LookUp(symbol_table, numbers), lanes);
      const __m256i frequency = LookUp(frequency_table, numbers);
      const __m256i first = LookUp(first_table, numbers);
      // x' = 2 frequency * high + rest, the rest slot - first or, where bit 7 of low is set, a
      // frequency more. That bit in low and the one added to frequencies are 256, no bit of a byte.
      const __m256i rest =
          _mm256_sub_epi8(low, _mm256_blendv_epi8(first, _mm256_sub_epi8(first, frequency), low));
      const __m256i even_half =
          _mm256_maddubs_epi16(high, _mm256_and_si256(frequency, even_sevens));
      const __m256i odd_half = _mm256_maddubs_epi16(high, _mm256_and_si256(frequency, odd_sevens));
      const __m256i even = _mm256_add_epi16(_mm256_add_epi16(even_half, even_half),
                                            _mm256_and_si256(rest, even_bytes));
      const __m256i odd =
          _mm256_add_epi16(_mm256_add_epi16(odd_half, odd_half), _mm256_srli_epi16(rest, 8));
      Store(_mm256_blendv_epi8(even, _mm256_slli_epi16(odd, 8), odd_bytes), lows);
      Store(_mm256_blendv_epi8(_mm256_srli_epi16(even, 8), odd, odd_bytes), highs);
    }
  }
}

// Half a set's states: those below 256 go up by a byte. Moves `coded` behind the bytes.
THAW_INLINE void Renew(const std::byte*& coded, uint8_t* lows, uint8_t* highs) {
  const __m256i low = Load(lows);
  const __m256i high = Load(highs);
  const __m256i takes = _mm256_cmpeq_epi8(high, _mm256_setzero_si256());
  const auto bits = static_cast<uint32_t>(_mm256_movemask_epi8(takes));
  const auto load = [](const std::byte* p) __attribute__((always_inline)) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  };
  const __m256i bytes = _mm256_shuffle_epi8(
      _mm256_set_m128i(load(coded + _mm_popcnt_u32(bits & 0xffff)), load(coded)),
      PlacesOfTaken(takes));
  coded += _mm_popcnt_u32(bits);
  Store(_mm256_blendv_epi8(high, low, takes), highs);
  Store(_mm256_blendv_epi8(low, bytes, takes), lows);
}

THAW_INLINE void RenewStates(StreamCursor& cursor) {
  const std::byte* coded = cursor.coded;
  for (int set = 0; set < kSets; ++set) {
    if (set % 2 == 0) Prefetch(coded);
    StateSet& states = cursor.states[set];
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      Renew(coded, states.low + kHalfBytes * h, states.high + kHalfBytes * h);
    }
  }
  cursor.coded = coded;
}

// The symbols of the 8 vectors that come next.
[[gnu::noinline]] void TakeBlock(const Tables& t, StreamCursor& cursor, BlockSymbols& symbols) {
  HoldBack(cursor);
  FindNumbers(t, cursor, symbols);
  if (t.numbers <= kEntries) {
    TakeSymbols<1>(t, cursor, symbols);
  } else if (t.numbers <= 2 * kEntries) {
    TakeSymbols<2>(t, cursor, symbols);
  } else {
    TakeSymbols<3>(t, cursor, symbols);
  }
  RenewStates(cursor);
}

// The bits of a raw plane for 32 lanes: 255 in those whose bit is set.
THAW_INLINE __m256i SpreadBits(const std::byte* plane) {
  int32_t word;
  std::memcpy(&word, plane, sizeof(word));
  const __m256i byte_of_lane = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2,
                                                2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
  const __m256i bit_of_lane = _mm256_set1_epi64x(static_cast<int64_t>(0x8040201008040201));
  const __m256i lanes =
      _mm256_and_si256(_mm256_shuffle_epi8(_mm256_set1_epi32(word), byte_of_lane), bit_of_lane);
  return _mm256_cmpeq_epi8(lanes, bit_of_lane);
}

// What the trellis keeps of the vectors before, for 32 lanes: the bits z, and bytes whose lowest
// bits are those of m.
struct TrellisLanes {
  __m256i z1, z2, z3, m1, m2;
};

// The integers of the numbers m that come next, by 2 m and bytes whose lowest bits are those of m.
THAW_INLINE __m256i Step(TrellisLanes& t, __m256i doubled, __m256i m) {
  const __m256i z =
      _mm256_and_si256(_mm256_xor_si256(_mm256_xor_si256(t.z1, t.z3), t.m2), _mm256_set1_epi8(1));
  t = {.z1 = z, .z2 = t.z1, .z3 = t.z2, .m1 = m, .m2 = t.m1};
  return _mm256_or_si256(doubled, z);
}

// The lines of a block: the symbols with raw bits, put through the trellis.
template <int kRawPlanes>
THAW_INLINE void WriteEcqBlock(const BlockSymbols& symbols, StreamCursor& cursor,
                               TrellisLanes (&trellis)[kHalves], std::byte* lines) {
#pragma GCC unroll 8
  for (int set = 0; set < kSets; ++set) {
    const std::byte* raw = cursor.raw + 8 * kRawPlanes * set;
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      __m256i m = Load(symbols.lanes[set] + kHalfBytes * h);
      __m256i doubled = m;
      if (kRawPlanes == 0) doubled = _mm256_andnot_si256(_mm256_set1_epi8(1), m);
      if (kRawPlanes >= 1) {
        m = SpreadBits(raw + 4 * h);
        doubled = _mm256_or_si256(doubled, _mm256_and_si256(m, _mm256_set1_epi8(2)));
      }
      if (kRawPlanes == 2) {
        const __m256i bits = SpreadBits(raw + 8 + 4 * h);
        doubled = _mm256_or_si256(doubled, _mm256_and_si256(bits, _mm256_set1_epi8(4)));
      }
      Store(Step(trellis[h], doubled, m), lines + kLineBytes * set + kHalfBytes * h);
    }
  }
  cursor.raw += 8 * kRawPlanes * kSets;
}

template <int kRawPlanes>
void DecodeEcqOf(StreamCursor& cursor, std::byte* packed) {
  Tables t;
  MakeTables(cursor, t);
  BlockSymbols symbols;
  const __m256i zero = _mm256_setzero_si256();
  TrellisLanes trellis[kHalves] = {{zero, zero, zero, zero, zero}, {zero, zero, zero, zero, zero}};
  const int64_t blocks = cursor.stream.cols / kFrozenBlock;
  for (int64_t block = 0; block < blocks; ++block) {
    // Before a unit, the scales of its two blocks, or one.
    if (block % 2 == 0) packed += block + 1 < blocks ? 2 * kScaleBytes : kScaleBytes;
    for (int plane = 0; plane < kRawPlanes; ++plane) Prefetch(cursor.raw + 64 * plane);
    TakeBlock(t, cursor, symbols);
    WriteEcqBlock<kRawPlanes>(symbols, cursor, trellis, packed);
    packed += kLineBytes * kSets;
  }
}

// The two lines of each vector of a block.
THAW_INLINE void WriteBf16Block(const BlockSymbols& symbols, StreamCursor& cursor,
                                std::byte* lines) {
  for (int set = 0; set < kSets; ++set) {
    const std::byte* raw = cursor.raw + kFrozenLanes * set;
    std::byte* line = lines + 2 * kLineBytes * set;
    Prefetch(raw);
#pragma GCC unroll 2
    for (int h = 0; h < kHalves; ++h) {
      const __m256i exponents = Load(symbols.lanes[set] + kHalfBytes * h);
      const __m256i rest = Load(raw + kHalfBytes * h);
      // s * 256 + a, and rotated: s * 128 + a / 2 + (a % 2) * 32768.
      const __m256i low = _mm256_unpacklo_epi8(rest, exponents);
      const __m256i high = _mm256_unpackhi_epi8(rest, exponents);
      Store(_mm256_or_si256(_mm256_srli_epi16(low, 1), _mm256_slli_epi16(low, 15)),
            line + kHalfBytes * h);
      Store(_mm256_or_si256(_mm256_srli_epi16(high, 1), _mm256_slli_epi16(high, 15)),
            line + kLineBytes + kHalfBytes * h);
    }
  }
  cursor.raw += kFrozenLanes * kSets;
}

}  // namespace

namespace avx2 {

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
  Tables t;
  MakeTables(cursor, t);
  BlockSymbols symbols;
  for (int64_t block = 0; block < cursor.stream.cols / kFrozenBlock; ++block) {
    TakeBlock(t, cursor, symbols);
    WriteBf16Block(symbols, cursor, packed);
    packed += 2 * kLineBytes * kSets;
  }
}

}  // namespace avx2
}  // namespace thaw
