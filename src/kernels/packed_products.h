// Products of packed rows (tensor/packed_rows.h) with activations, over the vectors V of an
// instruction set (*/lanes_*.h) and the formats of all_formats.h. What V has to have is what
// x86/lanes_avx512.h has, but for short_products.h, which is for those that have it; the constants:
//   kLanes          rows of a vector: 4, 8 or 16
//   kSignedBytes    weights of 8 bits are multiplied as signed bytes; kSignedPanels: in a panel too
//   kWidensBytes    numbers of 8 bits are 16 bits in a panel (WidenLine, DotWidenedTile)
//   kWidthsAlike    numbers of all widths are multiplied in the same way, without overflow
//   kTakesLinesInTurn   a few tokens are multiplied line by line; kHalvesLines: to two sums each
//   kTakesHighNibbles   high nibbles are multiplied as 16 times the numbers
//   OctetVectors    few tokens take the signs of a grid's magnitudes; absent: the weights do
//   kPairsLines     a panel's lines are kept in pairs; kPairsSums: whole sums are scaled in pairs
//   kScalesHalves   sums of products come as halves and are scaled so (AddScaledDot, AddScaledTile)
//   kScalesWords    AddScaled (without kPairsSums) takes a scale as a word, not its lower half
//   k*TileTokens, kTileVectors, kDirectTokens, kMostBatches, kMostPlainTokens   see there
//   AsksAhead*(), kAheadBytes*, kMostTokensInOrder   whether memory is to be asked for all weights,
//       into L1, or L2 if quantized; how far ahead; for how many tokens lines are in order (0016)
//   AsksInTurn()    so, but lines of several pages in turn (lines_in_turn.h)
//
// A few tokens are multiplied directly (direct_products.h), many by panels (panel_products.h).
// Either way one (row, token) goes through the same operations in the same order: the integer sums
// of the steps that share a scale of the activations, each times the scale of the weights, then the
// offsets, are added up; that sum times the scale of the activations is added to the whole; and
// after every kSegment elements the outliers among them. That is what row invariance rests on.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/activations.h"
#include "kernels/direct_products.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"
#include "kernels/panel_products.h"
#include "kernels/plain_products.h"
#include "kernels/short_products.h"
#include "tensor/element_type.h"

namespace thaw {
namespace {

// In full batches, and the rest at once: each batch after the first leaves memory idle.
template <typename V, typename F>
void MultiplyDirectly(const std::byte* group, const Activations& activations, float* out,
                      int64_t out_stride) {
  constexpr int kBatch = std::min(V::kDirectTokens, MostDirectTokens<V, F>());
  int64_t token = 0;
  const auto multiply = [&]<int kLess>() {
    constexpr int kTokens = kBatch - kLess;
    for (; token + kTokens <= activations.n_tokens; token += kTokens) {
      MultiplyGroup<V, F, kTokens>(group, TokenRows(activations, token), out + token * out_stride,
                                   out_stride);
    }
  };
  ForEachOf(std::make_integer_sequence<int, kBatch>(), multiply);
}

template <typename V, typename F>
void MultiplyGroups(const std::byte* groups, int64_t n_groups, const Activations& activations,
                    float* out, int64_t out_stride, std::byte* scratch) {
  if constexpr (HasWholeTerms<F> && !IsWhole<F>) {
    if (activations.copy == ActivationCopy::kWide) {
      return MultiplyGroups<V, InWholeNumbers<F>>(groups, n_groups, activations, out, out_stride,
                                                  scratch);
    }
  }
  const int64_t k = activations.k;
  if (activations.n_tokens <= MostDirectTokens<V, F>()) {
    const int64_t group_bytes = kGroupRows * (k / F::kBlock) * kBlockBytes<F>;
    for (int64_t g = 0; g < n_groups; ++g) {
      MultiplyDirectly<V, F>(groups + g * group_bytes, activations, out + g * kGroupRows,
                             out_stride);
    }
    return;
  }
  static_assert(kTokensOfTile<V, PanelKindOf<V, F>> <= MostDirectTokens<V, F>() + 1);
  constexpr int kZero = kPanelZeroOf<V, F>;
  const Panel panel(scratch);
  ForEachSegment<kGroupsOf<F>>(
      groups, n_groups, k,
      [&](const std::byte* group, int64_t begin, int64_t end, int64_t row) {
        FillPanel<V, F, kZero, kElementsOfLine<V, F>>(group, k, begin, end, row, panel);
      },
      [&](int64_t begin, int64_t end, int64_t first_row, int64_t n_rows, UnpackedNext next) {
        MultiplySegment<V, PanelKindOf<V, F>>(PanelSegment{panel, begin, end, kZero, nullptr},
                                              n_rows, activations, out + first_row, out_stride,
                                              next);
      });
}

// Whole groups of packed rows of any packable type.
template <typename V>
void MultiplyPackedGroups(ElementType type, const std::byte* groups, int64_t n_groups,
                          const Activations& a, float* out, int64_t out_stride,
                          std::byte* scratch) {
  switch (type) {
    case ElementType::kF32:
      return MultiplyPlainGroups<V, Plain::kF32>(groups, n_groups, a, out, out_stride, scratch);
    case ElementType::kF16:
      if constexpr (MultipliesShorts<V>) {
        if (a.shorts != nullptr) {
          return MultiplyShortGroups<V>(groups, n_groups, a, out, out_stride, scratch);
        }
      }
      return MultiplyPlainGroups<V, Plain::kF16>(groups, n_groups, a, out, out_stride, scratch);
    case ElementType::kBF16:
      return MultiplyPlainGroups<V, Plain::kBF16>(groups, n_groups, a, out, out_stride, scratch);
    default:
      return VisitFormat(type, [&]<typename F>() {
        MultiplyGroups<V, F>(groups, n_groups, a, out, out_stride, scratch);
      });
  }
}

}  // namespace
}  // namespace thaw
