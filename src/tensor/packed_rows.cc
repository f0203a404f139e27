#include "tensor/packed_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/packed_numbers.h"
#include "tensor/spread_bits.h"

namespace thaw {
namespace {

constexpr int64_t kRows = kPackedGroupRows;
constexpr int64_t kLineBytes = 4 * kRows;  // four bytes of every row

enum class Element : uint8_t {
  kBytes1 = 1,
  kBytes2 = 2,
  kBytes4 = 4,
  kHighBits = 5,  // 4 bytes whose bits are reordered
};

constexpr int64_t BytesOf(Element element) {
  return element == Element::kHighBits ? 4 : static_cast<int64_t>(element);
}

// A field of a block.
struct Field {
  int64_t offset = 0;  // in the block
  int64_t bytes = 0;
  Element element = Element::kBytes4;

  int64_t PackedBytes() const { return kRows * bytes; }
};

// Numbers that lie as tensor/packed_numbers.h says, by their low and their high bits.
struct Numbers {
  Field low = {};
  Field high = {};  // of no bytes where the low bits are all
  // A block of sixteen rows, whose fields have been interleaved, to lines of numbers.
  void (*pack)(const std::byte* low, const std::byte* high, std::byte* lines) = nullptr;
  // One row of them, back to the words of its fields, which are all zero before.
  void (*unpack)(const std::byte* lines, uint32_t* low, uint32_t* high) = nullptr;

