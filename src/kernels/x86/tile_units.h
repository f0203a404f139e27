// How products are made by matrix instructions, which multiply up to 16 tokens with 16 rows, held
// in tile registers, and added up by the vectors V of an instruction set (lanes_*.h). Over the
// operations on tiles of `Tiles` (tiles_amx.h); what is multiplied is that of packed_tiles.h.
//
// The work is cut into units: a tile of tokens, a group of rows or two, and as many elements as
// share a scale of the activations. The sums of a unit are stored from their tiles, and what they
// come to is added to the sums of tokens and rows, which lie in memory. Instructions on tiles take
// turns with vectors at a port, so while a unit is multiplied the one before it is added, a few
// tokens after every product.
//
// A CPU has few registers to rename tiles to, and hardly any where threads share a core; each
// instruction that writes a tile waits for one. A zeroed tile takes none: so tiles are zeroed as
// soon as they are read (docs/decisions/0009-amx.md).
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/activations.h"
#include "kernels/packed_formats.h"
#include "kernels/panel_products.h"
#include "kernels/x86/tile_configuration.h"

namespace thaw {
namespace {

inline constexpr int64_t kTileTokens = kTileRows;
inline constexpr int64_t kTileBytes = kTileRows * kTileRowBytes;
inline constexpr int64_t kTileWords = kTileRowBytes / 4;  // of a row

// Tokens that units run over before the next elements: their sums, 8 KiB, and what the elements
// take of the panel, at most 16 KiB, stay in an L1 cache of 48 KiB.
inline constexpr int64_t kChunkTokens = 4 * kTileTokens;

// The tile registers: up to six of sums, which are zero but while a unit is multiplied, and those
// of the numbers that are multiplied.
inline constexpr int kMostSums = 6;
inline constexpr int kActivationTile = 6;
inline constexpr int kWeightTile = 7;

struct TileScratch {
  std::byte products[2][kMostSums * kTileBytes];   // of two units: [sum, token, row]
  float sums[kChunkTokens * kPanelRows];           // [tile, row / 16, token, row % 16]
  std::byte words[kChunkTokens * 4 * kTileWords];  // see WholeUnits
};

// Where a unit lies: its elements in a segment, and its tokens in a chunk.
struct Unit {
  int64_t block;
  int64_t tile;
  int64_t group;  // of rows, the first one

  // Its sums, of TileScratch::sums.
  float* Sums(float* sums) const {
    return sums + (tile * kPanelGroups + group) * kTileTokens * kGroupRows;
  }
};

// Some tokens, in tiles. The last tile reaches back over tokens that are done.
class TokenChunk {
 public:
  TokenChunk(int64_t begin, int64_t n_tokens)
      : begin_(begin),
        end_(n_tokens - begin < kChunkTokens ? n_tokens : begin + kChunkTokens),
        last_(n_tokens - kTileTokens) {}

  int64_t begin() const { return begin_; }
  int64_t end() const { return end_; }
  int64_t tiles() const { return (end_ - begin_ + kTileTokens - 1) / kTileTokens; }
  int64_t First(int64_t tile) const {
    const int64_t token = begin_ + tile * kTileTokens;
    return token < last_ ? token : last_;
  }
  // Tokens of a tile that the one before has as well.
  int64_t Done(int64_t tile) const { return begin_ + tile * kTileTokens - First(tile); }

