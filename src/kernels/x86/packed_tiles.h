// Products of packed rows with many tokens by matrix instructions, whose sums over a few elements
// are exact, so that all else is that of every other way and the results are those of
// kernels/packed_products.h over V, bit for bit. How tiles are multiplied: tile_units.h.
//
// Rows are unpacked to a panel of signed bytes, two groups and a segment at a time. Then a product
// is one of the 32 elements that share a scale of the weights, and the sums of two are scaled and
// added up. What costs is to take sums out of the tiles and to scale them, so of
// formats whose sums are whole numbers over a block of 256 (kernels/packed_sums.h), weights are
// multiplied with the scales of their groups when they are unpacked, to numbers of up to 14 bits in
// two planes of signed bytes, and the sums of both planes stay in their tiles for the whole block.
// What minima times sums of activations come to is one more product of tiles, of bfloat16.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/activations.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"
#include "kernels/panel_matmul.h"
#include "kernels/panel_products.h"
#include "kernels/x86/tile_configuration.h"
#include "kernels/x86/tile_units.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// Fewer tokens are multiplied by the dot products of AVX-512, which take less time then, or about
// as long (0009).
template <typename F>
constexpr int64_t FewestTileTokens() {
  if constexpr (HasWholeTerms<F>) return F::kHasOffsets ? 24 : 16;
  return F::kHasOffsets ? 16 : 12;
}

// For products of `depth` elements, of activations [token, depth] and of weights
// [depth / 4, row, 4].
inline TileConfiguration TilesOfDepth(const TokenTiles& tiles, int64_t depth) {
  auto configuration = tiles.Configuration(kWeightTile, depth / 4);
  configuration.row_bytes[kActivationTile] = static_cast<uint16_t>(depth);
  return configuration;
}

// The activations of a unit's first token from its first element on, and what lies between tokens.
struct UnitRows {
  const int8_t* quants;
  const float* scales;
  const float* sums;
  int64_t quant_stride;
  int64_t scale_stride;
  int64_t sum_stride;
  float* totals;  // what the unit is added to
};

// A segment of groups of rows, and a chunk of tokens.
template <int kGroup>
struct UnitsPlace {
  TileScratch& scratch;
  TokenChunk chunk;
  UnitRows first;  // of token 0 and the first element of the segment

  UnitsPlace(const Activations& a, int64_t begin, const TokenChunk& tokens, TileScratch& memory)
      : scratch(memory),
        chunk(tokens),
        first{a.quants + begin,
              a.scales + begin / kActivationBlock,
              (kGroup == 32 ? a.step_sums : a.sums) + begin / kGroup,
              QuantStride(a.k),
              ActivationBlocks(a.k),
              a.k / kGroup,
              memory.sums} {}

  int64_t tokens() const { return chunk.of_tile(); }

  // Of a unit whose block is kElements long.
  template <int64_t kElements>
  [[gnu::always_inline]] UnitRows RowsOf(const Unit& unit) const {
    const int64_t token = chunk.First(unit.tile);
    return {first.quants + token * first.quant_stride + unit.block * kElements,
            first.scales + token * first.scale_stride + unit.block * (kElements / kActivationBlock),
            first.sums + token * first.sum_stride + unit.block * (kElements / kGroup),
            first.quant_stride,
            first.scale_stride,
            first.sum_stride,
            unit.Sums(first.totals)};
  }
};

// Where the sums of token t and of vector v of a unit's rows lie, from those of the unit: as its
// totals do and as a sum of all its groups does.
template <typename V>
constexpr int64_t PlaceOfSum(int64_t t, int64_t v) {
  const int64_t row = v * V::kLanes;
  return (row / kGroupRows * kTileTokens + t) * kGroupRows + row % kGroupRows;
}

// sum + factors[byte] times byte `byte` of every word, a signed one. `factors` hold 0 but at
// [byte][byte].
template <typename V>
[[gnu::always_inline]] inline typename V::Ints AddSignedByte(typename V::Ints sum,
                                                             typename V::Ints words, int byte,
                                                             const int8_t (&factors)[4][4]) {
  if constexpr (V::kWidthsAlike) {
    return V::AddFour(sum, V::BroadcastFour(factors[byte]), words);
  } else {
    const auto number = SignedByteOf<V>(words, byte);
    return V::Add(sum, V::ShiftLeft(number, Log2(factors[byte][byte])));
  }
}