  constexpr int64_t bytes() const { return low.bytes + high.bytes; }  // of a block
};

struct Format {
  ElementType type = ElementType::kF32;
  int64_t unit_blocks = 1;
  std::array<Field, 2> lead = {};  // unused ones have no bytes
  std::array<Field, 4> body = {};
  Numbers numbers = {};  // behind the body
};

// A 16-byte vector of every compiler and machine that this is built with.
using Words = uint32_t __attribute__((vector_size(16)));

Words LoadWords(const std::byte* from) {
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

void StoreWords(Words words, std::byte* to) { std::memcpy(to, &words, sizeof(words)); }

uint32_t LoadWord(const std::byte* from) {
  uint32_t word;
  std::memcpy(&word, from, sizeof(word));
  return word;
}

void StoreWord(uint32_t word, std::byte* to) { std::memcpy(to, &word, sizeof(word)); }

// The same bits of every byte of a word.
constexpr uint32_t OfEveryByte(int mask) { return 0x01010101U * static_cast<uint32_t>(mask); }

// Bits of a block's numbers: kBits of each. The elements of a byte are kDistance apart.
template <int kFieldBits, int kDistance>
struct FieldBits {
  static constexpr int kBits = kFieldBits;
  static constexpr int kSpan = kDistance * (8 / kBits);  // elements of kDistance bytes

  // Of elements [4 i, 4 i + 4): the word of the field that they are in, and where.
  static constexpr int WordOf(int i) { return (4 * i / kSpan * kDistance + 4 * i % kDistance) / 4; }
  static constexpr int ShiftOf(int i) { return 4 * i % kSpan / kDistance * kBits; }
};

struct NoBits {
  static constexpr int kBits = 0;
  static constexpr int WordOf(int /*i*/) { return 0; }
  static constexpr int ShiftOf(int /*i*/) { return 0; }
};

// The two ways between the fields of numbers of kSteps steps and lines of them.
template <int kSteps, typename Low, typename High>
struct NumberLines {
  static constexpr int kBits = Low::kBits + High::kBits;
  static constexpr int kPieces = kMostPiecesOf<kBits>;

  static void Pack(const std::byte* low, const std::byte* high, std::byte* lines) {
    for (int64_t part = 0; part < kLineBytes; part += sizeof(Words)) {
      PackPart(low + part, high + part, lines + part);
    }
  }

  // Of four rows. Unrolled, so that all places are constants.
  static void PackPart(const std::byte* low, const std::byte* high, std::byte* lines) {
#pragma GCC unroll 8
    for (int step = 0; step < kSteps; ++step) {
      Words packed[kBits] = {};
#pragma GCC unroll 8
      for (int j = 0; j < kNumbersOfStep; ++j) {
        const int i = kNumbersOfStep * step + j;
        const auto bits_of = [&]<typename Bits>(Bits, const std::byte* field) {
          const Words word = LoadWords(field + Bits::WordOf(i) * kLineBytes);
          return (word >> Bits::ShiftOf(i)) & OfEveryByte((1 << Bits::kBits) - 1);
        };
        Words number = bits_of(Low(), low);
        if constexpr (High::kBits > 0) number |= bits_of(High(), high) << Low::kBits;
#pragma GCC unroll 3
        for (int p = 0; p < kPieces; ++p) {
          const NumberPiece piece = kNumberPieces<kBits>[j][p];
          packed[piece.line] |= (number & OfEveryByte(piece.mask())) << piece.shift();
        }
      }
#pragma GCC unroll 8
      for (int line = 0; line < kBits; ++line) {
        StoreWords(packed[line], lines + (kBits * step + line) * kLineBytes);
      }
    }
  }

  static void Unpack(const std::byte* lines, uint32_t* low, uint32_t* high) {
    for (int step = 0; step < kSteps; ++step, lines += kBits * kLineBytes) {
      for (int j = 0; j < kNumbersOfStep; ++j) {
        uint32_t number = 0;
        for (int p = 0; p < kPieces; ++p) {
          const NumberPiece piece = kNumberPieces<kBits>[j][p];
          const uint32_t word = LoadWord(lines + piece.line * kLineBytes);
          number |= (word >> piece.shift()) & OfEveryByte(piece.mask());
        }
        const int i = kNumbersOfStep * step + j;
        low[Low::WordOf(i)] |= (number & OfEveryByte((1 << Low::kBits) - 1)) << Low::ShiftOf(i);
        if constexpr (High::kBits > 0) {
          const uint32_t bits = (number >> Low::kBits) & OfEveryByte((1 << High::kBits) - 1);
          high[High::WordOf(i)] |= bits << High::ShiftOf(i);
        }
      }
    }
  }
};

template <typename Block, typename Low, typename High = NoBits>
constexpr Numbers NumbersIn(Field low, Field high = {}) {
  using Lines = NumberLines<Block::kElements / 32, Low, High>;
  return {low, high, Lines::Pack, Lines::Unpack};
}

#define THAW_FIELD(Block, name, element) \
  Field { offsetof(Block, name), sizeof(Block::name), Element::element }

constexpr auto kFormats = std::to_array<Format>({
    {ElementType::kQ4_0,
     2,
     {THAW_FIELD(BlockQ4_0, d, kBytes2)},
     {THAW_FIELD(BlockQ4_0, qs, kBytes4)}},
    {ElementType::kQ4_1,
     1,
     {THAW_FIELD(BlockQ4_1, d, kBytes2), THAW_FIELD(BlockQ4_1, m, kBytes2)},
     {THAW_FIELD(BlockQ4_1, qs, kBytes4)}},
    {ElementType::kQ5_0,
     2,
     {THAW_FIELD(BlockQ5_0, d, kBytes2)},
     {},
     NumbersIn<BlockQ5_0, FieldBits<4, 16>, FieldBits<1, 4>>(THAW_FIELD(BlockQ5_0, qs, kBytes4),
                                                             THAW_FIELD(BlockQ5_0, qh, kHighBits))},
    {ElementType::kQ5_1,
     1,
     {THAW_FIELD(BlockQ5_1, d, kBytes2), THAW_FIELD(BlockQ5_1, m, kBytes2)},
     {},
     NumbersIn<BlockQ5_1, FieldBits<4, 16>, FieldBits<1, 4>>(THAW_FIELD(BlockQ5_1, qs, kBytes4),
                                                             THAW_FIELD(BlockQ5_1, qh, kHighBits))},
    {ElementType::kQ8_0,
     2,
     {THAW_FIELD(BlockQ8_0, d, kBytes2)},
     {THAW_FIELD(BlockQ8_0, qs, kBytes4)}},
    {ElementType::kIQ4_NL,
     2,
     {THAW_FIELD(BlockIQ4_NL, d, kBytes2)},
     {THAW_FIELD(BlockIQ4_NL, qs, kBytes4)}},
    {ElementType::kMXFP4,
     4,
     {THAW_FIELD(BlockMXFP4, e, kBytes1)},
     {THAW_FIELD(BlockMXFP4, qs, kBytes4)}},
    {ElementType::kNVFP4,
     1,
     {},
     {THAW_FIELD(BlockNVFP4, d, kBytes4), THAW_FIELD(BlockNVFP4, qs, kBytes4)}},
    {ElementType::kQ2_K,
     1,
     {THAW_FIELD(BlockQ2_K, d, kBytes2), THAW_FIELD(BlockQ2_K, dmin, kBytes2)},
     {THAW_FIELD(BlockQ2_K, scales, kBytes4)},
     NumbersIn<BlockQ2_K, FieldBits<2, 32>>(THAW_FIELD(BlockQ2_K, qs, kBytes4))},
    {ElementType::kQ3_K,
     2,
     {THAW_FIELD(BlockQ3_K, d, kBytes2)},
     {THAW_FIELD(BlockQ3_K, scales, kBytes4)},
     NumbersIn<BlockQ3_K, FieldBits<2, 32>, FieldBits<1, 32>>(
         THAW_FIELD(BlockQ3_K, qs, kBytes4), THAW_FIELD(BlockQ3_K, hmask, kBytes4))},
    {ElementType::kQ4_K,
     1,
     {THAW_FIELD(BlockQ4_K, d, kBytes2), THAW_FIELD(BlockQ4_K, dmin, kBytes2)},
     {THAW_FIELD(BlockQ4_K, scales, kBytes4), THAW_FIELD(BlockQ4_K, qs, kBytes4)}},
    {ElementType::kQ5_K,
     1,
     {THAW_FIELD(BlockQ5_K, d, kBytes2), THAW_FIELD(BlockQ5_K, dmin, kBytes2)},
     {THAW_FIELD(BlockQ5_K, scales, kBytes4)},
     NumbersIn<BlockQ5_K, FieldBits<4, 32>, FieldBits<1, 32>>(THAW_FIELD(BlockQ5_K, qs, kBytes4),
                                                              THAW_FIELD(BlockQ5_K, qh, kBytes4))},
    {ElementType::kQ6_K,
     2,
     {THAW_FIELD(BlockQ6_K, d, kBytes2)},
     {THAW_FIELD(BlockQ6_K, scales, kBytes4)},
     NumbersIn<BlockQ6_K, FieldBits<4, 64>, FieldBits<2, 32>>(THAW_FIELD(BlockQ6_K, ql, kBytes4),
                                                              THAW_FIELD(BlockQ6_K, qh, kBytes4))},
    {ElementType::kIQ4_XS,
     1,
     {THAW_FIELD(BlockIQ4_XS, d, kBytes2), THAW_FIELD(BlockIQ4_XS, scales_h, kBytes2)},
     {THAW_FIELD(BlockIQ4_XS, scales_l, kBytes4), THAW_FIELD(BlockIQ4_XS, qs, kBytes4)}},
    {ElementType::kTQ1_0,
     2,
     {THAW_FIELD(BlockTQ1_0, d, kBytes2)},
     {THAW_FIELD(BlockTQ1_0, qs, kBytes4), THAW_FIELD(BlockTQ1_0, qh, kBytes4)}},
    {ElementType::kTQ2_0,
     2,
     {THAW_FIELD(BlockTQ2_0, d, kBytes2)},
     {},
     NumbersIn<BlockTQ2_0, FieldBits<2, 32>>(THAW_FIELD(BlockTQ2_0, qs, kBytes4))},
    {ElementType::kIQ1_S,
     2,
     {THAW_FIELD(BlockIQ1_S, d, kBytes2)},
     {THAW_FIELD(BlockIQ1_S, qh, kBytes4), THAW_FIELD(BlockIQ1_S, qs, kBytes4)}},
    {ElementType::kIQ1_M,
     1,
     {},
     {THAW_FIELD(BlockIQ1_M, scales, kBytes4), THAW_FIELD(BlockIQ1_M, qh, kBytes4),
      THAW_FIELD(BlockIQ1_M, qs, kBytes4)}},
    {ElementType::kIQ2_XXS,
     2,
     {THAW_FIELD(BlockIQ2_XXS, d, kBytes2)},
     {THAW_FIELD(BlockIQ2_XXS, groups, kBytes4)}},
    {ElementType::kIQ2_XS,
     2,
     {THAW_FIELD(BlockIQ2_XS, d, kBytes2)},
     {THAW_FIELD(BlockIQ2_XS, scales, kBytes4), THAW_FIELD(BlockIQ2_XS, qs, kBytes4)}},
    {ElementType::kIQ2_S,
     2,
     {THAW_FIELD(BlockIQ2_S, d, kBytes2)},
     {THAW_FIELD(BlockIQ2_S, scales, kBytes4), THAW_FIELD(BlockIQ2_S, qh, kBytes4),
      THAW_FIELD(BlockIQ2_S, qs, kBytes4), THAW_FIELD(BlockIQ2_S, signs, kBytes4)}},
    {ElementType::kIQ3_XXS,
     2,
     {THAW_FIELD(BlockIQ3_XXS, d, kBytes2)},
     {THAW_FIELD(BlockIQ3_XXS, qs, kBytes4), THAW_FIELD(BlockIQ3_XXS, signs_and_scale, kBytes4)}},
    {ElementType::kIQ3_S,
     2,
     {THAW_FIELD(BlockIQ3_S, d, kBytes2)},
     {THAW_FIELD(BlockIQ3_S, scales, kBytes4), THAW_FIELD(BlockIQ3_S, qh, kBytes4),
      THAW_FIELD(BlockIQ3_S, qs, kBytes4), THAW_FIELD(BlockIQ3_S, signs, kBytes4)}},
    {ElementType::kThawedIQ2_XXS,
     2,
     {THAW_FIELD(BlockThawedIQ2_XXS, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ2_XXS, scales, kBytes4)},
     NumbersIn<BlockThawedIQ2_XXS, FieldBits<2, 4>, FieldBits<1, 4>>(
         THAW_FIELD(BlockThawedIQ2_XXS, qs, kBytes4),
         THAW_FIELD(BlockThawedIQ2_XXS, signs, kBytes4))},
    {ElementType::kThawedIQ2_S,
     2,
     {THAW_FIELD(BlockThawedIQ2_S, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ2_S, scales, kBytes4)},
     NumbersIn<BlockThawedIQ2_S, FieldBits<2, 4>, FieldBits<1, 4>>(
         THAW_FIELD(BlockThawedIQ2_S, qs, kBytes4), THAW_FIELD(BlockThawedIQ2_S, signs, kBytes4))},
    {ElementType::kThawedIQ3_XXS,
     2,
     {THAW_FIELD(BlockThawedIQ3_XXS, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ3_XXS, scales, kBytes4),
      THAW_FIELD(BlockThawedIQ3_XXS, qs, kBytes4)}},
    {ElementType::kThawedIQ3_S,
     2,
     {THAW_FIELD(BlockThawedIQ3_S, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ3_S, scales, kBytes4), THAW_FIELD(BlockThawedIQ3_S, qs, kBytes4)}},
    {ElementType::kThawedIQ1_S,
     2,
     {THAW_FIELD(BlockThawedIQ1_S, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ1_S, scales, kBytes4)},
     NumbersIn<BlockThawedIQ1_S, FieldBits<2, 4>>(THAW_FIELD(BlockThawedIQ1_S, qs, kBytes4))},
    {ElementType::kThawedIQ1_M,
     2,
     {THAW_FIELD(BlockThawedIQ1_M, d, kBytes2)},
     {THAW_FIELD(BlockThawedIQ1_M, scales, kBytes4), THAW_FIELD(BlockThawedIQ1_M, less, kBytes4)},
     NumbersIn<BlockThawedIQ1_M, FieldBits<2, 4>>(THAW_FIELD(BlockThawedIQ1_M, qs, kBytes4))},
});

#undef THAW_PART
#undef THAW_FIELD

const Format* FindFormat(ElementType type) {
  const auto* const found = std::ranges::find(kFormats, type, &Format::type);
  return found == kFormats.end() ? nullptr : found;
}

// Calls visit(field, byte of the row, byte of the group) for each field of each block, and
// visit_numbers(byte of the row's block, byte of the group) for its numbers.
template <typename Visit, typename VisitNumbers>
void ForEachField(const Format& format, int64_t k, Visit visit, VisitNumbers visit_numbers) {
  const ElementTypeInfo& info = Info(format.type);
  const int64_t blocks = k / info.block_elements;
  int64_t packed = 0;
  const auto visit_field = [&](const Field& field, int64_t block) {
    if (field.bytes == 0) return;
    visit(field, block * info.block_bytes + field.offset, packed);
    packed += field.PackedBytes();
  };
  for (int64_t unit = 0; unit < blocks; unit += format.unit_blocks) {
    const int64_t end = std::min(unit + format.unit_blocks, blocks);
    for (const Field& field : format.lead) {
      for (int64_t block = unit; block < end; ++block) visit_field(field, block);
    }
    for (int64_t block = unit; block < end; ++block) {
      for (const Field& field : format.body) visit_field(field, block);
      if (format.numbers.bytes() == 0) continue;
      visit_numbers(block * info.block_bytes, packed);
      packed += kRows * format.numbers.bytes();
    }
  }
}

// What SpreadBits makes of them, back.
uint32_t GatherHighBits(uint32_t spread) {
  uint32_t bits = 0;
  for (int i = 0; i < 32; ++i) bits |= (spread >> (8 * (i % 4) + i / 4) & 1) << i;
  return bits;
}

// Four words each of sixteen rows to four lines of sixteen words.
void InterleaveFourWords(const std::byte* rows, int64_t row_bytes, std::byte* packed) {
  for (int64_t row = 0; row < kRows; row += 4) {
    const Words a = LoadWords(rows + row * row_bytes);
    const Words b = LoadWords(rows + (row + 1) * row_bytes);
    const Words c = LoadWords(rows + (row + 2) * row_bytes);
    const Words d = LoadWords(rows + (row + 3) * row_bytes);
    const Words ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    const Words ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    const Words cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    const Words cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    std::byte* out = packed + 4 * row;
    StoreWords(__builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5), out);
    StoreWords(__builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7), out + kLineBytes);
    StoreWords(__builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5), out + 2 * kLineBytes);
    StoreWords(__builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7), out + 3 * kLineBytes);
  }
}