 private:
  int64_t begin_;
  int64_t end_;
  int64_t last_;
};

template <typename V>
struct FloatParts {
  typename V::Floats upper;
  typename V::Floats lower;
};

// Numbers as the sum of their upper 16 bits and the rest.
template <typename V>
[[gnu::always_inline]] inline FloatParts<V> SplitFloats(typename V::Floats numbers) {
  const auto upper = V::AsFloats(V::And(V::AsInts(numbers), V::Broadcast(-0x10000)));
  return {upper, V::Subtract(numbers, upper)};
}

// Calls act<i>() for i from 0 to n - 1.
template <int n, typename Act>
[[gnu::always_inline]] inline void Repeat(const Act& act) {
  ForEachOf(std::make_integer_sequence<int, n>(), act);
}

// What units are made of (packed_tiles.h). Of Units:
//   kElements of a block
//   kGroups   of rows in a unit
//   kSums     how many tiles of sums a unit has
//   kPoints   how often it lets others at the ports of vectors
//   kBuffers  of products: 2 let the unit before be added while this one is stored
//   kAsksAhead
//             whether a unit's activations are a cache line of each token, asked for with the unit
//             before
//   Enter(block)
//             comes before the units of a block, while those of the one before may not be added yet
//   RowsOf(unit)
//             where its activations lie
//   Multiply<Tiles>(unit, rows, between)
//             makes the sums of a unit in tiles [0, kSums), and calls between<point>()
//   EndOf(unit, rows).template Add<token>(products)
//             adds those of one token to the sums of the unit
template <typename Units>
struct PlacedUnit {
  Unit unit;
  decltype(std::declval<Units>().RowsOf(Unit{})) rows;
};

template <typename Units>
[[gnu::noinline]] void AddUnit(const Units& units, const PlacedUnit<Units>& placed,
                               const std::byte* products) {
  const auto end = units.EndOf(placed.unit, placed.rows);
  Repeat<kTileRows>([&]<int t>() __attribute__((always_inline)) { end.template Add<t>(products); });
}

// Multiplies a unit and stores its sums as `products`; kAdds: and adds those of the unit before, a
// few tokens after every product and, into other memory, every store. kAsksAhead: asks for the
// activations of the next tile.
template <typename Tiles, bool kAdds, typename Units>
[[gnu::noinline]] void MultiplyUnit(const Units& units, const PlacedUnit<Units>& placed,
                                    const PlacedUnit<Units>& before, const std::byte* of_before,
                                    const int8_t* next_tile, std::byte* products) {
  const auto end = units.EndOf(before.unit, before.rows);
  const int64_t stride = placed.rows.quant_stride;
  const auto between = [&]<int point>() __attribute__((always_inline)) {
    constexpr int kPoints = Units::kPoints + (Units::kBuffers == 2 ? Units::kSums : 0);
    constexpr int kFirst = kTileRows * point / kPoints;
    constexpr int kNext = kTileRows * (point + 1) / kPoints;
    Repeat<kNext - kFirst>([&]<int i>() __attribute__((always_inline)) {
      if constexpr (kAdds) end.template Add<kFirst + i>(of_before);
      if constexpr (Units::kAsksAhead) __builtin_prefetch(next_tile + (kFirst + i) * stride);
    });
  };
  units.template Multiply<Tiles>(placed.unit, placed.rows, between);
  Repeat<Units::kSums>([&]<int i>() __attribute__((always_inline)) {
    Tiles::template Store<i>(products + i * kTileBytes, kTileRowBytes);
    Tiles::template Zero<i>();
    if constexpr (Units::kBuffers == 2) between.template operator()<Units::kPoints + i>();
  });
}

// Multiplies blocks [0, blocks) of `groups` groups of rows with the tokens of a chunk.
template <typename Tiles, typename Units>
void MultiplyUnits(const Units& units, int64_t blocks, int64_t tiles, int64_t groups,
                   TileScratch& scratch) {
  // The present unit and the one before it, by turns: a copy would wait for what was just written.
  PlacedUnit<Units> placed[2] = {};
  int64_t made = 0;
  for (int64_t block = 0; block < blocks; ++block) {
    units.Enter(block);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const bool is_last = tile + 1 == tiles;
      const Unit next{block + is_last, is_last ? 0 : tile + 1, 0};
      const int8_t* next_tile = units.RowsOf(next).quants;
      for (int64_t group = 0; group < groups; group += Units::kGroups) {
        PlacedUnit<Units>& present = placed[made % 2];
        present.unit = {block, tile, group};
        present.rows = units.RowsOf(present.unit);
        const PlacedUnit<Units>& before = placed[(made + 1) % 2];
        const std::byte* of_before = scratch.products[(made + 1) % Units::kBuffers];
        std::byte* products = scratch.products[made % Units::kBuffers];
        if (made == 0) {
          MultiplyUnit<Tiles, false>(units, present, before, of_before, next_tile, products);
        } else {
          MultiplyUnit<Tiles, true>(units, present, before, of_before, next_tile, products);
        }
        ++made;
      }
    }
  }
  if (made == 0) return;
  AddUnit(units, placed[(made - 1) % 2], scratch.products[(made - 1) % Units::kBuffers]);
}

// The sums that a chunk of tokens goes on from, and those that it ends with; the memory of these is
// asked for with the former.
template <typename V>
[[gnu::noinline]] void LoadSums(const TokenChunk& chunk, int64_t groups, bool is_first,
                                const float* out, int64_t out_stride, TileScratch& scratch) {
  for (int64_t tile = 0; tile < chunk.tiles(); ++tile) {
    for (int64_t group = 0; group < groups; ++group) {
      float* sums = Unit{0, tile, group}.Sums(scratch.sums);
      for (int64_t t = 0; t < kTileTokens; ++t) {
        const float* from = out + (chunk.First(tile) + t) * out_stride + group * kGroupRows;
        __builtin_prefetch(from, 1);
        __builtin_prefetch(from + kGroupRows - 1, 1);
        for (int64_t row = 0; row < kGroupRows; row += V::kLanes) {
          V::StoreFloats(is_first ? V::Zero() : V::LoadFloats(from + row),
                         sums + t * kGroupRows + row);
        }
      }
    }
  }
}

template <typename V>
[[gnu::noinline]] void StoreSums(const TokenChunk& chunk, int64_t groups, TileScratch& scratch,
                                 float* out, int64_t out_stride) {
  for (int64_t tile = 0; tile < chunk.tiles(); ++tile) {
    for (int64_t group = 0; group < groups; ++group) {
      const float* sums = Unit{0, tile, group}.Sums(scratch.sums);
      for (int64_t t = chunk.Done(tile); t < kTileTokens; ++t) {
        float* to = out + (chunk.First(tile) + t) * out_stride + group * kGroupRows;
        for (int64_t row = 0; row < kGroupRows; row += V::kLanes) {
          V::StoreFloats(V::LoadFloats(sums + t * kGroupRows + row), to + row);
        }
      }
    }
  }
}

}  // namespace
}  // namespace thaw