// Loads a tile of activations and multiplies it with n tiles of weights: multiply<i>() with those
// of the lines at lines_of(i). Calls before<i>() ahead of every product, and between<point>(), from
// first_point on, ahead of it and after it.
template <typename Tiles, int n, int first_point, typename LinesOf, typename Before,
          typename Multiply, typename Between>
[[gnu::always_inline]] inline void MultiplyActivations(const void* activations, int64_t stride,
                                                       const LinesOf& lines_of,
                                                       const Before& before,
                                                       const Multiply& multiply,
                                                       const Between& between) {
  Tiles::template Load<kActivationTile>(activations, stride);
  Repeat<n>([&]<int i>() __attribute__((always_inline)) {
    Tiles::template Load<kWeightTile>(lines_of(i), kPanelLineBytes);
    before.template operator()<i>();
    between.template operator()<first_point + 2 * i>();
    multiply.template operator()<i>();
    Tiles::template Zero<kWeightTile>();
    if constexpr (i == n - 1) Tiles::template Zero<kActivationTile>();
    between.template operator()<first_point + 2 * i + 1>();
  });
}

// Adds products of kGroup elements, each group's with its own scale. Formats of whole numbers are
// among these where the activations are not.

// Two groups of rows (or one), unpacked to signed bytes.
struct BytePanel {
  std::byte* lines;  // [kSegment / 4, kPanelRows, 4]
  float* scales;     // [kSegment / 32, kPanelRows]
  float* offsets;    // the same

  static constexpr int64_t kLineBytes = kPanelRows * kSegment;
  static constexpr int64_t kOfGroups = kPanelRows * (kSegment / 32);
  static constexpr int64_t kBytes = kLineBytes + 2 * 4 * kOfGroups;

  explicit BytePanel(std::byte* scratch)
      : lines(scratch),
        scales(reinterpret_cast<float*>(scratch + kLineBytes)),
        offsets(scales + kOfGroups) {}
};

static_assert(BytePanel::kBytes + int64_t{sizeof(TileScratch)} <= kPackedScratchBytes);

// Blocks of kSteps steps of 32 elements: two, which share a scale of the activations, or the one
// that may be left at the end of a row. With kGroupsOfRows groups of rows.
template <typename V, typename Kind, int kSteps, int kGroupsOfRows>
struct GroupUnits {
  static constexpr int64_t kElements = kSteps * kStep;
  static constexpr int kGroup = Kind::kGroup;
  static constexpr int kGroups = kGroupsOfRows;
  static constexpr int kProducts = kSteps * 32 / kGroup;  // of a group of rows
  static constexpr int kSums = kProducts * kGroups;       // [product, group of rows]
  static constexpr int kLag = 2;
  static constexpr int kFirstPoint = 0;
  static constexpr int kEndPoint = 2 * kSums;
  static constexpr bool kAsksAhead = true;
  static_assert(kSums <= kMostSums);
  static constexpr bool IsHeld(int /*sum*/) { return true; }

  BytePanel panel;
  UnitsPlace<kGroup> place;
  int64_t first_group;  // of block 0 in the panel

  int64_t tokens() const { return place.tokens(); }
  [[gnu::always_inline]] UnitRows RowsOf(const Unit& unit) const {
    return place.template RowsOf<kElements>(unit);
  }

  template <typename Tiles, typename Leave, typename Between>
  [[gnu::always_inline]] void Multiply(const Unit& unit, const UnitRows& rows, const Leave& leave,
                                       const Between& between) const {
    const std::byte* lines =
        panel.lines + (first_group + unit.block * kProducts) * (kGroup / 4) * kPanelLineBytes;
    Repeat<kProducts>([&]<int i>() __attribute__((always_inline)) {
      const std::byte* of_product = lines + i * (kGroup / 4) * kPanelLineBytes;
      MultiplyActivations<Tiles, kGroups, 2 * i * kGroups>(
          rows.quants + i * kGroup, rows.quant_stride,
          [&](int g) __attribute__((always_inline)) { return of_product + g * kLineBytes; },
          [&]<int g>()
              __attribute__((always_inline)) { leave.template operator()<i * kGroups + g>(); },
          []<int g>() __attribute__((always_inline)) {
            Tiles::template AddProducts<i * kGroups + g, kActivationTile, kWeightTile>();
          },
          between);
    });
  }

  struct End {
    static constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;

    // What it needs of UnitRows.
    const float* scales;
    const float* sums;
    int64_t scale_stride;
    int64_t sum_stride;
    float* totals;
    Term<V> terms[kVectors][kProducts];

