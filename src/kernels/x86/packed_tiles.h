// Products of packed rows with many tokens by matrix instructions, which multiply up to 16 tokens
// with 16 rows over 64 elements, held in tile registers. Over the vectors V of an instruction set
// (lanes_*.h) and the operations on tiles of `Tiles` (tiles_amx.h).
//
// What costs is to take sums out of the tiles and to scale them. So this is for formats whose sums
// are whole numbers over a block of 256 (kernels/packed_sums.h) alone: a panel is filled with
// weights times the scales of their groups, numbers of up to 14 bits in two planes of signed bytes,
// and the sums of both stay in their tiles for the whole block. They are exact, so they are those
// of every other way, and AddBlock does the rest: the results are those of
// kernels/packed_products.h over V, bit for bit.
//
// In an anonymous namespace, for the reason given in packed_formats.h. Costs: the last tile of
// tokens reaches back over tokens that are done, so 17 tokens take as long as 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"
#include "kernels/panel_matmul.h"
#include "kernels/panel_products.h"
#include "kernels/x86/tile_configuration.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

inline constexpr int64_t kTileTokens = kTileRows;
inline constexpr int64_t kTileElements = kTileRowBytes;
inline constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;

// Fewer are multiplied directly (kernels/direct_products.h), as by the dot products of AVX-512.
inline constexpr int64_t kFewestTileTokens = kTileTokens + 1;

// Tokens that a panel is multiplied with block by block: their sums, 16 KiB, and the 16 KiB of a
// block of the panel stay in an L1 cache of 48 KiB.
inline constexpr int64_t kChunkTokens = 8 * kTileTokens;

// The tile registers.
inline constexpr int kActivationTile = 0;
inline constexpr int kWeightTiles = 1;  // three, which take turns
inline constexpr int kSumTiles = 4;     // + 2 * plane + which 16 rows

// A number is high * 2^kPlaneBits + low, with low from 0 to 2^kPlaneBits - 1.
inline constexpr int kPlaneBits = 6;
inline constexpr int kPlanes = 2;  // low, high

// Two groups of rows (or one), unpacked: weights times the scales of their groups.
struct Planes {
  std::byte* lines[kPlanes];  // [kSegment / 4, kPanelRows, 4] signed bytes
  BlockTerms terms;

  static constexpr int64_t kLineBytesOfPlane = kPanelRows * kSegment;

  explicit Planes(std::byte* scratch)
      : lines{scratch, scratch + kLineBytesOfPlane}, terms(scratch + 2 * kLineBytesOfPlane) {}
};

struct TileScratch {
  std::byte products[kPlanes * kPanelGroups * kTileBytes];  // [plane, row / 16, token, row % 16]
  float sums[kChunkTokens * kPanelRows];                    // [tile, row / 16, token, row % 16]
};

inline constexpr int64_t kPlanesBytes = kPlanes * Planes::kLineBytesOfPlane + BlockTerms::kBytes;
static_assert(kPlanesBytes + int64_t{sizeof(TileScratch)} <= kPackedScratchBytes);

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

// Elements [begin, end) of a group as rows [row, row + 16) of planes.
template <typename V, typename F>
[[gnu::noinline]] void FillPlanes(const std::byte* group, int64_t k, int64_t begin, int64_t end,
                                  int64_t row, const Planes& planes) {
  static_assert(F::kBlock == kWideActivationBlock);
  for (int lane = 0; lane < kGroupRows; lane += V::kLanes) {
    for (int64_t block = 0; block < (end - begin) / F::kBlock; ++block) {
      const BlockPlace place = PlaceInGroup<F>(group, k, begin / F::kBlock + block, lane);
      FillBlockTerms<V, F>(place, block, row + lane, planes.terms);
      const int64_t first = block * (F::kBlock / 4) * kPanelLineBytes + 4 * (row + lane);
      for (int chunk = 0; chunk < F::kChunks; ++chunk) {
        ForEachPhase<F>([&]<int phase>() {
          UnpackPlanes<V, F, phase>(place, chunk, planes.lines[0] + first, planes.lines[1] + first);
        });
      }
    }
  }
}

