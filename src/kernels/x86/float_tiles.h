// Products of packed rows of BF16 and F16 with activations as numbers of bfloat16, by tiles
// (Tiles: tiles_amx.h), and of F16 with few tokens by the vectors V of an instruction set, to the
// same bits.
//
// A product of tiles adds 32 elements to a sum: those of even and those of odd index one after the
// other, each multiplied and added with one rounding, then what both come to together, with
// denormal numbers as zeros. Vectors do that with a lane for each of the two.
//
// BF16 is multiplied with activations rounded to bfloat16. A number of F16 is the sum of two of
// bfloat16, and an activation nearly so (kernels/activations.h: kSplit); of the four products of
// their parts the lowest is left out.
//
// Many tokens are taken in blocks, whose activations stay in the second cache and whose sums lie in
// scratch, not in `out`: its rows often lie a multiple of 4 KiB apart and would push each other out
// of the caches. Tiles are zeroed as soon as they are read (tile_units.h).
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/lines_in_turn.h"
#include "kernels/packed_formats.h"
#include "kernels/panel_matmul.h"
#include "kernels/panel_products.h"
#include "kernels/x86/denormals.h"
#include "kernels/x86/tile_configuration.h"
#include "kernels/x86/tile_units.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// How far ahead rows of several groups are asked for, each a stream of memory.
inline constexpr int64_t kFloatAheadBytes = 2 << 10;

// Elements of a product of tiles, and the lines of packed rows that they are.
inline constexpr int64_t kTileElements = kTileRowBytes / 2;
inline constexpr int64_t kTileLines = kTileElements / 2;
static_assert(kLineBytes == kTileRowBytes && kTileLines == kTileRows);

// Of numbers that are split in two; those that are not have the upper one alone.
enum FloatPart { kUpperPart, kLowerPart };

// Of 32 elements, one after the other: the upper parts of weights times the lower parts of
// activations, upper times upper, lower times upper.
inline constexpr int kProductsOfParts = 3;

// -- A few tokens with F16, by vectors.

// Fewer than this. They take as long for each token, tiles of up to 16 take the same time.
inline constexpr int kFewestSplitTileTokens = 4;