    template <int t>
    [[gnu::always_inline]] void Add(const std::byte* products) const {
      Repeat<kVectors>([&]<int v>() __attribute__((always_inline)) {
        constexpr int64_t kAt = PlaceOfSum<V>(t, v);
        typename V::Floats unscaled = V::Zero();
        Repeat<kProducts>([&]<int i>() __attribute__((always_inline)) {
          const auto sum =
              V::Load(products + i * kGroups * kTileBytes + kAt * int64_t{sizeof(float)});
          unscaled =
              AddGroup<V, Kind::kHasOffsets>(unscaled, sum, terms[v][i].scale, terms[v][i].offset,
                                             Kind::kHasOffsets ? sums[t * sum_stride + i] : 0.0f);
        });
        const auto scale = V::Broadcast(scales[t * scale_stride]);
        V::StoreFloats(V::MultiplyAdd(unscaled, scale, V::LoadFloats(totals + kAt)), totals + kAt);
      });
    }
  };

  [[gnu::always_inline]] End EndOf(const Unit& unit, const UnitRows& rows) const {
    End end;
    end.scales = rows.scales;
    end.sums = rows.sums;
    end.scale_stride = rows.scale_stride;
    end.sum_stride = rows.sum_stride;
    end.totals = rows.totals;
    Repeat<End::kVectors>([&]<int v>() __attribute__((always_inline)) {
      Repeat<kProducts>([&]<int i>() __attribute__((always_inline)) {
        const int64_t at = (first_group + unit.block * kProducts + i) * kPanelRows + v * V::kLanes;
        end.terms[v][i].scale = V::LoadFloats(panel.scales + at);
        end.terms[v][i].offset = Kind::kHasOffsets ? V::LoadFloats(panel.offsets + at) : V::Zero();
      });
    });
    return end;
  }
};

// Elements of a segment as weights, for its outliers.
template <typename V, typename Kind>
struct WeightsOfBytes {
  BytePanel panel;

  [[gnu::always_inline]] inline typename V::Floats operator()(uint32_t index, int64_t row) const {
    const auto words = V::Load(panel.lines + index / 4 * kPanelLineBytes + 4 * row);
    const auto numbers =
        V::ToFloats(AddSignedByte<V>(V::Broadcast(0), words, static_cast<int>(index % 4), kOneAt));
    const int64_t at = int64_t{index / Kind::kGroup} * kPanelRows + row;
    Term<V> term{V::LoadFloats(panel.scales + at), V::Zero()};
    if constexpr (Kind::kHasOffsets) term.offset = V::LoadFloats(panel.offsets + at);
    return WeightOf<V, Kind>(term, numbers);
  }
};

// Whole numbers.

// A number is high * 2^kPlaneBits + low, with low from 0 to 2^kPlaneBits - 1.
inline constexpr int kPlaneBits = 6;
inline constexpr int kPlanes = 2;  // low, high

// How a format is multiplied: in groups that share a minimum.
template <typename F>
using WholeKindOf = PanelKind<F::kBits, F::kGroup * F::kGroupsOfTerm, F::kHasOffsets>;

// Two groups of rows (or one), unpacked: weights times the scales of their groups.
struct Planes {
  std::byte* lines[kPlanes];  // [kSegment / 4, kPanelRows, 4] signed bytes
  // Lines of kPanelRows words, each twice the same number of bfloat16. A product takes 16 lines:
  // the minima of 16 groups. Where a block has eight, those of two blocks lie on either side of
  // eight lines of zeros, so that each of them and the zeros are 16.
  std::byte* minima;
  float* scales;   // [kSegment / 256, kPanelRows]
  float* offsets;  // the same

  static constexpr int64_t kLineBytesOfPlane = kPanelRows * kSegment;
  static constexpr int64_t kMinimaBytes = 4 * kPanelRows * (kSegment / 16);
  static constexpr int64_t kOfBlocks = kPanelRows * (kSegment / kWideActivationBlock);
  static constexpr int64_t kBytes = kPlanes * kLineBytesOfPlane + kMinimaBytes + 2 * 4 * kOfBlocks;

  explicit Planes(std::byte* scratch)
      : lines{scratch, scratch + kLineBytesOfPlane},
        minima(scratch + kPlanes * kLineBytesOfPlane),
        scales(reinterpret_cast<float*>(minima + kMinimaBytes)),
        offsets(scales + kOfBlocks) {}

