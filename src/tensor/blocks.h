// The quantized block formats of GGUF, byte for byte.
//
// Each struct is one block as it lies in a file, described by the value v[i] of its element i,
// where i runs from 0 to kElements - 1. Field names are those of ggml, which defined the formats
// (ggml-common.h for the layouts, ggml-quants.c and gguf-py's quants.py for the meaning). Blocks
// lie in files at any alignment: copy one out before looking at its fields. The decoder is in
// kernels/unpack*.cc.
//
// Notation: d, dmin, m are F16 scales. x[a:b] are bits a to b - 1 of x, bit 0 the lowest. Integer
// divisions round down. All multi-byte fields are little-endian, as the host must be.
#pragma once

#include <array>
#include <cstdint>

namespace thaw {

// First the blocks of 32 or 64 elements. In all of these but Q8_0 byte j holds the low 4 bits of
// two elements that lie half a block (in NVFP4 half a group) apart, the earlier in its low nibble.

// v[i] = d * (q - 8), q = i < 16 ? qs[i][0:4] : qs[i - 16][4:8]
struct BlockQ4_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_0) == 18);

// v[i] = d * q + m, q as in Q4_0
struct BlockQ4_1 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint16_t m;
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ4_1) == 20);

// v[i] = d * (q - 16), the low 4 bits of q as in Q4_0, q[4] = bit i of qh
struct BlockQ5_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qh[4];  // one 32-bit number
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_0) == 22);

// v[i] = d * q + m, q as in Q5_0
struct BlockQ5_1 {
  static constexpr int kElements = 32;
  uint16_t d;
  uint16_t m;
  uint8_t qh[4];  // one 32-bit number
  uint8_t qs[16];
};
static_assert(sizeof(BlockQ5_1) == 24);

// v[i] = d * qs[i]
struct BlockQ8_0 {
  static constexpr int kElements = 32;
  uint16_t d;
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_0) == 34);

// The 16 levels of IQ4_NL and IQ4_XS, denser around zero.
inline constexpr std::array<int8_t, 16> kIQ4Values = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                      1,    13,   25,  38,  53,  69,  89,  113};

// v[i] = d * kIQ4Values[q], q as in Q4_0
struct BlockIQ4_NL {
  static constexpr int kElements = 32;
  uint16_t d;
  uint8_t qs[16];
};
static_assert(sizeof(BlockIQ4_NL) == 18);

// v[i] = E8M0(e) / 2 * kDoubledE2M1Values[q], q as in Q4_0
// The MXFP4 of the OCP Microscaling Formats specification 1.0, with nibbles in this order.
struct BlockMXFP4 {
  static constexpr int kElements = 32;
  uint8_t e;
  uint8_t qs[16];
};
static_assert(sizeof(BlockMXFP4) == 17);

// Four groups g = i / 16 of 16 elements, r = i % 16, each with a scale of its own:
// v[i] = UE4M3(d[g]) / 2 * kDoubledE2M1Values[q],
// q = r < 8 ? qs[8 g + r][0:4] : qs[8 g + r - 8][4:8]
struct BlockNVFP4 {
  static constexpr int kElements = 64;
  uint8_t d[4];
  uint8_t qs[32];
};
static_assert(sizeof(BlockNVFP4) == 36);

// The K-quants, and IQ4_XS which is built like them: blocks of 256 elements in groups whose scales
// are small integers, multiplied by the block's own.

// Groups g = i / 16. 2-bit quants: byte 32 (i / 128) + i % 32 of qs holds the elements 0, 32, 64,
// 96 after its half's base, from the low bits up. v[i] = d * scales[g][0:4] * q - dmin *
// scales[g][4:8] q = (qs[32 (i / 128) + i % 32] >> 2 (i % 128 / 32))[0:2]
struct BlockQ2_K {
  static constexpr int kElements = 256;
  uint8_t scales[16];
  uint8_t qs[64];
  uint16_t d;
  uint16_t dmin;
};
static_assert(sizeof(BlockQ2_K) == 84);

// Groups g = i / 16. v[i] = d * (s - 32) * (q - 4)
// q[0:2] as in Q2_K, q[2] = bit i / 32 of hmask[i % 32]
// s[0:4] = nibble g / 8 of scales[g % 8], s[4:6] = (scales[8 + g % 4] >> 2 (g / 4))[0:2]
struct BlockQ3_K {
  static constexpr int kElements = 256;
  uint8_t hmask[32];
  uint8_t qs[64];
  uint8_t scales[12];
  uint16_t d;
};
static_assert(sizeof(BlockQ3_K) == 110);

// Groups g = i / 32. v[i] = d * s * q - dmin * m
// q = nibble i / 32 % 2 of qs[32 (i / 64) + i % 32]
// The 6-bit scales s and minima m of the groups are packed into 12 bytes:
//   g < 4:  s = scales[g][0:6], m = scales[g + 4][0:6]
//   g >= 4: s = scales[g + 4][0:4] + 16 scales[g - 4][6:8]
//           m = scales[g + 4][4:8] + 16 scales[g][6:8]
struct BlockQ4_K {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ4_K) == 144);

