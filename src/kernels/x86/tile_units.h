// How products are made by matrix instructions, which multiply up to 16 tokens with 16 rows, held
// in tile registers, and added up by the vectors V of an instruction set (lanes_*.h). Over the
// operations on tiles of `Tiles` (tiles_amx.h); what is multiplied is that of packed_tiles.h.
//
// The work is cut into units: a tile of tokens, a group of rows or two, and as many elements as
// share a scale of the activations. The sums of a unit are stored from their tiles while the next
// one is multiplied, each just before a product needs its tile, and what they come to is added to
// the sums of tokens and rows, which lie in memory, a few tokens between products: instructions on
// tiles take turns with vectors at a port.
//
// A CPU has few registers to rename tiles to, and hardly any where threads share a core; each
// instruction that writes a tile waits for one. A zeroed tile takes none: so tiles are zeroed as
// soon as they are read, and loaded no sooner than needed (docs/decisions/0009-amx.md).
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
inline constexpr int64_t kChunkTiles = 4;
inline constexpr int64_t kChunkTokens = kChunkTiles * kTileTokens;

// The tile registers: up to six of sums, zero from when those of one unit leave them to the first
// product of the next, and those of the numbers that are multiplied.
inline constexpr int kMostSums = 6;
inline constexpr int kMostProducts = 8;  // sums of units that are not added yet
inline constexpr int kActivationTile = 6;
inline constexpr int kWeightTile = 7;

struct TileScratch {
  std::byte products[kMostProducts * kTileBytes];  // of units in turn: [sum, token, row]
  float sums[kChunkTokens * kPanelRows];           // [tile, row / 16, token, row % 16]
  std::byte words[kChunkTokens * 4 * kTileWords];  // see WholeUnits
};

// Where a unit lies: its elements in a segment, and its tokens in a chunk.
struct Unit {
  int64_t block;
  int64_t tile;

  // Its sums, of TileScratch::sums, or those of its second group of rows.
  float* Sums(float* sums, int64_t group = 0) const {
    return sums + (tile * kPanelGroups + group) * kTileTokens * kGroupRows;
  }
};

// The tiles of a number of tokens: as few as can be, and of as few tokens each. The last one
// reaches back over tokens of the one before where they do not fill it.
class TokenTiles {
 public:
  explicit TokenTiles(int64_t n_tokens)
      : n_tokens_(n_tokens),
        count_((n_tokens + kTileTokens - 1) / kTileTokens),
        of_tile_(count_ == 0 ? 0 : (n_tokens + count_ - 1) / count_) {}

  int64_t count() const { return count_; }
  int64_t of_tile() const { return of_tile_; }  // tokens
  // The first token of a tile, and the first one that the tile before does not have.
  int64_t First(int64_t tile) const {
    return tile + 1 < count_ ? tile * of_tile_ : n_tokens_ - of_tile_;
  }
  int64_t FirstNew(int64_t tile) const { return tile < count_ ? tile * of_tile_ : n_tokens_; }

  // For products with tiles of weights, which those from `first_of_rows` on are, of `rows` rows;
  // the tiles before are of tokens. All rows are full.
  TileConfiguration Configuration(int first_of_rows, int64_t rows = kTileRows) const {
    TileConfiguration configuration = {};
    configuration.palette = 1;
    for (int tile = 0; tile < kTiles; ++tile) {
      configuration.rows[tile] = static_cast<uint8_t>(tile < first_of_rows ? of_tile_ : rows);
      configuration.row_bytes[tile] = kTileRowBytes;
    }
    return configuration;
  }

 private:
  int64_t n_tokens_;
  int64_t count_;
  int64_t of_tile_;
};

// Some tokens, in tiles.
class TokenChunk {
 public:
  TokenChunk(const TokenTiles& all, int64_t first_tile)
      : all_(all),
        first_tile_(first_tile),
        tiles_(all.count() - first_tile < kChunkTiles ? all.count() - first_tile : kChunkTiles) {}