  // Where the minimum of a group of a block lies, for row 0, and the lines that a block is
  // multiplied with.
  template <int kGroup>
  std::byte* Minimum(int64_t block, int64_t group) const {
    if constexpr (kGroup == 16) return minima + (16 * block + group) * kPanelLineBytes;
    return minima + (block / 2 * 24 + block % 2 * 16 + group) * kPanelLineBytes;
  }
  template <int kGroup>
  const std::byte* MinimaOfBlock(int64_t block) const {
    if constexpr (kGroup == 16) return Minimum<kGroup>(block, 0);
    return Minimum<kGroup>(block / 2 * 2, block % 2 * 8);
  }
};

static_assert(Planes::kBytes + int64_t{sizeof(TileScratch)} <= kPackedScratchBytes);

// A step's eight lines of four weights times the scales of their groups, as planes.
template <typename V, typename F, int phase>
[[gnu::always_inline]] inline void UnpackPlanes(const BlockPlace& place, int chunk, std::byte* low,
                                                std::byte* high) {
  using Ints = typename V::Ints;
  constexpr int kLinesOfGroup = F::kGroup / 4;
  const int step = chunk * F::kPhases + phase;
  Ints w[8];
  LoadWeights<V, F>(place, chunk, phase, w);
#pragma GCC unroll 2
  for (int i = 0; i < 8 / kLinesOfGroup; ++i) {
    const int group = step * (32 / F::kGroup) + i;
    const Ints scales = ScalesOf<V, F>(place, group, group);
#pragma GCC unroll 8
    for (int j = i * kLinesOfGroup; j < (i + 1) * kLinesOfGroup; ++j) {
      const Ints numbers = V::AddBytes(w[j], V::BroadcastByte(-F::kZero));
      const Ints even = V::MultiplyHalves(
          V::template ShiftRightSignedHalves<8>(V::template ShiftLeft<8>(numbers)), scales);
      const Ints odd = V::MultiplyHalves(V::template ShiftRightSignedHalves<8>(numbers), scales);
      const auto bytes = [](Ints even_halves, Ints odd_halves, int mask) {
        const Ints masks = V::Broadcast(mask * 0x10001);
        return V::Or(V::And(even_halves, masks),
                     V::template ShiftLeft<8>(V::And(odd_halves, masks)));
      };
      V::Store(bytes(even, odd, (1 << kPlaneBits) - 1), low + (step * 8 + j) * kPanelLineBytes);
      V::Store(bytes(V::template ShiftRightSignedHalves<kPlaneBits>(even),
                     V::template ShiftRightSignedHalves<kPlaneBits>(odd), 0xff),
               high + (step * 8 + j) * kPanelLineBytes);
    }
  }
}

// The terms of block `block` of a segment, for rows [row, row + lanes) of planes.
template <typename V, typename F>
[[gnu::always_inline]] inline void FillPlaneTerms(const BlockPlace& place, int64_t block,
                                                  int64_t row, const Planes& planes) {
  using Ints = typename V::Ints;
  constexpr int kGroup = WholeKindOf<F>::kGroup;
  constexpr int kTerms = kWideActivationBlock / kGroup;
  const Term<V> of_block = F::template BlockTermOf<V>(place);
  V::StoreFloats(of_block.scale, planes.scales + block * kPanelRows + row);
  if constexpr (F::kHasOffsets) {
    V::StoreFloats(of_block.offset, planes.offsets + block * kPanelRows + row);
#pragma GCC unroll 4
    for (int four = 0; four < kTerms / 4; ++four) {
      const Ints of_four = FourTermsOf<V, F>(place, four).minima;
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) {
        // Numbers of 6 bits, which fit the upper half of a float.
        const Ints number = V::AsInts(V::ToFloats(SignedByteOf<V>(of_four, i)));
        V::Store(V::Or(number, V::template ShiftRight<16>(number)),
                 planes.Minimum<kGroup>(block, 4 * four + i) + 4 * row);
      }
    }
    if (kGroup == 32 && block % 2 == 0) {
      for (int i = kTerms; i < 2 * kTerms; ++i) {
        V::Store(V::Broadcast(0), planes.Minimum<kGroup>(block, i) + 4 * row);
      }
    }
  }
}