// As Q4_K, with q[4] = bit i / 32 of qh[i % 32].
struct BlockQ5_K {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t dmin;
  uint8_t scales[12];
  uint8_t qh[32];
  uint8_t qs[128];
};
static_assert(sizeof(BlockQ5_K) == 176);

// Groups g = i / 16, halves h = i / 128, r = i % 128. v[i] = d * scales[g] * (q - 32)
// q[0:4] = nibble r / 64 of ql[64 h + r % 64], q[4:6] = (qh[32 h + r % 32] >> 2 (r / 32))[0:2]
struct BlockQ6_K {
  static constexpr int kElements = 256;
  uint8_t ql[128];
  uint8_t qh[64];
  int8_t scales[16];
  uint16_t d;
};
static_assert(sizeof(BlockQ6_K) == 210);

// Groups g = i / 32. v[i] = d * (s - 32) * kIQ4Values[q]
// s[0:4] = nibble g % 2 of scales_l[g / 2], s[4:6] = (scales_h >> 2 g)[0:2]
// q = i % 32 < 16 ? qs[16 g + i % 32][0:4] : qs[16 g + i % 32 - 16][4:8]
struct BlockIQ4_XS {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t scales_h;
  uint8_t scales_l[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockIQ4_XS) == 136);

// The ternary types: blocks of 256 elements with values -d, 0, d.

// v[i] = d * (t - 1). A byte b holds up to five base-3 digits as the fraction b / 256 rounded up,
// so that multiplying by 3 brings out the next digit: digit n is 3 ((3^n b) mod 256) / 256. The
// digits t come in three runs:
//   i < 160:        digit i / 32 of qs[i % 32]
//   160 <= i < 240: digit (i - 160) / 16 of qs[32 + (i - 160) % 16]
//   240 <= i:       digit (i - 240) / 4 of qh[(i - 240) % 4]
struct BlockTQ1_0 {
  static constexpr int kElements = 256;
  uint8_t qs[48];
  uint8_t qh[4];
  uint16_t d;
};
static_assert(sizeof(BlockTQ1_0) == 54);

// v[i] = d * (q - 1), q as in Q2_K. Quantizers write 0 to 2; q = 3 stands for 2 d.
struct BlockTQ2_0 {
  static constexpr int kElements = 256;
  uint8_t qs[64];
  uint16_t d;
};
static_assert(sizeof(BlockTQ2_0) == 66);

// The codebook types: blocks of 256 elements, 8 or 4 at a time looked up in a grid of points (the
// grids are those of tensor/codebooks.h). Eight elements share a byte of signs, bit i % 8 set
// where v[i] is negative; where only 7 bits are stored, the 8th makes the number of set bits even.

// What elements of IQ2 and IQ3 are by the numbers of their levels, without signs; no grid of IQ2
// has a fourth.
inline constexpr std::array<int8_t, 4> kIQ2Magnitudes = {8, 25, 43, 0};
inline constexpr std::array<int8_t, 8> kIQ3_XXSMagnitudes = {4, 12, 20, 28, 36, 44, 52, 62};
inline constexpr std::array<int8_t, 8> kIQ3_SMagnitudes = {1, 3, 5, 7, 9, 11, 13, 15};

// Groups g = i / 32. v[i] = d * (0.5 + scale) / 4 * sign * kIQ2_XXSGrid[groups[g].grid[l]][i % 8],
// l = i % 32 / 8. The 32-bit number w = signs_and_scale holds four times 7 bits of signs,
// w[7 l : 7 l + 7], and scale = w[28:32].
struct BlockIQ2_XXS {
  static constexpr int kElements = 256;
  struct Group {
    uint8_t grid[4];
    uint8_t signs_and_scale[4];
  };
  uint16_t d;
  Group groups[8];
};
static_assert(sizeof(BlockIQ2_XXS) == 66);

// v[i] = d * (0.5 + s) / 4 * sign * kIQ2_XSGrid[qs[i / 8][0:9]][i % 8]
// 7 bits of signs = qs[i / 8][9:16], s = nibble i / 16 % 2 of scales[i / 32]
struct BlockIQ2_XS {
  static constexpr int kElements = 256;
  uint16_t d;
  uint16_t qs[32];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_XS) == 74);

// v[i] = d * (0.5 + s) / 4 * sign * kIQ2_SGrid[p][i % 8]
// p[0:8] = qs[i / 8], p[8:10] = (qh[i / 32] >> 2 (i % 32 / 8))[0:2], 8 bits of signs = signs[i /
// 8], s = nibble i / 16 % 2 of scales[i / 32]
struct BlockIQ2_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t qs[32];
  uint8_t signs[32];
  uint8_t qh[8];
  uint8_t scales[8];
};
static_assert(sizeof(BlockIQ2_S) == 82);

