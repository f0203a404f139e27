// The element types of GGUF tensors, and those that rows of some of them get in memory.
//
// A row of a tensor is a run of blocks of one type: `block_elements` consecutive elements stored in
// `block_bytes` bytes. Plain numbers are blocks of one element. What the bits of a quantized block
// mean is written in tensor/blocks.h; what they decode to, in kernels/unpack.h.
//
// The table is constant and complete: every function here is pure, allocates nothing and may be
// called from any thread.
#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>

namespace thaw {

// Elements and blocks are little-endian in files and are used as they lie.
static_assert(std::endian::native == std::endian::little);

// The numbers are those that GGUF files carry. Gaps are types that were withdrawn from the format
// (4, 5, 31 to 33, 36 to 38) or that exist only inside a running program (Q8_1 = 9, Q8_K = 15).
inline constexpr uint32_t kFirstInMemory = 1 << 16;
enum class ElementType : uint32_t {
  kF32 = 0,
  kF16 = 1,
  kQ4_0 = 2,
  kQ4_1 = 3,
  kQ5_0 = 6,
  kQ5_1 = 7,
  kQ8_0 = 8,
  kQ2_K = 10,
  kQ3_K = 11,
  kQ4_K = 12,
  kQ5_K = 13,
  kQ6_K = 14,
  kIQ2_XXS = 16,
  kIQ2_XS = 17,
  kIQ3_XXS = 18,
  kIQ1_S = 19,
  kIQ4_NL = 20,
  kIQ3_S = 21,
  kIQ2_S = 22,
  kIQ4_XS = 23,
  kI8 = 24,
  kI16 = 25,
  kI32 = 26,
  kI64 = 27,
  kF64 = 28,
  kIQ1_M = 29,
  kBF16 = 30,
  kTQ1_0 = 34,
  kTQ2_0 = 35,
  kMXFP4 = 39,
  kNVFP4 = 40,

  // Rows in memory alone: those of a type of grids with its points looked up
  // (tensor/thawed_grids.h). No file has these numbers.
  kThawedIQ2_XXS = kFirstInMemory,
  kThawedIQ2_S,  // of IQ2_XS, too
  kThawedIQ3_XXS,
  kThawedIQ3_S,
  kThawedIQ1_S,
  kThawedIQ1_M,
};

struct ElementTypeInfo {
  ElementType type;
  const char* name;        // as GGUF tools print it, for example "Q4_K"
  int64_t block_elements;  // 1 unless quantized; a row holds a whole number of blocks
  int64_t block_bytes;
  bool is_quantized;
};

// The type that files give this number; nullptr when there is none.
const ElementTypeInfo* FindElementType(uint32_t gguf_id);
// nullptr when no type, of files or in memory, has this name. Names are matched exactly.
const ElementTypeInfo* FindElementType(std::string_view name);

// `type` must be one of the enumerators.
const ElementTypeInfo& Info(ElementType type);

// Whether files hold tensors of it.
constexpr bool IsInFiles(ElementType type) { return static_cast<uint32_t>(type) < kFirstInMemory; }

// F32, F16 or BF16: what weights are that are not quantized.
bool IsWeightFloat(ElementType type);

// Every type, in the order of their numbers.
std::span<const ElementTypeInfo> AllElementTypes();

// Bytes of `elements` consecutive elements: a non-negative multiple of the type's block_elements
// whose bytes fit int64_t.
int64_t RowBytes(ElementType type, int64_t elements);

}  // namespace thaw