// `bytes` of each of sixteen rows, in elements of kBytes each.
template <int64_t kBytes>
void Interleave(const std::byte* rows, int64_t row_bytes, int64_t bytes, std::byte* packed) {
  int64_t at = 0;
  if constexpr (kBytes == 4) {
    for (; at + 16 <= bytes; at += 16) {
      InterleaveFourWords(rows + at, row_bytes, packed + kRows * at);
    }
  }
  for (; at < bytes; at += kBytes) {
    for (int64_t row = 0; row < kRows; ++row) {
      std::memcpy(packed + kRows * at + row * kBytes, rows + row * row_bytes + at, kBytes);
    }
  }
}

void InterleaveField(const Field& field, const std::byte* rows, int64_t row_bytes,
                     std::byte* packed) {
  switch (field.element) {
    case Element::kBytes1:
      return Interleave<1>(rows, row_bytes, field.bytes, packed);
    case Element::kBytes2:
      return Interleave<2>(rows, row_bytes, field.bytes, packed);
    case Element::kBytes4:
      return Interleave<4>(rows, row_bytes, field.bytes, packed);
    case Element::kHighBits:
      for (int64_t row = 0; row < kRows; ++row) {
        StoreWord(SpreadBits(LoadWord(rows + row * row_bytes)), packed + 4 * row);
      }
      return;
  }
}