// The part of planes that tiles run over.
struct PlanesSegment {
  Planes planes;
  int64_t begin;  // elements of the row
  int64_t end;
};

// Elements of a segment as weights, for its outliers. The product of a block's scale, a number of
// 11 bits, with a number of the planes is exact, as is its product with the scale of a group: so
// this rounds where WeightOf of the group's terms does.
template <typename V, typename Kind>
struct WeightsOfPlanes {
  Planes planes;

  [[gnu::always_inline]] inline typename V::Floats operator()(uint32_t index, int64_t row) const {
    using Ints = typename V::Ints;
    const int64_t at = index / 4 * kPanelLineBytes + 4 * row;
    const auto number = [&](int plane) {
      return SignedByteOf<V>(V::Load(planes.lines[plane] + at), static_cast<int>(index % 4));
    };
    const Ints numbers = V::Add(V::template ShiftLeft<kPlaneBits>(number(1)), number(0));
    const int64_t block = index / kWideActivationBlock;
    Term<V> term = BlockTermOfPanel<V, Kind>(planes.terms, block, row);
    if constexpr (Kind::kHasOffsets) {
      const int group = static_cast<int>(index % kWideActivationBlock) / Kind::kGroup;
      const Ints minima = MinimaOfPanel<V, Kind>(planes.terms, block, group / 2, row);
      const Ints minimum = V::And(V::ShiftRight(minima, 16 * (group % 2)), V::Broadcast(0xffff));
      term.offset = V::Multiply(term.offset, V::ToFloats(minimum));
    }
    return WeightOf<V, Kind>(term, V::ToFloats(numbers));
  }
};

// Multiplies a block of a segment with a tile of tokens: both planes of kGroups groups of rows. The
// sums stay in their tiles. `quants`: those of the first token and of the block's first element.
template <typename Tiles, int kGroups>
[[gnu::always_inline]] inline void MultiplyBlockByTiles(const Planes& planes, int64_t block,
                                                        const int8_t* quants, int64_t token_bytes) {
  Tiles::template Zero<kSumTiles>();
  Tiles::template Zero<kSumTiles + 2>();
  if constexpr (kGroups == 2) {
    Tiles::template Zero<kSumTiles + 1>();
    Tiles::template Zero<kSumTiles + 3>();
  }
  const std::byte* low = planes.lines[0] + block * (kWideActivationBlock / 4) * kPanelLineBytes;
  const std::byte* high = low + Planes::kLineBytesOfPlane;
  for (int64_t element = 0; element < kWideActivationBlock; element += kTileElements) {
    Tiles::template Load<kActivationTile>(quants + element, token_bytes);
    Tiles::template Load<kWeightTiles>(low, kPanelLineBytes);
    Tiles::template AddProducts<kSumTiles, kActivationTile, kWeightTiles>();
    Tiles::template Load<kWeightTiles + 1>(high, kPanelLineBytes);
    Tiles::template AddProducts<kSumTiles + 2, kActivationTile, kWeightTiles + 1>();
    if constexpr (kGroups == 2) {
      Tiles::template Load<kWeightTiles + 2>(low + kLineBytes, kPanelLineBytes);
      Tiles::template AddProducts<kSumTiles + 1, kActivationTile, kWeightTiles + 2>();
      Tiles::template Load<kWeightTiles>(high + kLineBytes, kPanelLineBytes);
      Tiles::template AddProducts<kSumTiles + 3, kActivationTile, kWeightTiles>();
    }
    low += kTileElements / 4 * kPanelLineBytes;
    high += kTileElements / 4 * kPanelLineBytes;
  }
}

template <typename Tiles, int kGroups>
[[gnu::always_inline]] inline void StoreProducts(std::byte* products) {
  Tiles::template Store<kSumTiles>(products, kTileRowBytes);
  Tiles::template Store<kSumTiles + 2>(products + 2 * kTileBytes, kTileRowBytes);
  if constexpr (kGroups == 2) {
    Tiles::template Store<kSumTiles + 1>(products + kTileBytes, kTileRowBytes);
    Tiles::template Store<kSumTiles + 3>(products + 3 * kTileBytes, kTileRowBytes);
  }
}

