// Products of packed rows with many tokens by matrix instructions: one of them multiplies up to 16
// tokens with 16 rows over a run of elements, held in tile registers. Over the vectors V of an
// instruction set (lanes_*.h) and the operations on tiles of `Tiles` (tiles_amx.h).
//
// A panel (kernels/panel_products.h) is filled with signed bytes; its lines are the second operand
// as they lie. The integer sums of a step are exact, so they are those of every other way, and
// AddGroup does the rest: the results are those of that header over V, bit for bit. A tile runs
// over the elements that share a scale: 32 or 16.
//
// What limits the speed is to make floats of the products: per 16 rows, token and step two to three
// instructions, against eight dot products more where there are no tiles. So the products of a
// batch of steps go to a buffer that stays in the L1 cache, and are then added to sums of floats in
// registers, while the tiles of the next batch are being multiplied: both kinds of work alternate
// in the stream of instructions, so that they overlap.
//
// In an anonymous namespace, for the reason given in packed_formats.h. Costs: the last tile of
// tokens reaches back over tokens that are done, so 17 tokens take three quarters of the time
// of 32.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activations.h"
#include "kernels/grid_formats.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_products.h"
#include "kernels/packed_sums.h"
#include "kernels/panel_matmul.h"
#include "kernels/panel_products.h"
#include "kernels/x86/tile_configuration.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// The tile registers. There are two sets of those of activations and products, which take turns, so
// that the tiles of one pair of products need not wait for those of the pair before.
inline constexpr int kActivationTiles = 0;  // + set
inline constexpr int kWeightTiles = 2;      // + which 16 rows
inline constexpr int kProductTiles = 4;     // + 2 * set + which 16 rows

inline constexpr int64_t kTokensOfTile = kTileRows;
inline constexpr int64_t kProductRowBytes = kGroupRows * int64_t{sizeof(int32_t)};
inline constexpr int64_t kProductBytes = kTokensOfTile * kProductRowBytes;

// Tokens whose sums are in registers at a time: 16 sums of 16 rows for a panel of two groups.
inline constexpr int kRunTokens = 8;
inline constexpr int kRuns = 2;

// Fewer tokens are multiplied by direct_products.h, out of registers.
inline constexpr int64_t kFewestTileTokens = 9;
static_assert(kFewestTileTokens >= kRunTokens);

// Pairs of tiles, of the two groups of a panel, in a batch: 8 KiB of products, and as much of the
// next batch, leave most of an L1 cache of 32 or 48 KiB to the operands; loading and storing the
// sums of floats once per batch takes a tenth of its loads.
inline constexpr int kBatchPairs = 4;

struct TileScratch {
  std::byte products[2][kBatchPairs * kPanelGroups * kProductBytes];
  float sums[kRuns][kRunTokens * kPanelRows];
  std::byte whole[kRuns][kRunTokens * kPanelRows * sizeof(int32_t)];  // sums of the present block
};
static_assert(kPanelBytes + int64_t{sizeof(TileScratch)} <= kPackedScratchBytes);

// Lanes as a panel of signed bytes needs them; they do not multiply.
template <typename V>
struct SignedPanelLanes : V {
  static constexpr bool kSignedBytes = true;
  static constexpr bool kSignedPanels = true;
  static constexpr bool kPairsSums = false;
};

// Products of a batch that are yet to be made. A pair is what the activations of one tile are
// multiplied with: the rows of one or two groups. Its products are stored behind those of the next
// pair: they are only there after some 50 cycles, instructions retire in their order, and a store
// that waits holds up all that follow.
template <typename Tiles, int kGroup, int kGroups>
struct TilePairs {
  const int8_t* quants;  // of the first token
  int64_t token_bytes;
  const std::byte* lines;  // of the panel
  std::byte* products;     // [pair, group of rows, token, row]: where the next pair's go
  int left;
  bool has_unstored = false;  // the pair before the next one, in the other set of tiles

  template <int set>
  [[gnu::always_inline]] inline void Store(std::byte* to) {
    constexpr int kFirst = kProductTiles + 2 * set;
    Tiles::template Store<kFirst>(to, kProductRowBytes);
    if constexpr (kGroups == 2) {
      Tiles::template Store<kFirst + 1>(to + kProductBytes, kProductRowBytes);
    }
  }