// The numbers of a block have at most this many bytes.
constexpr int64_t kMostNumberBytes = sizeof(BlockQ6_K::ql) + sizeof(BlockQ6_K::qh);
static_assert(std::ranges::all_of(kFormats, [](const Format& format) {
  return format.numbers.bytes() <= kMostNumberBytes;
}));

// Those of a block of sixteen rows.
void PackNumbers(const Format& format, const std::byte* rows, int64_t row_bytes,
                 std::byte* packed) {
  const Numbers& numbers = format.numbers;
  std::byte fields[kRows * kMostNumberBytes];
  std::byte* high = fields + numbers.low.PackedBytes();
  InterleaveField(numbers.low, rows + numbers.low.offset, row_bytes, fields);
  if (numbers.high.bytes > 0) {
    InterleaveField(numbers.high, rows + numbers.high.offset, row_bytes, high);
  }
  numbers.pack(fields, high, packed);
}

void PackGroup(const Format* format, int64_t k, int64_t row_bytes, const std::byte* rows,
               std::byte* packed) {
  if (format == nullptr) return Interleave<4>(rows, row_bytes, row_bytes, packed);
  ForEachField(
      *format, k,
      [&](const Field& field, int64_t row_at, int64_t packed_at) {
        InterleaveField(field, rows + row_at, row_bytes, packed + packed_at);
      },
      [&](int64_t block_at, int64_t packed_at) {
        PackNumbers(*format, rows + block_at, row_bytes, packed + packed_at);
      });
}