// Elements [begin, end) of a group as rows [row, row + 16) of planes.
template <typename V, typename F>
[[gnu::noinline]] void FillPlanes(const std::byte* group, int64_t k, int64_t begin, int64_t end,
                                  int64_t row, const Planes& planes) {
  static_assert(F::kBlock == kWideActivationBlock);
  for (int lane = 0; lane < kGroupRows; lane += V::kLanes) {
    for (int64_t block = 0; block < (end - begin) / F::kBlock; ++block) {
      const BlockPlace place = PlaceInGroup<F>(group, k, begin / F::kBlock + block, lane);
      FillPlaneTerms<V, F>(place, block, row + lane, planes);
      const int64_t first = block * (F::kBlock / 4) * kPanelLineBytes + 4 * (row + lane);
      for (int chunk = 0; chunk < F::kChunks; ++chunk) {
        ForEachPhase<F>([&]<int phase>() __attribute__((always_inline)) {
          UnpackPlanes<V, F, phase>(place, chunk, planes.lines[0] + first, planes.lines[1] + first);
        });
      }
    }
  }
}

// Blocks of 256 elements. The sums of activations of the 16 groups from the present block's first
// on lie in TileScratch::words, [token, 16]: sums are numbers of up to 12 bits, each in two parts
// of bfloat16.
template <typename V, typename Kind, int kGroupsOfRows>
struct WholeUnits {
  static constexpr int64_t kElements = kWideActivationBlock;
  static constexpr bool kHasOffsets = Kind::kHasOffsets;
  static constexpr int kGroup = Kind::kGroup;
  static constexpr int kGroups = kGroupsOfRows;
  static constexpr int kMinima = kPlanes;  // the third sum
  static constexpr int kSums =
      (kHasOffsets ? 3 : 2) * kGroups;  // [low, high, minima; group of rows]
  static constexpr int kSumsOfProducts = kPlanes * kGroups;
  static constexpr int kProducts = kWideActivationBlock / kTileRowBytes;  // of a plane
  // Minima come before the last products, so that their tiles hold numbers for a short time only,
  // and leave them when the unit before is added.
  static constexpr int kPointsOfProduct = 2 * kSumsOfProducts;
  static constexpr int kPointOfMinima = (kProducts - 1) * kPointsOfProduct;
  static constexpr int kLag = 1;
  static constexpr int kFirstPoint = kPointsOfProduct;
  static constexpr int kEndPoint = kPointOfMinima + (kHasOffsets ? 4 * kGroups : kPointsOfProduct);
  static constexpr bool kAsksAhead = false;
  static constexpr int64_t kGroupsOfBlock = kWideActivationBlock / kGroup;
  static_assert(kSums <= kMostSums);
  static_assert(!kHasOffsets || kTileWords % kGroupsOfBlock == 0);
  static constexpr bool IsHeld(int sum) { return sum < kSumsOfProducts; }

  Planes planes;
  UnitsPlace<kGroup> place;
  int64_t groups;  // of the segment

  // Comes before the units of a block, while those of the one before may not be added yet.
  void Enter(int64_t block) const {
    if (kHasOffsets && block * kGroupsOfBlock % kTileWords == 0) SplitSums(block);
  }

  int64_t tokens() const { return place.tokens(); }
  [[gnu::always_inline]] UnitRows RowsOf(const Unit& unit) const {
    return place.template RowsOf<kElements>(unit);
  }

  template <typename Tiles, typename Leave, typename Between>
  [[gnu::always_inline]] void Multiply(const Unit& unit, const UnitRows& rows, const Leave& leave,
                                       const Between& between) const {
    const int64_t at = unit.block * (kWideActivationBlock / 4) * kPanelLineBytes;
    const auto multiply_minima = [&]() __attribute__((always_inline)) {
      constexpr int kFirstSum = kMinima * kGroups;
      const std::byte* minima = planes.MinimaOfBlock<kGroup>(unit.block);
      const auto lines_of = [&](int g) __attribute__((always_inline)) {
        return minima + g * kLineBytes;
      };
      const auto nothing = []<int g>() __attribute__((always_inline)){};
      const auto multiply = []<int g>() __attribute__((always_inline)) {
        Tiles::template AddFloatProducts<kFirstSum + g, kActivationTile, kWeightTile>();
      };
      MultiplyActivations<Tiles, kGroups, kPointOfMinima>(
          place.scratch.words + unit.tile * kTileTokens * kTileRowBytes, kTileRowBytes, lines_of,
          nothing, multiply, between);
    };
    Repeat<kProducts>([&]<int i>() __attribute__((always_inline)) {
      constexpr bool kIsLast = i == kProducts - 1;
      if constexpr (kHasOffsets && kIsLast) multiply_minima();
      constexpr int kPoint = i * kPointsOfProduct + (kHasOffsets && kIsLast ? 2 * kGroups : 0);
      const int64_t line = at + i * (kTileRowBytes / 4) * kPanelLineBytes;
      MultiplyActivations<Tiles, kSumsOfProducts, kPoint>(
          rows.quants + i * kTileRowBytes, rows.quant_stride,
          [&](int sum) __attribute__((always_inline)) {
            return planes.lines[sum / kGroups] + line + sum % kGroups * kLineBytes;
          },
          [&]<int sum>() __attribute__((always_inline)) {
            if constexpr (i == 0) leave.template operator()<sum>();
            if constexpr (kHasOffsets && kIsLast && sum >= kGroups) {
              leave.template operator()<sum + kGroups>();
            }
          },
          []<int sum>() __attribute__((always_inline)) {
            Tiles::template AddProducts<sum, kActivationTile, kWeightTile>();
          },
          between);
    });
  }