  template <int set>
  [[gnu::always_inline]] inline void Multiply() {
    constexpr int kFirst = kProductTiles + 2 * set;
    Tiles::template Load<kActivationTiles + set>(quants, token_bytes);
    Tiles::template Load<kWeightTiles>(lines, kPanelLineBytes);
    Tiles::template Zero<kFirst>();
    Tiles::template AddProducts<kFirst, kActivationTiles + set, kWeightTiles>();
    if constexpr (kGroups == 2) {
      Tiles::template Load<kWeightTiles + 1>(lines + kLineBytes, kPanelLineBytes);
      Tiles::template Zero<kFirst + 1>();
      Tiles::template AddProducts<kFirst + 1, kActivationTiles + set, kWeightTiles + 1>();
    }
    if (has_unstored) Store<1 - set>(products - kGroups * kProductBytes);
  }

  // The sets take turns by the number of pairs that are left.
  [[gnu::always_inline]] inline void MultiplyNext() {
    if (left == 0) return;
    if (left % 2 == 0) {
      Multiply<0>();
    } else {
      Multiply<1>();
    }
    has_unstored = true;
    quants += kGroup;
    lines += kGroup / 4 * kPanelLineBytes;
    products += kGroups * kProductBytes;
    --left;
  }

  // The last pair is the one with one left.
  [[gnu::always_inline]] inline void Finish() {
    while (left > 0) MultiplyNext();
    if (has_unstored) Store<1>(products - kGroups * kProductBytes);
    has_unstored = false;
  }
};

// Steps [begin, end) of a segment with a tile of tokens.
struct TileBatch {
  int64_t done;   // tokens before this one have their sums of the segment
  int64_t first;  // token of the tile: below `done` where the last tile reaches back
  int64_t begin;
  int64_t end;
};

// The batches of a segment, in the order in which they are multiplied.
template <typename Kind>
struct TileBatches {
  static constexpr int64_t kSteps = kBatchPairs * Kind::kGroup / kStep;

  int64_t first_step;
  int64_t last_step;  // the one behind the last
  int64_t n_tokens;
  int64_t tile_tokens;

  TileBatch At(int64_t done, int64_t begin) const {
    const int64_t last = n_tokens - tile_tokens;
    return {.done = done,
            .first = done < last ? done : last,
            .begin = begin,
            .end = last_step - begin < kSteps ? last_step : begin + kSteps};
  }

  bool IsFirstOfTile(const TileBatch& batch) const { return batch.begin == first_step; }
  bool IsLastOfTile(const TileBatch& batch) const { return batch.end == last_step; }
  bool IsEnd(const TileBatch& batch) const { return batch.done >= n_tokens; }

  TileBatch First() const { return At(0, first_step); }
  TileBatch After(const TileBatch& batch) const {
    return IsLastOfTile(batch) ? At(batch.first + tile_tokens, first_step)
                               : At(batch.done, batch.end);
  }
};

// The first token, within a tile, of a run: two runs cover a tile, overlapping where it has fewer
// than 16 tokens. Tokens of both are added up twice, apart from each other.
[[gnu::always_inline]] inline int64_t FirstOfRun(int run, int64_t tile_tokens) {
  return run == 0 ? 0 : tile_tokens - kRunTokens;
}

// Whether all tokens of a run are done.
[[gnu::always_inline]] inline bool IsRunDone(const TileBatch& batch, int run, int64_t tile_tokens) {
  return batch.first + FirstOfRun(run, tile_tokens) + kRunTokens <= batch.done;
}

// The sums that the tokens of a run go on from.
template <typename V, int kGroups>
[[gnu::noinline]] void LoadRun(const TileBatch& batch, int64_t first_of_run, bool is_first_segment,
                               const float* out, int64_t out_stride, float* sums) {
  for (int64_t t = 0; t < kRunTokens; ++t) {
    const int64_t token = batch.first + first_of_run + t;
    const bool begins = is_first_segment || token < batch.done;
    for (int64_t row = 0; row < kGroups * kGroupRows; row += V::kLanes) {
      V::StoreFloats(begins ? V::Zero() : V::LoadFloats(out + token * out_stride + row),
                     sums + t * kPanelRows + row);
    }
  }
}

// The products of a group of elements with token t, for the vector of rows from `row` on.
template <typename V, int kGroups>
[[gnu::always_inline]] inline typename V::Ints ProductsOf(const std::byte* products, int64_t group,
                                                          int t, int row) {
  const int64_t tile = group * kGroups + row / kGroupRows;
  return V::Load(products + tile * kProductBytes + t * kProductRowBytes +
                 row % kGroupRows * int64_t{sizeof(int32_t)});
}