// Groups g = i / 32. v[i] = d * (0.5 + scale) / 2 * sign * kIQ3_XXSGrid[qs[i / 4]][i % 4]
// signs and scale are in signs_and_scale[g] as in IQ2_XXS.
struct BlockIQ3_XXS {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t signs_and_scale[8][4];
};
static_assert(sizeof(BlockIQ3_XXS) == 98);

// Groups g = i / 32. v[i] = d * (1 + 2 s) * sign * kIQ3_SGrid[p][i % 4]
// p[0:8] = qs[i / 4], p[8] = bit i % 32 / 4 of qh[g], 8 bits of signs = signs[i / 8],
// s = nibble g % 2 of scales[g / 2]
struct BlockIQ3_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t qs[64];
  uint8_t qh[8];
  uint8_t signs[32];
  uint8_t scales[4];
};
static_assert(sizeof(BlockIQ3_S) == 110);

// Groups g = i / 32, l = i % 32 / 8. v[i] = d * (1 + 2 qh[g][12:15]) * (kIQ1Grid[p][i % 8] + delta)
// p[0:8] = qs[i / 8], p[8:11] = qh[g][3 l : 3 l + 3], delta = qh[g][15] ? -1/8 : 1/8
struct BlockIQ1_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t qs[32];
  uint16_t qh[8];
};
static_assert(sizeof(BlockIQ1_S) == 50);

// v[i] = d * (1 + 2 s) * (kIQ1Grid[p][i % 8] + delta)
// n = nibble i / 8 % 2 of qh[i / 16]; p[0:8] = qs[i / 8], p[8:11] = n[0:3], delta = n[3] ? -1/8 :
// 1/8 s = (scales[i / 64] >> 3 (i % 64 / 16))[0:3] d has no field: its four nibbles, low to high,
// are scales[0][12:16] to scales[3][12:16].
struct BlockIQ1_M {
  static constexpr int kElements = 256;
  uint8_t qs[32];
  uint8_t qh[16];
  uint16_t scales[4];
};
static_assert(sizeof(BlockIQ1_M) == 56);

// The codebook types with their points looked up, in memory alone (tensor/thawed_grids.h): what is
// left to look up is a number of two to four bits for each element. Their values are, operation by
// operation, those of the types that they are made of. Groups g = i / 32 and s = i / 16.
//
// The numbers of two bits and the single bits lie by words of 16 and of 32 elements:
//   two(qs, i) = (qs[4 (i / 16) + i % 4] >> 2 (i % 16 / 4))[0:2]
//   one(signs, i) = bit i % 32 / 4 of signs[4 g + i % 4]

// v[i] = d * (0.5 + nibble g % 2 of scales[g / 2]) / 4 * (one(signs, i) ? -1 : 1) * magnitude
// magnitude = kIQ2Magnitudes[two(qs, i)]
struct BlockThawedIQ2_XXS {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[4];
  uint8_t qs[64];
  uint8_t signs[32];
};
static_assert(sizeof(BlockThawedIQ2_XXS) == 102);

// IQ2_XS and IQ2_S: the same with nibble s % 2 of scales[s / 2].
struct BlockThawedIQ2_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[8];
  uint8_t qs[64];
  uint8_t signs[32];
};
static_assert(sizeof(BlockThawedIQ2_S) == 106);

// v[i] = d * (0.5 + nibble g % 2 of scales[g / 2]) / 2 * (q[3] ? -1 : 1) * magnitude
// magnitude = kIQ3_XXSMagnitudes[q[0:3]], q as in IQ4_XS
struct BlockThawedIQ3_XXS {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockThawedIQ3_XXS) == 134);

// The same with d * (1 + 2 nibble) and kIQ3_SMagnitudes.
struct BlockThawedIQ3_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[4];
  uint8_t qs[128];
};
static_assert(sizeof(BlockThawedIQ3_S) == 134);

// Eight times an element of IQ1 by its number and whether its delta is negative; no 3 is made.
constexpr int8_t EightOfIQ1(int number, bool is_less) {
  return static_cast<int8_t>((number == 3 ? 0 : 8 * (number - 1)) + (is_less ? -1 : 1));
}

// v[i] = d * (1 + 2 n[0:3]) / 8 * EightOfIQ1(two(qs, i), n[3]), n = nibble g % 2 of scales[g / 2]
struct BlockThawedIQ1_S {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[4];
  uint8_t qs[64];
};
static_assert(sizeof(BlockThawedIQ1_S) == 70);

// v[i] = d * (1 + 2 n[0:3]) / 8 * EightOfIQ1(two(qs, i), bit i % 32 / 8 of l),
// n = nibble s % 2 of scales[s / 2], l = nibble g % 2 of less[g / 2]
struct BlockThawedIQ1_M {
  static constexpr int kElements = 256;
  uint16_t d;
  uint8_t scales[8];
  uint8_t less[4];
  uint8_t qs[64];
};
static_assert(sizeof(BlockThawedIQ1_M) == 78);

}  // namespace thaw