  struct End {
    static constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;

    const float* scales;
    int64_t scale_stride;
    float* totals;
    Term<V> terms[kVectors];

    template <int t>
    [[gnu::always_inline]] void Add(const std::byte* products) const {
      Repeat<kVectors>([&]<int v>() __attribute__((always_inline)) {
        constexpr int64_t kAt = PlaceOfSum<V>(t, v);
        const auto load = [&](int sum) __attribute__((always_inline)) {
          return V::Load(products + sum * kGroups * kTileBytes + kAt * int64_t{sizeof(float)});
        };
        const auto sum = V::Add(V::template ShiftLeft<kPlaneBits>(load(1)), load(0));
        typename V::Floats minima = V::Zero();
        if constexpr (kHasOffsets) minima = V::AsFloats(load(kMinima));
        V::StoreFloats(AddBlockSums<V, Kind>(V::LoadFloats(totals + kAt), sum, minima, terms[v],
                                             scales[t * scale_stride]),
                       totals + kAt);
      });
    }
  };

  [[gnu::always_inline]] End EndOf(const Unit& unit, const UnitRows& rows) const {
    End end;
    end.scales = rows.scales;
    end.scale_stride = rows.scale_stride;
    end.totals = rows.totals;
    Repeat<End::kVectors>([&]<int v>() __attribute__((always_inline)) {
      const int64_t at = unit.block * kPanelRows + v * V::kLanes;
      end.terms[v].scale = V::LoadFloats(planes.scales + at);
      end.terms[v].offset = kHasOffsets ? V::LoadFloats(planes.offsets + at) : V::Zero();
    });
    return end;
  }

 private:
  // Fills the words of the blocks from `block` on.
  [[gnu::noinline]] void SplitSums(int64_t block) const {
    const int64_t first = block * kGroupsOfBlock;
    const int64_t left = groups - first;
    const int64_t n = left < kTileWords ? left : kTileWords;
    for (int64_t tile = 0; tile < place.chunk.tiles(); ++tile) {
      const UnitRows rows = RowsOf({block, tile});
      std::byte* words = place.scratch.words + tile * kTileTokens * kTileRowBytes;
      for (int64_t t = 0; t < tokens(); ++t) {
        const float* sums = rows.sums + t * rows.sum_stride;
        if (n == kTileWords) {
          SplitSumsOfToken(sums, words + t * kTileRowBytes);
        } else {
          float last[kTileWords] = {};
          std::memcpy(last, sums, static_cast<size_t>(n) * sizeof(float));
          SplitSumsOfToken(last, words + t * kTileRowBytes);
        }
      }
    }
  }
  [[gnu::always_inline]] static void SplitSumsOfToken(const float* sums, std::byte* words) {
    for (int64_t i = 0; i < kTileWords; i += V::kLanes) {
      V::Store(SplitWords(V::LoadFloats(sums + i)), words + 4 * i);
    }
  }

  // Whole numbers of at most 16 bits as the sum of two of bfloat16: the upper half of a float, and
  // what that leaves.
  [[gnu::always_inline]] static typename V::Ints SplitWords(typename V::Floats sums) {
    const FloatParts<V> parts = SplitFloats<V>(sums);
    return V::Or(V::AsInts(parts.upper), V::template ShiftRight<16>(V::AsInts(parts.lower)));
  }
};

inline constexpr int8_t kUpper = 1 << kPlaneBits;
inline constexpr int8_t kUpperPlaneAt[4][4] = {
    {kUpper, 0, 0, 0}, {0, kUpper, 0, 0}, {0, 0, kUpper, 0}, {0, 0, 0, kUpper}};