template <typename V, int kGroups>
[[gnu::noinline]] void StoreRun(const TileBatch& batch, int64_t first_of_run, const float* sums,
                                float* out, int64_t out_stride) {
  for (int64_t t = 0; t < kRunTokens; ++t) {
    const int64_t token = batch.first + first_of_run + t;
    if (token < batch.done) continue;
    for (int64_t row = 0; row < kGroups * kGroupRows; row += V::kLanes) {
      V::StoreFloats(V::LoadFloats(sums + t * kPanelRows + row), out + token * out_stride + row);
    }
  }
}

// Adds the products of steps [begin, end) to the sums of a run, whose first token is that of `rows`
// and of `products`, and meanwhile makes a share of `next`.
template <typename V, typename Kind, int kGroups, typename Pairs>
[[gnu::always_inline]] inline void AddRun(const TokenRows& rows, int64_t begin, int64_t end,
                                          const std::byte* products, const float* scales,
                                          const float* offsets, float* sums, Pairs& next) {
  using Floats = typename V::Floats;
  constexpr int kHalves = 32 / Kind::kGroup;
  constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;
  Floats total[kVectors][kRunTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kRunTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      total[r][t] = V::LoadFloats(sums + t * kPanelRows + r * V::kLanes);
    }
  }
  // The steps of one scale of the activations: a sum of its own for the time of those.
  int64_t step = begin;
  const auto add_scale = [&]<int kSteps>() {
    // As many pairs as a batch has, over all the scales of its runs.
    for (int i = 0; i < kHalves; ++i) next.MultiplyNext();
    Floats scale[kSteps][kVectors][kHalves];
    Floats offset[kSteps][kVectors][kHalves];
#pragma GCC unroll 2
    for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
#pragma GCC unroll 2
        for (int half = 0; half < kHalves; ++half) {
          const int64_t at = (i * kHalves + half) * kPanelRows + r * V::kLanes;
          scale[i][r][half] = V::LoadFloats(scales + at);
          if constexpr (Kind::kHasOffsets) offset[i][r][half] = V::LoadFloats(offsets + at);
        }
      }
    }
#pragma GCC unroll 8
    for (int t = 0; t < kRunTokens; ++t) {
      const Floats token_scale = V::Broadcast(rows.Scale(t, step));
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        const int row = r * V::kLanes;
        Floats unscaled = V::Zero();
#pragma GCC unroll 2
        for (int i = 0; i < kSteps; ++i) {
#pragma GCC unroll 2
          for (int half = 0; half < kHalves; ++half) {
            const typename V::Ints sum =
                ProductsOf<V, kGroups>(products, i * kHalves + half, t, row);
            unscaled = AddGroup<V, Kind::kGroup, Kind::kHasOffsets>(
                unscaled, sum, scale[i][r][half], offset[i][r][half], rows, t,
                kHalves * (step + i) + half);
          }
        }
        total[r][t] = V::MultiplyAdd(unscaled, token_scale, total[r][t]);
      }
    }
    step += kSteps;
    products += kSteps * kHalves * kGroups * kProductBytes;
    scales += kSteps * kHalves * kPanelRows;
    offsets += kSteps * kHalves * kPanelRows;
  };
  while (step + kStepsOfScale <= end) add_scale.template operator()<kStepsOfScale>();
  if (step < end) add_scale.template operator()<1>();
#pragma GCC unroll 8
  for (int t = 0; t < kRunTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      V::StoreFloats(total[r][t], sums + t * kPanelRows + r * V::kLanes);
    }
  }
}

