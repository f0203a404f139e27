// The search for the integers of a group of 16 rows that keep to the trellis of docs/format.md,
// section 5, at the least cost: Viterbi's, over the 64 lanes of the group side by side.
//
// The states are z(t - 1), z(t), z(t + 1), as 4 z(t - 1) + 2 z(t) + z(t + 1): all that the trellis
// knows before m(t) is chosen. The lowest bit of m(t) chooses z(t + 2), and with z(t) says which of
// the four residues modulo 4 the integer q(t) has. So a number has four integers to choose from, of
// which a state allows two, and which they are is looked up by where the weight lies.
//
// Costs: 8 ns a weight with vectors of 4 floats (trellis_quantizer_bench.cc); 2 bytes of memory for
// each weight of a group.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/alphabet.h"
#include "codec/frozen_format.h"

namespace thaw {

// Targets are weights divided by the scale of their block; what is beyond this counts as this.
inline constexpr float kTrellisMaxTarget = 128;

// What integers cost beside their error: lambda * bits(m), in units of the scale squared.
class TrellisCosts {
 public:
  TrellisCosts() = default;
  // `bits`: of each number m, kFrozenLeastNumber first.
  TrellisCosts(std::span<const double, kFrozenNumbers> bits, double lambda);

 private:
  friend class TrellisSearch;

  // Targets are looked up in cells of a quarter. With 1 and 1/16 bits and errors of Gaussian
  // weights agree to four digits: integers at the edge of a window are seldom taken.
  static constexpr int kCellsOfUnit = 4;
  static constexpr int kCells = 2 * kCellsOfUnit * static_cast<int>(kTrellisMaxTarget) + 1;
  static constexpr int kWindows = 253;  // four integers each, the first from -128 to 124
  static constexpr int kFirstWindow = -128;

  std::array<int16_t, kCells> window_ = {};  // the first integer of the four, by cell
  // Of the window's integers, by their residues modulo 4.
  alignas(16) std::array<std::array<float, 4>, kWindows> costs_ = {};
};

// Working memory for groups of `cols` columns; for one thread.
class TrellisSearch {
 public:
  explicit TrellisSearch(int64_t cols);

  // The integers q [16, cols] that minimise the sum of column weight * (target - q)^2 + cost(q),
  // with the targets weights [16, cols] * reciprocals [16, blocks]. `column_weights`: [cols].
  void Search(std::span<const float> weights, std::span<const float> reciprocals,
              std::span<const float> column_weights, const TrellisCosts& costs,
              std::span<int8_t> q);

 private:
  struct Step;
  void Walk(std::span<int8_t> q, const std::array<float, 8 * kFrozenLanes>& ends) const;

  int64_t cols_;
  // By lanes, for each vector: the integers to choose from, and where each state came from (bit s:
  // z(t - 1) of the path that reaches state s).
  std::vector<int8_t> windows_;
  std::vector<uint8_t> origins_;
};

}  // namespace thaw