// Elements of a segment as weights, for its outliers. The product of a block's scale, a number of
// 11 bits, with a number of the planes is exact, as is its product with the scale of a group: so
// this rounds where WeightOf of the group's terms does.
template <typename V, typename Kind>
struct WeightsOfPlanes {
  Planes planes;

  [[gnu::always_inline]] inline typename V::Floats operator()(uint32_t index, int64_t row) const {
    using Ints = typename V::Ints;
    const int64_t line = index / 4 * kPanelLineBytes + 4 * row;
    const int byte = static_cast<int>(index % 4);
    Ints numbers =
        AddSignedByte<V>(V::Broadcast(0), V::Load(planes.lines[1] + line), byte, kUpperPlaneAt);
    numbers = AddSignedByte<V>(numbers, V::Load(planes.lines[0] + line), byte, kOneAt);
    const int64_t block = index / kWideActivationBlock;
    const int64_t at = block * kPanelRows + row;
    Term<V> term{V::LoadFloats(planes.scales + at), V::Zero()};
    if constexpr (Kind::kHasOffsets) {
      const int64_t group = index % kWideActivationBlock / Kind::kGroup;
      const Ints minimum = V::Load(planes.Minimum<Kind::kGroup>(block, group) + 4 * row);
      term.offset = V::Multiply(V::LoadFloats(planes.offsets + at),
                                V::AsFloats(V::And(minimum, V::Broadcast(-0x10000))));
    }
    return WeightOf<V, Kind>(term, V::ToFloats(numbers));
  }
};

// Where a panel lies in the matrix, and what it is multiplied to.
struct PanelPlace {
  int64_t begin;  // elements of the row
  int64_t end;
  int64_t groups;  // of rows, 1 or 2
  float* out;      // of token 0 and the first row
  int64_t out_stride;
};

// A segment times all tokens, chunk after chunk: multiply<groups of rows>(chunk, ask) adds to the
// sums in scratch; weights(index, row) are those of element `index` of the segment. What is
// unpacked next is asked for by shares: after each chunk, and where one holds all tokens at ask(n,
// of), which multiply may call when n of `of` parts are done.
template <typename V, int kGroups, typename Multiply, typename Weights>
void MultiplyByChunks(const PanelPlace& at, const Activations& a, TileScratch& scratch,
                      UnpackedNext& next, const Multiply& multiply, const Weights& weights) {
  constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;
  const TokenTiles tiles(a.n_tokens);
  for (int64_t tile = 0; tile < tiles.count(); tile += kChunkTiles) {
    const TokenChunk chunk(tiles, tile);
    LoadSums<V>(chunk, kGroups, at.begin == 0, at.out, at.out_stride, scratch);
    multiply.template operator()<kGroups>(chunk, [&](int64_t n, int64_t of) {
      if (a.n_tokens <= kChunkTokens) next.AskUpTo(n, of);
    });
    StoreSums<V>(chunk, kGroups, scratch, at.out, at.out_stride);
    AddSegmentOutliers<V, kVectors>(at.begin, 0, TokenRows(a, 0), chunk.begin(), chunk.end(),
                                    at.out, at.out_stride, weights);
    next.AskUpTo(chunk.end(), a.n_tokens);
  }
}

template <typename V, typename Multiply, typename Weights>
void MultiplyByChunks(const PanelPlace& at, const Activations& a, TileScratch& scratch,
                      UnpackedNext next, const Multiply& multiply, const Weights& weights) {
  if (at.groups == kPanelGroups) {
    MultiplyByChunks<V, kPanelGroups>(at, a, scratch, next, multiply, weights);
  } else {
    MultiplyByChunks<V, 1>(at, a, scratch, next, multiply, weights);
  }
}