// The same in whole numbers: adds the products to `whole`, and at the end of a block of 256 those
// to the sums. `group` is the first of the steps, within the segment.
template <typename V, typename Kind, int kGroups, typename Pairs>
[[gnu::always_inline]] inline void AddWholeRun(const TokenRows& rows, int64_t end,
                                               const std::byte* products, const Panel& panel,
                                               int64_t group, std::byte* whole, float* sums,
                                               Pairs& next) {
  using Ints = typename V::Ints;
  constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;
  constexpr int64_t kGroupsOfWideBlock = kWideActivationBlock / Kind::kGroup;
  static_assert(kGroupsOfWideBlock % kBatchPairs == 0);
  const auto place = [](int t, int r) { return t * kPanelRows + r * V::kLanes; };
  Ints sum[kVectors][kRunTokens];
#pragma GCC unroll 8
  for (int t = 0; t < kRunTokens; ++t) {
#pragma GCC unroll 4
    for (int r = 0; r < kVectors; ++r) {
      sum[r][t] =
          group % kGroupsOfWideBlock == 0 ? V::Broadcast(0) : V::Load(whole + 4 * place(t, r));
    }
  }
  // Each of the runs makes one pair in two of the next batch.
  for (int i = 0; i < kBatchPairs; i += kRuns) {
    next.MultiplyNext();
#pragma GCC unroll 2
    for (int j = i; j < i + kRuns; ++j) {
      Ints scale[kVectors];
#pragma GCC unroll 4
      for (int r = 0; r < kVectors; ++r) {
        scale[r] = V::Load(panel.whole_scales + 4 * ((group + j) * kPanelRows + r * V::kLanes));
      }
#pragma GCC unroll 8
      for (int t = 0; t < kRunTokens; ++t) {
#pragma GCC unroll 4
        for (int r = 0; r < kVectors; ++r) {
          sum[r][t] = V::AddScaled(sum[r][t], ProductsOf<V, kGroups>(products, j, t, r * V::kLanes),
                                   scale[r]);
        }
      }
    }
  }
  const bool ends_block = (group + kBatchPairs) % kGroupsOfWideBlock == 0;
  const int64_t block = group / kGroupsOfWideBlock;
#pragma GCC unroll 4
  for (int r = 0; r < kVectors; ++r) {
    const int64_t row = r * V::kLanes;
    if (!ends_block) {
#pragma GCC unroll 8
      for (int t = 0; t < kRunTokens; ++t) V::Store(sum[r][t], whole + 4 * place(t, r));
      continue;
    }
    const Term<V> of_block = BlockTermOfPanel<V, Kind>(panel, block, row);
#pragma GCC unroll 8
    for (int t = 0; t < kRunTokens; ++t) {
      const auto total = AddBlock<V, Kind>(
          V::LoadFloats(sums + place(t, r)), sum[r][t], of_block,
          [&](int pair) { return MinimaOfPanel<V, Kind>(panel, block, pair, row); }, rows, t,
          end - kWideActivationBlock / kStep);
      V::StoreFloats(total, sums + place(t, r));
    }
  }
}

// A segment of kGroups groups of rows times all tokens.
template <typename V, typename Tiles, typename Kind, int kGroups>
[[gnu::noinline]] void MultiplySegmentByTiles(const PanelSegment& segment,
                                              const Activations& activations, int64_t tile_tokens,
                                              float* out, int64_t out_stride,
                                              TileScratch& scratch) {
  using Pairs = TilePairs<Tiles, Kind::kGroup, kGroups>;
  constexpr int64_t kHalves = 32 / Kind::kGroup;
  const Panel& panel = segment.panel;
  const TileBatches<Kind> batches{segment.begin / kStep, segment.end / kStep, activations.n_tokens,
                                  tile_tokens};
  const auto pairs_of = [&](const TileBatch& batch, std::byte* products) {
    if (batches.IsEnd(batch))
      return Pairs{
          .quants = nullptr, .token_bytes = 0, .lines = nullptr, .products = nullptr, .left = 0};
    const int64_t step = batch.begin - batches.first_step;
    return Pairs{.quants = activations.quants + batch.first * activations.k + kStep * batch.begin,
                 .token_bytes = activations.k,
                 .lines = panel.lines + step * (kStep / 4) * kPanelLineBytes,
                 .products = products,
                 .left = static_cast<int>((batch.end - batch.begin) * kHalves)};
  };

  TileBatch batch = batches.First();
  pairs_of(batch, scratch.products[0]).Finish();
  for (int buffer = 0; !batches.IsEnd(batch); buffer = 1 - buffer) {
    const TileBatch next = batches.After(batch);
    Pairs pairs = pairs_of(next, scratch.products[1 - buffer]);
    const int64_t group = (batch.begin - batches.first_step) * kHalves;
    // All before the first run goes back to `out`: two may share tokens.
    if (batches.IsFirstOfTile(batch)) {
      for (int run = 0; run < kRuns; ++run) {
        LoadRun<V, kGroups>(batch, FirstOfRun(run, tile_tokens), segment.begin == 0, out,
                            out_stride, scratch.sums[run]);
      }
    }
    for (int run = 0; run < kRuns; ++run) {
      if (IsRunDone(batch, run, tile_tokens)) continue;
      const int64_t first = FirstOfRun(run, tile_tokens);
      const TokenRows rows(activations, batch.first + first);
      const std::byte* products = scratch.products[buffer] + first * kProductRowBytes;
      if constexpr (IsWhole<Kind>) {
        AddWholeRun<V, Kind, kGroups>(rows, batch.end, products, panel, group, scratch.whole[run],
                                      scratch.sums[run], pairs);
      } else {
        const int64_t at = group * kPanelRows;
        AddRun<V, Kind, kGroups>(rows, batch.begin, batch.end, products, panel.scales + at,
                                 panel.offsets + at, scratch.sums[run], pairs);
      }
      if (batches.IsLastOfTile(batch)) {
        StoreRun<V, kGroups>(batch, first, scratch.sums[run], out, out_stride);
      }
    }
    pairs.Finish();
    if (batches.IsLastOfTile(batch)) {
      constexpr int kVectors = kGroups * static_cast<int>(kGroupRows) / V::kLanes;
      AddPanelOutliers<V, Kind, kVectors>(segment, 0, TokenRows(activations, 0), batch.done,
                                          batch.first + tile_tokens, out, out_stride);
    }
    batch = next;
  }
}