// Where the sums of a vector of rows from `row` on and token t of a tile lie, from those of the
// tile.
constexpr int64_t PlaceOfSum(int64_t t, int64_t row) {
  return (row / kGroupRows * kTileTokens + t) * kGroupRows + row % kGroupRows;
}

// Adds the products of a block to the sums of a tile, whose first token is that of `rows`.
template <typename V, typename Kind, int kGroups>
[[gnu::noinline]] void AddTile(const std::byte* products, const BlockTerms& terms, int64_t block,
                               const TokenRows& rows, int64_t first_step, float* sums) {
  using Ints = typename V::Ints;
  for (int64_t row = 0; row < kGroups * kGroupRows; row += V::kLanes) {
    const BlockEnd<V, Kind> end(terms, block, row);
#pragma GCC unroll 4
    for (int64_t t = 0; t < kTileTokens; ++t) {
      const int64_t at = PlaceOfSum(t, row);
      const Ints low = V::Load(products + 4 * at);
      const Ints high = V::Load(products + 4 * at + 2 * kTileBytes);
      const Ints sum = V::Add(V::template ShiftLeft<kPlaneBits>(high), low);
      const typename V::Floats total = AddBlock<V, Kind>(V::LoadFloats(sums + at), sum, end.term,
                                                         end.minima, rows, t, first_step);
      V::StoreFloats(total, sums + at);
    }
  }
}

// The sums that a chunk of tokens goes on from, and those that it ends with.
template <typename V, int kGroups>
[[gnu::noinline]] void LoadSums(bool is_first_segment, int64_t first, const float* out,
                                int64_t out_stride, float* sums) {
  for (int64_t t = 0; t < kTileTokens; ++t) {
    for (int64_t row = 0; row < kGroups * kGroupRows; row += V::kLanes) {
      V::StoreFloats(
          is_first_segment ? V::Zero() : V::LoadFloats(out + (first + t) * out_stride + row),
          sums + PlaceOfSum(t, row));
    }
  }
}

template <typename V, int kGroups>
[[gnu::noinline]] void StoreSums(const float* sums, int64_t skip, int64_t first, float* out,
                                 int64_t out_stride) {
  for (int64_t t = skip; t < kTileTokens; ++t) {
    for (int64_t row = 0; row < kGroups * kGroupRows; row += V::kLanes) {
      V::StoreFloats(V::LoadFloats(sums + PlaceOfSum(t, row)),
                     out + (first + t) * out_stride + row);
    }
  }
}

// A segment of kGroups groups of rows times all tokens.
template <typename V, typename Tiles, typename Kind, int kGroups>
[[gnu::noinline]] void MultiplySegmentByTiles(const PlanesSegment& segment, const Activations& a,
                                              float* out, int64_t out_stride, TileScratch& scratch,
                                              UnpackedNext next) {
  constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;
  const int64_t blocks = (segment.end - segment.begin) / kWideActivationBlock;
  for (int64_t chunk = 0; chunk < a.n_tokens; chunk += kChunkTokens) {
    const int64_t chunk_end = a.n_tokens - chunk < kChunkTokens ? a.n_tokens : chunk + kChunkTokens;
    const int64_t tiles = (chunk_end - chunk + kTileTokens - 1) / kTileTokens;
    // The last tile reaches back over tokens that are done.
    const auto first_of = [&](int64_t tile) {
      const int64_t token = chunk + tile * kTileTokens;
      const int64_t last = a.n_tokens - kTileTokens;
      return token < last ? token : last;
    };
    const auto sums_of = [&](int64_t tile) {
      return scratch.sums + tile * kTileTokens * kPanelRows;
    };
    for (int64_t tile = 0; tile < tiles; ++tile) {
      LoadSums<V, kGroups>(segment.begin == 0, first_of(tile), out, out_stride, sums_of(tile));
    }
    // A unit is a tile of tokens and a block. The products of one are added while those of the next
    // one are made, and before these are stored: instructions retire in their order, and a store
    // that waits for its tile holds up all that follow.
    const auto add = [&](int64_t unit) {
      const int64_t tile = unit % tiles;
      const int64_t block = unit / tiles;
      const int64_t first_step = (segment.begin + block * kWideActivationBlock) / kStep;
      AddTile<V, Kind, kGroups>(scratch.products, segment.planes.terms, block,
                                TokenRows(a, first_of(tile)), first_step, sums_of(tile));
    };
    const int64_t units = blocks * tiles;
    for (int64_t unit = 0; unit < units; ++unit) {
      const int64_t block = unit / tiles;
      const int64_t element = segment.begin + block * kWideActivationBlock;
      MultiplyBlockByTiles<Tiles, kGroups>(
          segment.planes, block, a.quants + first_of(unit % tiles) * QuantStride(a.k) + element,
          QuantStride(a.k));
      if (unit > 0) add(unit - 1);
      StoreProducts<Tiles, kGroups>(scratch.products);
    }
    add(units - 1);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t skip = chunk + tile * kTileTokens - first_of(tile);
      StoreSums<V, kGroups>(sums_of(tile), skip, first_of(tile), out, out_stride);
    }
    AddSegmentOutliers<V, kVectors>(segment.begin, 0, TokenRows(a, 0), chunk, chunk_end, out,
                                    out_stride, WeightsOfPlanes<V, Kind>{segment.planes});
    next.AskUpTo(chunk_end, a.n_tokens);
  }
}