void CopyField(const Field& field, const std::byte* packed, int64_t row, std::byte* out) {
  const int64_t bytes = BytesOf(field.element);
  for (int64_t at = 0; at < field.bytes; at += bytes) {
    std::memcpy(out + at, packed + kRows * at + row * bytes, static_cast<size_t>(bytes));
  }
}

// The numbers of a block of one row: the first of its words is at `lines`.
void CopyNumbers(const Format& format, const std::byte* lines, std::byte* block) {
  const Numbers& numbers = format.numbers;
  uint32_t low[kMostNumberBytes / 4] = {};
  uint32_t high[kMostNumberBytes / 4] = {};
  numbers.unpack(lines, low, high);
  if (numbers.high.element == Element::kHighBits) high[0] = GatherHighBits(high[0]);
  std::memcpy(block + numbers.low.offset, low, static_cast<size_t>(numbers.low.bytes));
  std::memcpy(block + numbers.high.offset, high, static_cast<size_t>(numbers.high.bytes));
}

}  // namespace

bool CanPackRows(ElementType type, int64_t k) {
  if (IsWeightFloat(type)) return RowBytes(type, k) % 4 == 0;
  return FindFormat(type) != nullptr;
}

int64_t PackScratchBytes(ElementType type, int64_t k) { return kRows * RowBytes(type, k); }