inline TileConfiguration ConfigurationOf(int64_t tile_tokens, int group) {
  TileConfiguration configuration = {};
  configuration.palette = 1;
  for (int tile = 0; tile < kTiles; ++tile) {
    const bool is_activations = tile < kWeightTiles;
    const bool is_weights = !is_activations && tile < kProductTiles;
    configuration.rows[tile] = static_cast<uint8_t>(is_weights ? group / 4 : tile_tokens);
    configuration.row_bytes[tile] = static_cast<uint16_t>(is_activations ? group : kLineBytes);
  }
  return configuration;
}

template <typename V, typename Tiles, typename F>
void MultiplyGroupsByTiles(const std::byte* groups, int64_t n_groups,
                           const Activations& activations, float* out, int64_t out_stride,
                           std::byte* scratch) {
  if constexpr (HasSumsOfHalves<F>() && !IsWhole<F>) {
    if (activations.is_wide) {
      return MultiplyGroupsByTiles<V, Tiles, InWholeNumbers<F>>(groups, n_groups, activations, out,
                                                                out_stride, scratch);
    }
  }
  using Lanes = SignedPanelLanes<V>;
  using Kind = LikeFormat<PanelKind<8, F::kGroup, F::kHasOffsets>, F>;
  const int64_t tile_tokens =
      activations.n_tokens < kTokensOfTile ? activations.n_tokens : kTokensOfTile;
  auto& of_tiles = *reinterpret_cast<TileScratch*>(scratch + kPanelBytes);
  const TileConfiguration configuration = ConfigurationOf(tile_tokens, F::kGroup);
  Tiles::Configure(configuration);
  ForEachSegment<Lanes, F, 0>(
      groups, n_groups, activations.k, scratch,
      [&](const PanelSegment& segment, int64_t first_row, int64_t n_rows) {
        if (n_rows == kPanelRows) {
          MultiplySegmentByTiles<Lanes, Tiles, Kind, 2>(segment, activations, tile_tokens,
                                                        out + first_row, out_stride, of_tiles);
        } else {
          MultiplySegmentByTiles<Lanes, Tiles, Kind, 1>(segment, activations, tile_tokens,
                                                        out + first_row, out_stride, of_tiles);
        }
      });
  Tiles::Release();
}

// Whether MultiplyPackedByTiles multiplies this many tokens with weights of this type.
inline bool IsMultipliedByTiles(ElementType type, int64_t n_tokens) {
  return Info(type).is_quantized && n_tokens >= kFewestTileTokens;
}

// Whole groups of packed rows. IsMultipliedByTiles must hold.
template <typename V, typename Tiles>
void MultiplyPackedByTiles(ElementType type, const std::byte* groups, int64_t n_groups,
                           const Activations& a, float* out, int64_t out_stride,
                           std::byte* scratch) {
  VisitFormat(type, [&]<typename F>() {
    MultiplyGroupsByTiles<V, Tiles, F>(groups, n_groups, a, out, out_stride, scratch);
  });
}

}  // namespace
}  // namespace thaw