template <typename V, typename Tiles, typename F>
void MultiplyWholeByTiles(const std::byte* groups, int64_t n_groups, const Activations& a,
                          float* out, int64_t out_stride, std::byte* memory) {
  using Kind = WholeKindOf<F>;
  const Planes planes(memory);
  auto& scratch = *reinterpret_cast<TileScratch*>(memory + Planes::kBytes);
  Tiles::Configure(TilesOfDepth(TokenTiles(a.n_tokens), kTileRowBytes));
  ForEachSegment<kGroupsOf<F>>(
      groups, n_groups, a.k,
      [&](const std::byte* group, int64_t begin, int64_t end, int64_t row) {
        FillPlanes<V, F>(group, a.k, begin, end, row, planes);
      },
      [&](int64_t begin, int64_t end, int64_t first_row, int64_t n_rows, UnpackedNext next) {
        const PanelPlace at{begin, end, n_rows / kGroupRows, out + first_row, out_stride};
        const auto multiply = [&]<int kGroups>(const TokenChunk& chunk, const auto& /*ask*/) {
          const WholeUnits<V, Kind, kGroups> units{
              planes, {a, begin, chunk, scratch}, (end - begin) / Kind::kGroup};
          MultiplyUnits<Tiles>(units, (end - begin) / kWideActivationBlock, chunk.tiles(), scratch,
                               [&](int64_t block) { units.Enter(block); });
        };
        MultiplyByChunks<V>(at, a, scratch, next, multiply, WeightsOfPlanes<V, Kind>{planes});
      });
  Tiles::Release();
}

template <typename V, typename Tiles, typename F>
void MultiplyGroupsByTiles(const std::byte* groups, int64_t n_groups, const Activations& a,
                           float* out, int64_t out_stride, std::byte* memory) {
  using Kind = PanelKind<8, F::kGroup, F::kHasOffsets>;
  const BytePanel panel(memory);
  auto& scratch = *reinterpret_cast<TileScratch*>(memory + BytePanel::kBytes);
  Tiles::Configure(TilesOfDepth(TokenTiles(a.n_tokens), F::kGroup));
  ForEachSegment<kGroupsOf<F>>(
      groups, n_groups, a.k,
      [&](const std::byte* group, int64_t begin, int64_t end, int64_t row) {
        FillPanel<V, F, /*kPanelZero=*/0, /*kElements=*/4>(group, a.k, begin, end, row, panel);
      },
      [&](int64_t begin, int64_t end, int64_t first_row, int64_t n_rows, UnpackedNext next) {
        const PanelPlace at{begin, end, n_rows / kGroupRows, out + first_row, out_stride};
        const int64_t blocks = (end - begin) / kActivationBlock;
        const int64_t rest = blocks * kActivationBlock;
        const auto multiply = [&]<int kGroups>(const TokenChunk& chunk, const auto& ask) {
          const GroupUnits<V, Kind, 2, kGroups> units{panel, {a, begin, chunk, scratch}, 0};
          MultiplyUnits<Tiles>(units, blocks, chunk.tiles(), scratch,
                               [&](int64_t block) { ask(block, blocks); });
          if (begin + rest == end) return;
          const GroupUnits<V, Kind, 1, kGroups> last{
              panel, {a, begin + rest, chunk, scratch}, rest / F::kGroup};
          MultiplyUnits<Tiles>(last, 1, chunk.tiles(), scratch, [](int64_t /*block*/) {});
        };
        MultiplyByChunks<V>(at, a, scratch, next, multiply, WeightsOfBytes<V, Kind>{panel});
      });
  Tiles::Release();
}

// Formats with a scale for 16 elements, whose sums leave their tiles twice as often, were
// multiplied no faster than by AVX-512.
template <typename F>
inline constexpr bool kHasTiles = F::kGroup == 32;

// Whether MultiplyPackedByTiles multiplies these activations with weights of this type.
inline bool IsMultipliedByTiles(ElementType type, const Activations& a) {
  if (!Info(type).is_quantized) return false;
  bool has_tiles = false;
  VisitFormat(type, [&]<typename F>() {
    has_tiles = a.n_tokens >= FewestTileTokens<F>() &&
                (kHasTiles<F> || (HasWholeTerms<F> && a.copy == ActivationCopy::kWide));
  });
  return has_tiles;
}

// Whole groups of packed rows. IsMultipliedByTiles must hold.
template <typename V, typename Tiles>
void MultiplyPackedByTiles(ElementType type, const std::byte* groups, int64_t n_groups,
                           const Activations& a, float* out, int64_t out_stride,
                           std::byte* scratch) {
  VisitFormat(type, [&]<typename F>() {
    if constexpr (HasWholeTerms<F>) {
      if (a.copy == ActivationCopy::kWide) {
        return MultiplyWholeByTiles<V, Tiles, InWholeNumbers<F>>(groups, n_groups, a, out,
                                                                 out_stride, scratch);
      }
    }
    if constexpr (kHasTiles<F>) {
      MultiplyGroupsByTiles<V, Tiles, F>(groups, n_groups, a, out, out_stride, scratch);
    }
  });
}

}  // namespace
}  // namespace thaw