// kGroups groups times kTokens tokens; `upper` and `lower` are the parts of the first.
template <typename V, int kGroups, int kTokens>
[[gnu::noinline]] void MultiplySplitGroups(const std::byte* line, int64_t k, const uint16_t* upper,
                                           const uint16_t* lower, float* out, int64_t out_stride) {
  using Floats = typename V::Floats;
  constexpr int kLoadsOfGroup = 2 * kGroupRows / V::kLanes;
  constexpr int kLoads = kGroups * kLoadsOfGroup;  // of a line of every group
  constexpr int kVectors = kLoads / 2;             // of sums
  const int64_t group_bytes = kGroupRows * k * int64_t{sizeof(uint16_t)};
  const int64_t stride = RoundedStride(k);
  const bool asks_ahead = V::AsksAhead();
  Floats totals[kTokens][kVectors];
  for (auto& of_token : totals) {
    for (Floats& total : of_token) total = V::Zero();
  }
  for (int64_t at = 0; at < k; at += kTileElements) {
    Floats sums[kTokens][kLoads][kProductsOfParts];
    for (auto& of_token : sums) {
      for (auto& of_load : of_token) {
        for (Floats& sum : of_load) sum = V::Zero();
      }
    }
    for (int64_t i = at; i < at + kTileElements; i += 2, line += kLineBytes) {
      if (asks_ahead) {
        for (int g = 0; g < kGroups; ++g) {
          __builtin_prefetch(line + g * group_bytes + kFloatAheadBytes, 0, kIntoL1);
        }
      }
      FloatParts<V> w[kLoads];
      for (int v = 0; v < kLoads; ++v) {
        w[v] = SplitFloats<V>(V::LoadHalves(line + v / kLoadsOfGroup * group_bytes +
                                            v % kLoadsOfGroup * 2 * V::kLanes));
      }
#pragma GCC unroll 4
      for (int t = 0; t < kTokens; ++t) {
        const Floats x_upper = V::RoundedPair(upper + t * stride + i);
        const Floats x_lower = V::RoundedPair(lower + t * stride + i);
#pragma GCC unroll 8
        for (int v = 0; v < kLoads; ++v) {
          auto& of_load = sums[t][v];
          of_load[0] = V::MultiplyAdd(w[v].upper, x_lower, of_load[0]);
          of_load[1] = V::MultiplyAdd(w[v].upper, x_upper, of_load[1]);
          of_load[2] = V::MultiplyAdd(w[v].lower, x_upper, of_load[2]);
        }
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      for (int v = 0; v < kVectors; ++v) {
        for (int i = 0; i < kProductsOfParts; ++i) {
          totals[t][v] =
              V::Add(totals[t][v], V::AddNeighbours(sums[t][2 * v][i], sums[t][2 * v + 1][i]));
        }
      }
    }
  }
  for (int t = 0; t < kTokens; ++t) {
    for (int v = 0; v < kVectors; ++v) {
      V::StoreFloats(totals[t][v], out + t * out_stride + v * V::kLanes);
    }
  }
}

// In the order of memory; a single token with two groups at once, which share what is made of it.
template <typename V>
void MultiplySplitByVectors(const std::byte* groups, int64_t n_groups, const Activations& a,
                            float* out, int64_t out_stride) {
  const int64_t group_bytes = kGroupRows * a.k * int64_t{sizeof(uint16_t)};
  const DenormalsAsZeros denormals;
  int64_t group = 0;
  const auto multiply = [&]<int kGroups, int kTokens>() {
    for (; group + kGroups <= n_groups; group += kGroups) {
      MultiplySplitGroups<V, kGroups, kTokens>(groups + group * group_bytes, a.k, a.rounded,
                                               a.residues, out + group * kGroupRows, out_stride);
    }
  };
  static_assert(kFewestSplitTileTokens == 4);
  switch (a.n_tokens) {
    case 1:
      multiply.template operator()<2, 1>();
      return multiply.template operator()<1, 1>();
    case 2:
      return multiply.template operator()<1, 2>();
    default:
      return multiply.template operator()<1, 3>();
  }
}

// -- By tiles.

// Elements of rows that tokens go over before the next ones. Those of two groups and what they are
// split to, or those of more rows that need not be split, take 32 KiB.
template <bool kIsSplit>
inline constexpr int64_t kFloatSegment = kIsSplit ? 256 : 512;

// Of a block: 128 KiB of sums, and at most 256 KiB of activations.
inline constexpr int64_t kFloatBlockTiles = 16;
inline constexpr int64_t kFloatBlockGroups = 8;

// A single tile of tokens is multiplied with so many groups, two with two.
inline constexpr int kMostFloatGroups = 4;

// Four tiles of sums, two of tokens, two of rows.
inline constexpr int kTokenTile = 4;
inline constexpr int kRowTile = 6;

struct FloatScratch {
  std::byte parts[2 * kPanelGroups * kFloatSegment<true> / 2 * kLineBytes];
  // [group, tile of tokens, token, row]
  float sums[kFloatBlockGroups][kFloatBlockTiles][kTileTokens * kGroupRows];
};
static_assert(int64_t{sizeof(FloatScratch)} <= kPackedScratchBytes);

// Some elements of one or two tiles of tokens and of groups of rows.
struct FloatOperands {
  const uint16_t* tokens[2];  // of FloatPart, of the first tile
  int64_t next_tile;          // numbers from one tile to the next
  int64_t token_stride;       // from one token to the next
  const std::byte* rows[2];   // of FloatPart, of the first group
  int64_t next_group;         // bytes from one group to the next
  int64_t elements;
};

// Products of one or two tiles of tokens with kGroups groups.
template <typename Tiles, bool kIsSplit, int kTokenTiles, int kGroups>
struct FloatTiles {
  static_assert(kTokenTiles * kGroups <= 4 && (kTokenTiles == 1 || kGroups <= 2));
  static constexpr int64_t kSumsOfGroup = sizeof(FloatScratch::sums[0]) / sizeof(float);

  const FloatOperands& by;
  float* sums;  // of the first group and tile

  template <int g, int t>
  static constexpr int kSum = g * kTokenTiles + t;

  template <int g, int t>
  [[gnu::always_inline]] float* Sums() const {
    return sums + g * kSumsOfGroup + t * kTileTokens * kGroupRows;
  }

  template <typename Act>
  [[gnu::always_inline]] static void ForEachSum(const Act& act) {
    Repeat<kGroups>([&]<int g>() __attribute__((always_inline)) {
      Repeat<kTokenTiles>([&]<int t>()
                              __attribute__((always_inline)) { act.template operator()<g, t>(); });
    });
  }

  template <int tile>
  [[gnu::always_inline]] void LoadTokens(FloatPart part, int64_t at, int t) const {
    Tiles::template Load<tile>(by.tokens[part] + t * by.next_tile + at,
                               by.token_stride * int64_t{sizeof(uint16_t)});
  }
  template <int tile>
  [[gnu::always_inline]] void LoadRows(FloatPart part, int64_t at, int g) const {
    Tiles::template Load<tile>(by.rows[part] + g * by.next_group + at / 2 * kLineBytes, kLineBytes);
  }

  // A product of a group with one of two tiles of tokens.
  struct Step {
    FloatPart of_rows;
    FloatPart of_tokens;
    int g;
    int t;
  };
  static constexpr int kPasses = kIsSplit ? kProductsOfParts : 1;
  static constexpr int kStepsOfPass = 2 * kGroups;
  static constexpr int kSteps = kPasses * kStepsOfPass;

  // Every step shares its rows or its tokens with the one before.
  static constexpr Step StepAt(int i) {
    const int pass = i / kStepsOfPass;
    const int group = i % kStepsOfPass / 2;
    return {.of_rows = pass == 2 ? kLowerPart : kUpperPart,
            .of_tokens = pass == 0 && kIsSplit ? kLowerPart : kUpperPart,
            .g = pass % 2 == 0 ? group : kGroups - 1 - group,
            .t = group % 2 == 0 ? i % 2 : 1 - i % 2};
  }
  static constexpr bool SameRows(int i, int j) {
    if (i < 0 || j >= kSteps) return false;
    return StepAt(i).of_rows == StepAt(j).of_rows && StepAt(i).g == StepAt(j).g;
  }
  // Whether what the tile of tokens of step i holds is that of the step before that uses the tile,
  // or after it.
  static constexpr bool SameTokens(int i, int direction) {
    for (int j = i + direction; j >= 0 && j < kSteps; j += direction) {
      if (StepAt(j).t == StepAt(i).t) return StepAt(j).of_tokens == StepAt(i).of_tokens;
    }
    return false;
  }

  // 32 elements of two tiles. Tiles of rows and tokens are loaded for the first step that needs
  // them and zeroed after the last one: few hold numbers at a time (tile_units.h).
  [[gnu::always_inline]] void MultiplyTwo(int64_t at) const {
    Repeat<kSteps>([&]<int i>() __attribute__((always_inline)) {
      constexpr Step kNow = StepAt(i);
      constexpr int kTokens = kTokenTile + kNow.t;
      if constexpr (!SameRows(i - 1, i)) LoadRows<kRowTile>(kNow.of_rows, at, kNow.g);
      if constexpr (!SameTokens(i, -1)) LoadTokens<kTokens>(kNow.of_tokens, at, kNow.t);
      Tiles::template AddFloatProducts<kSum<kNow.g, kNow.t>, kTokens, kRowTile>();
      if constexpr (!SameRows(i, i + 1)) Tiles::template Zero<kRowTile>();
      if constexpr (!SameTokens(i, 1)) Tiles::template Zero<kTokens>();
    });
  }

  // 32 elements of one tile.
  [[gnu::always_inline]] void MultiplyOne(int64_t at) const {
    constexpr int kUpper = kTokenTile;
    constexpr int kLower = kTokenTile + 1;
    const auto multiply = [&]<int g, int tile>() __attribute__((always_inline)) {
      Tiles::template AddFloatProducts<kSum<g, 0>, tile, kRowTile + g % 2>();
    };
    LoadTokens<kUpper>(kUpperPart, at, 0);
    if constexpr (kIsSplit) LoadTokens<kLower>(kLowerPart, at, 0);
    Repeat<kGroups>([&]<int g>() __attribute__((always_inline)) {
      LoadRows<kRowTile + g % 2>(kUpperPart, at, g);
      if constexpr (kIsSplit) multiply.template operator()<g, kLower>();
      multiply.template operator()<g, kUpper>();
      Tiles::template Zero<kRowTile + g % 2>();
    });
    if constexpr (kIsSplit) {
      Tiles::template Zero<kLower>();
      Repeat<kGroups>([&]<int g>() __attribute__((always_inline)) {
        LoadRows<kRowTile + g % 2>(kLowerPart, at, g);
        multiply.template operator()<g, kUpper>();
        Tiles::template Zero<kRowTile + g % 2>();
      });
    }
    Tiles::template Zero<kUpper>();
  }

  // Adds products to the sums. kAheadBytes: asks for rows so far ahead; 0: for none.
  template <int64_t kAheadBytes>
  [[gnu::noinline]] void Multiply(bool is_first) const {
    if (!is_first) {
      ForEachSum([&]<int g, int t>() __attribute__((always_inline)) {
        Tiles::template Load<kSum<g, t>>(Sums<g, t>(), kTileRowBytes);
      });
    }
    for (int64_t at = 0; at < by.elements; at += kTileElements) {
      if constexpr (kTokenTiles == 2) {
        MultiplyTwo(at);
      } else {
        MultiplyOne(at);
      }
      if constexpr (kAheadBytes > 0) {
        const std::byte* ahead = by.rows[kUpperPart] + at / 2 * kLineBytes + kAheadBytes;
        for (int g = 0; g < kGroups; ++g, ahead += by.next_group) {
          for (int64_t line = 0; line < kTileLines; ++line) {
            __builtin_prefetch(ahead + line * kLineBytes, 0, kIntoL1);
          }
        }
      }
    }
    ForEachSum([&]<int g, int t>() __attribute__((always_inline)) {
      Tiles::template Store<kSum<g, t>>(Sums<g, t>(), kTileRowBytes);
      Tiles::template Zero<kSum<g, t>>();
    });
  }
};

// Lines of halves as lines of their upper and of their lower parts.
template <typename V>
[[gnu::noinline]] void SplitLines(const std::byte* lines, int64_t n, std::byte* upper,
                                  std::byte* lower) {
  using Ints = typename V::Ints;
  constexpr int64_t kVectorBytes = 4 * V::kLanes;
  const bool asks_ahead = V::AsksAhead();
  for (int64_t at = 0; at < n * kLineBytes; at += kVectorBytes) {
    if (asks_ahead) __builtin_prefetch(lines + at + V::kAheadBytes, 0, kIntoL2);
    const auto first = V::LoadHalves(lines + at);
    const auto second = V::LoadHalves(lines + at + kVectorBytes / 2);
    const auto rest = [](typename V::Floats numbers) -> Ints {
      return V::AsInts(SplitFloats<V>(numbers).lower);
    };
    V::Store(V::UpperHalves(V::AsInts(first), V::AsInts(second)), upper + at);
    V::Store(V::UpperHalves(rest(first), rest(second)), lower + at);
  }
}

// A matrix times some tokens: tokens and groups in blocks, of those a segment of the rows after the
// other, of that some groups with all tokens.
template <typename V, typename Tiles, bool kIsSplit>
class FloatTileProduct {
 public:
  FloatTileProduct(const std::byte* groups, int64_t n_groups, const Activations& a, float* out,
                   int64_t out_stride, std::byte* memory)
      : groups_(groups),
        n_groups_(n_groups),
        a_(a),
        out_(out),
        out_stride_(out_stride),
        scratch_(*reinterpret_cast<FloatScratch*>(memory)),
        tiles_(a.n_tokens),
        is_in_order_(a.n_tokens <= 2 * kTileTokens),
        groups_at_once_(a.n_tokens <= kTileTokens ? kMostFloatGroups : kPanelGroups) {}

  void Multiply() {
    Tiles::Configure(tiles_.Configuration(kRowTile));
    const int64_t of_block = is_in_order_ ? groups_at_once_ : kFloatBlockGroups;
    for (int64_t tile = 0; tile < tiles_.count(); tile += kFloatBlockTiles) {
      const int64_t end = Least(tiles_.count(), tile + kFloatBlockTiles);
      for (int64_t group = 0; group < n_groups_; group += of_block) {
        MultiplyBlock(tile, end, group, Least(n_groups_, group + of_block));
      }
    }
    Tiles::Release();
  }

 private:
  static int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

  int64_t GroupBytes() const { return kGroupRows * a_.k * int64_t{sizeof(uint16_t)}; }

  // The parts of what is split take kPanelGroups segments.
  int64_t Segment() const {
    if (is_in_order_ && !kIsSplit) return a_.k;
    return kFloatSegment<kIsSplit> * (kIsSplit ? kPanelGroups : groups_at_once_) / groups_at_once_;
  }

  void MultiplyBlock(int64_t tile, int64_t tile_end, int64_t group, int64_t group_end) {
    const int64_t segment = Segment();
    for (int64_t begin = 0; begin < a_.k; begin += segment) {
      const int64_t end = Least(a_.k, begin + segment);
      for (int64_t g = group; g < group_end; g += groups_at_once_) {
        const int64_t n = Least(groups_at_once_, group_end - g);
        Repeat<kMostFloatGroups>([&]<int i>() {
          if (i + 1 == n) MultiplySegment<i + 1>(tile, tile_end, g, begin, end, g - group);
        });
      }
    }
    StoreSums(tile, tile_end, group, group_end);
  }

  // Elements [begin, end) of kGroups groups with some tokens.
  template <int kGroups>
  void MultiplySegment(int64_t first_tile, int64_t tile_end, int64_t group, int64_t begin,
                       int64_t end, int64_t group_of_block) {
    FloatOperands by = {};
    by.token_stride = RoundedStride(a_.k);
    by.elements = end - begin;
    by.next_group = GroupBytes();
    const std::byte* rows = groups_ + group * GroupBytes() + begin / 2 * kLineBytes;
    by.rows[kUpperPart] = rows;
    if constexpr (kIsSplit) {
      by.next_group = (end - begin) / 2 * kLineBytes;
      std::byte* upper = scratch_.parts;
      std::byte* lower = upper + kGroups * by.next_group;
      for (int g = 0; g < kGroups; ++g) {
        SplitLines<V>(rows + g * GroupBytes(), (end - begin) / 2, upper + g * by.next_group,
                      lower + g * by.next_group);
      }
      by.rows[kUpperPart] = upper;
      by.rows[kLowerPart] = lower;
    }
    for (int64_t tile = first_tile; tile < tile_end; tile += 2) {
      const int64_t at = tiles_.First(tile) * by.token_stride + begin;
      by.tokens[kUpperPart] = a_.rounded + at;
      if constexpr (kIsSplit) by.tokens[kLowerPart] = a_.residues + at;
      float* sums = scratch_.sums[group_of_block][tile - first_tile];
      if (tile + 1 == tile_end) {
        MultiplyTiles<1, kGroups>(by, begin == 0, sums);
      } else if constexpr (kGroups <= kPanelGroups) {
        by.next_tile = (tiles_.First(tile + 1) - tiles_.First(tile)) * by.token_stride;
        MultiplyTiles<2, kGroups>(by, begin == 0, sums);
      }
    }
  }

  template <int kTokenTiles, int kGroups>
  void MultiplyTiles(const FloatOperands& by, bool is_first, float* sums) const {
    const FloatTiles<Tiles, kIsSplit, kTokenTiles, kGroups> product{by, sums};
    if (!kIsSplit && is_in_order_ && V::AsksAhead()) {
      product.template Multiply<kFloatAheadBytes>(is_first);
    } else {
      product.template Multiply<0>(is_first);
    }
  }

  [[gnu::noinline]] void StoreSums(int64_t first_tile, int64_t tile_end, int64_t group,
                                   int64_t group_end) {
    for (int64_t tile = first_tile; tile < tile_end; ++tile) {
      for (int64_t t = 0; t < tiles_.of_tile(); ++t) {
        float* to = out_ + (tiles_.First(tile) + t) * out_stride_ + group * kGroupRows;
        for (int64_t g = 0; g < group_end - group; ++g, to += kGroupRows) {
          const float* sums = scratch_.sums[g][tile - first_tile] + t * kGroupRows;
          for (int64_t row = 0; row < kGroupRows; row += V::kLanes) {
            V::StoreFloats(V::LoadFloats(sums + row), to + row);
          }
        }
      }
    }
  }

  const std::byte* groups_;
  int64_t n_groups_;
  const Activations& a_;
  float* out_;
  int64_t out_stride_;
  FloatScratch& scratch_;
  TokenTiles tiles_;
  bool is_in_order_;        // whole rows, with the sums in their tiles unless rows are split
  int64_t groups_at_once_;  // that are multiplied with a tile of tokens or two
};

// Whether MultiplyFloatsInTileOrder multiplies these activations with weights of this type.
inline bool IsMultipliedInTileOrder(ElementType type, const Activations& a) {
  if (type == ElementType::kBF16) return a.rounded != nullptr;
  return type == ElementType::kF16 && a.residues != nullptr;
}

// Whole groups of packed rows. IsMultipliedInTileOrder must hold.
template <typename V, typename Tiles>
void MultiplyFloatsInTileOrder(ElementType type, const std::byte* groups, int64_t n_groups,
                               const Activations& a, float* out, int64_t out_stride,
                               std::byte* scratch) {
  if (a.n_tokens == 0) return;  // a tile has at least one
  const auto by_tiles = [&]<bool is_split>() {
    FloatTileProduct<V, Tiles, is_split>(groups, n_groups, a, out, out_stride, scratch).Multiply();
  };
  if (type == ElementType::kBF16) {
    by_tiles.template operator()<false>();
  } else if (a.n_tokens < kFewestSplitTileTokens) {
    MultiplySplitByVectors<V>(groups, n_groups, a, out, out_stride);
  } else {
    by_tiles.template operator()<true>();
  }
}

}  // namespace
}  // namespace thaw