void PackRows(ElementType type, int64_t k, int64_t n_rows, const std::byte* rows, std::byte* packed,
              std::byte* scratch) {
  THAW_CHECK(CanPackRows(type, k));
  THAW_CHECK(packed <= rows || rows + n_rows * RowBytes(type, k) <= packed);
  const Format* format = FindFormat(type);
  const int64_t row_bytes = RowBytes(type, k);
  const int64_t group_bytes = kRows * row_bytes;
  int64_t row = 0;
  for (; row + kRows <= n_rows; row += kRows, rows += group_bytes, packed += group_bytes) {
    std::memcpy(scratch, rows, static_cast<size_t>(group_bytes));
    PackGroup(format, k, row_bytes, scratch, packed);
  }
  std::memmove(packed, rows, static_cast<size_t>((n_rows - row) * row_bytes));
}

void CopyPackedRow(ElementType type, int64_t k, int64_t n_rows, const std::byte* packed,
                   int64_t row, std::byte* out) {
  THAW_CHECK(CanPackRows(type, k));
  THAW_CHECK(0 <= row && row < n_rows);
  const int64_t row_bytes = RowBytes(type, k);
  if (row >= n_rows / kRows * kRows) {
    std::memcpy(out, packed + row * row_bytes, static_cast<size_t>(row_bytes));
    return;
  }
  packed += row / kRows * kRows * row_bytes;
  row %= kRows;
  const Format* format = FindFormat(type);
  if (format == nullptr) return CopyField({0, row_bytes, Element::kBytes4}, packed, row, out);
  ForEachField(
      *format, k,
      [&](const Field& field, int64_t row_at, int64_t packed_at) {
        CopyField(field, packed + packed_at, row, out + row_at);
      },
      [&](int64_t block_at, int64_t packed_at) {
        CopyNumbers(*format, packed + packed_at + 4 * row, out + block_at);
      });
}

}  // namespace thaw