inline TileConfiguration FullTiles() {
  TileConfiguration configuration = {};
  configuration.palette = 1;
  for (int tile = 0; tile < kTiles; ++tile) {
    configuration.rows[tile] = kTileRows;
    configuration.row_bytes[tile] = kTileRowBytes;
  }
  return configuration;
}

template <typename V, typename Tiles, typename F>
void MultiplyGroupsByTiles(const std::byte* groups, int64_t n_groups, const Activations& a,
                           float* out, int64_t out_stride, std::byte* scratch) {
  using Kind = PanelKind<F::kBits, F::kGroup, F::kHasOffsets>;
  const Planes planes(scratch);
  auto& of_tiles = *reinterpret_cast<TileScratch*>(scratch + kPlanesBytes);
  const TileConfiguration configuration = FullTiles();
  Tiles::Configure(configuration);
  ForEachSegment<F>(
      groups, n_groups, a.k,
      [&](const std::byte* group, int64_t begin, int64_t end, int64_t row) {
        FillPlanes<V, F>(group, a.k, begin, end, row, planes);
      },
      [&](int64_t begin, int64_t end, int64_t first_row, int64_t n_rows, UnpackedNext next) {
        const PlanesSegment segment{planes, begin, end};
        if (n_rows == kPanelRows) {
          MultiplySegmentByTiles<V, Tiles, Kind, 2>(segment, a, out + first_row, out_stride,
                                                    of_tiles, next);
        } else {
          MultiplySegmentByTiles<V, Tiles, Kind, 1>(segment, a, out + first_row, out_stride,
                                                    of_tiles, next);
        }
      });
  Tiles::Release();
}

// Whether MultiplyPackedByTiles multiplies these activations with weights of this type.
inline bool IsMultipliedByTiles(ElementType type, const Activations& a) {
  constexpr ActivationCopy kWide = ActivationCopy::kWide;
  return a.copy == kWide && FastestCopy(type) == kWide && a.n_tokens >= kFewestTileTokens;
}

// Whole groups of packed rows. IsMultipliedByTiles must hold.
template <typename V, typename Tiles>
void MultiplyPackedByTiles(ElementType type, const std::byte* groups, int64_t n_groups,
                           const Activations& a, float* out, int64_t out_stride,
                           std::byte* scratch) {
  VisitFormat(type, [&]<typename F>() {
    if constexpr (HasWholeTerms<F>) {
      MultiplyGroupsByTiles<V, Tiles, InWholeNumbers<F>>(groups, n_groups, a, out, out_stride,
                                                         scratch);
    }
  });
}

}  // namespace
}  // namespace thaw