  int64_t begin() const { return all_.FirstNew(first_tile_); }
  int64_t end() const { return all_.FirstNew(first_tile_ + tiles_); }
  int64_t tiles() const { return tiles_; }
  int64_t of_tile() const { return all_.of_tile(); }
  int64_t First(int64_t tile) const { return all_.First(first_tile_ + tile); }
  // Tokens of a tile that the one before has as well.
  int64_t Done(int64_t tile) const { return all_.FirstNew(first_tile_ + tile) - First(tile); }

 private:
  TokenTiles all_;
  int64_t first_tile_;
  int64_t tiles_;
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
//   kLag      how many units later its sums are added; as many units have memory for them
//   kFirstPoint, kEndPoint
//             between which points that is
//   kAsksAhead
//             whether a unit's activations are a cache line of each token, asked for with the unit
//             before
//   IsHeld(sum)
//             whether a sum leaves its tile while the next unit is multiplied
//   tokens()  of a tile
//   RowsOf(unit)
//             where its activations lie
//   Multiply<Tiles>(unit, rows, leave, between)
//             makes the sums of a unit in tiles [0, kSums); calls leave<sum>() for each, of those
//             that are held before their tiles are needed again, of others when they are done; and
//             between<point>()
//   EndOf(unit, rows).template Add<token>(products)
//             adds those of one token to the sums of the unit
template <typename Units>
struct PlacedUnit {
  Unit unit;
  decltype(std::declval<Units>().RowsOf(Unit{})) rows;
  std::byte* products;
};

template <typename Units>
[[gnu::noinline]] void AddUnit(const Units& units, const PlacedUnit<Units>& placed) {
  const auto end = units.EndOf(placed.unit, placed.rows);
  const int64_t tokens = units.tokens();
  Repeat<kTileRows>([&]<int t>() __attribute__((always_inline)) {
    if (t < tokens) end.template Add<t>(placed.products);
  });
}

template <typename Tiles, int i>
[[gnu::always_inline]] inline void StoreSum(std::byte* products) {
  Tiles::template Store<i>(products + i * kTileBytes, kTileRowBytes);
  Tiles::template Zero<i>();
}

// Multiplies the unit `placed`. Where kHolds, the sums that the unit `last` holds leave their
// tiles; where kAdds, the unit `added` is added, a few tokens between products. kAsksAhead: asks
// for the activations of the next tile. kIsFull: tiles are of kTileTokens, which need not be
// counted.
template <typename Tiles, bool kIsFull, bool kHolds, bool kAdds, typename Units>
[[gnu::noinline]] void MultiplyUnit(const Units& units, const PlacedUnit<Units>& placed,
                                    const PlacedUnit<Units>& last, const PlacedUnit<Units>& added,
                                    const int8_t* next_tile) {
  const auto end = units.EndOf(added.unit, added.rows);
  const std::byte* of_added = added.products;
  std::byte* of_last = last.products;
  std::byte* products = placed.products;
  const int64_t stride = placed.rows.quant_stride;
  const int64_t tokens = units.tokens();
  const auto leave = [&]<int i>() __attribute__((always_inline)) {
    if constexpr (!Units::IsHeld(i)) {
      StoreSum<Tiles, i>(products);
    } else if constexpr (kHolds) {
      StoreSum<Tiles, i>(of_last);
    }
  };
  const auto between = [&]<int point>() __attribute__((always_inline)) {
    constexpr int kFrom = Units::kFirstPoint;
    constexpr int kEnd = Units::kEndPoint;
    if constexpr (point >= kFrom && point < kEnd) {
      constexpr int kPoints = kEnd - kFrom;
      constexpr int kFirst = kTileRows * (point - kFrom) / kPoints;
      constexpr int kNext = kTileRows * (point - kFrom + 1) / kPoints;
      Repeat<kNext - kFirst>([&]<int i>() __attribute__((always_inline)) {
        if constexpr (kAdds) {
          if (kIsFull || kFirst + i < tokens) end.template Add<kFirst + i>(of_added);
        }
        if constexpr (Units::kAsksAhead) __builtin_prefetch(next_tile + (kFirst + i) * stride);
      });
    }
  };
  units.template Multiply<Tiles>(placed.unit, placed.rows, leave, between);
}

// Multiplies blocks [0, blocks) with the tokens of a chunk, block by block; enter(block) comes
// before each.
template <typename Tiles, bool kIsFull, typename Units, typename Enter>
void MultiplyUnits(const Units& units, int64_t blocks, int64_t tiles, TileScratch& scratch,
                   const Enter& enter) {
  constexpr int64_t kLag = Units::kLag;
  constexpr int64_t kUnitBytes = Units::kSums * kTileBytes;
  static_assert(kLag * kUnitBytes <= int64_t{sizeof(scratch.products)});
  // In turn: those that are not added yet, the present one and the next.
  constexpr int64_t kPlaces = 4;
  static_assert(kLag + 2 <= kPlaces);
  PlacedUnit<Units> places[kPlaces] = {};
  const auto place_of = [&](int64_t i) -> PlacedUnit<Units>& { return places[i % kPlaces]; };
  const auto place = [&](int64_t i, const Unit& unit) {
    place_of(i) = {unit, units.RowsOf(unit), scratch.products + i % kLag * kUnitBytes};
  };
  const int64_t n_units = blocks * tiles;
  if (n_units == 0) return;
  place(0, {0, 0});
  for (int64_t i = 0; i < n_units; ++i) {
    const PlacedUnit<Units>& present = place_of(i);
    const Unit unit = present.unit;
    if (unit.tile == 0) enter(unit.block);
    place(i + 1, unit.tile + 1 < tiles ? Unit{unit.block, unit.tile + 1} : Unit{unit.block + 1, 0});
    const int8_t* next_tile = place_of(i + 1).rows.quants;
    const PlacedUnit<Units>& last = place_of(i + kPlaces - 1);
    const PlacedUnit<Units>& added = place_of(i + kPlaces - kLag);
    if (i >= kLag) {
      MultiplyUnit<Tiles, kIsFull, true, true>(units, present, last, added, next_tile);
    } else if (kLag > 1 && i > 0) {
      MultiplyUnit<Tiles, kIsFull, true, false>(units, present, last, added, next_tile);
    } else {
      MultiplyUnit<Tiles, kIsFull, false, false>(units, present, last, added, next_tile);
    }
  }
  std::byte* of_last = place_of(n_units - 1).products;
  Repeat<Units::kSums>([&]<int i>() __attribute__((always_inline)) {
    if constexpr (Units::IsHeld(i)) StoreSum<Tiles, i>(of_last);
  });
  for (int64_t i = n_units < kLag ? 0 : n_units - kLag; i < n_units; ++i) {
    AddUnit(units, place_of(i));
  }
}

template <typename Tiles, typename Units, typename Enter>
void MultiplyUnits(const Units& units, int64_t blocks, int64_t tiles, TileScratch& scratch,
                   const Enter& enter) {
  if (units.tokens() == kTileTokens) {
    MultiplyUnits<Tiles, true>(units, blocks, tiles, scratch, enter);
  } else {
    MultiplyUnits<Tiles, false>(units, blocks, tiles, scratch, enter);
  }
}

// The sums that a chunk of tokens goes on from, and those that it ends with; the memory of these is
// asked for with the former.
template <typename V>
[[gnu::noinline]] void LoadSums(const TokenChunk& chunk, int64_t groups, bool is_first,
                                const float* out, int64_t out_stride, TileScratch& scratch) {
  for (int64_t tile = 0; tile < chunk.tiles(); ++tile) {
    for (int64_t group = 0; group < groups; ++group) {
      float* sums = Unit{0, tile}.Sums(scratch.sums, group);
      for (int64_t t = 0; t < chunk.of_tile(); ++t) {
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
      const float* sums = Unit{0, tile}.Sums(scratch.sums, group);
      for (int64_t t = chunk.Done(tile); t < chunk.of_tile(); ++t) {
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
