// How weights are held in memory that have two forms, frozen ones and points of grids: coded as in
// the file, or thawed where there is room and that is faster.
//
// Either way the same products come out, bit for bit. Coded weights take less memory and less of
// what memory delivers; thawed ones need no decoding, or looking up, in every product.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/machine_rates.h"
#include "residency/tile_map.h"

namespace thaw {

// How the user wants them held.
enum class Tier {
  kAuto,    // thawed as far as everything has its place then, where that is the faster
  kCoded,   // and decoded, or looked up, within each product
  kThawed,  // when they are read
};

// "auto", "coded", "thawed"; kInvalidArgument for another name.
Result<Tier> FindTier(std::string_view name);

// The forms whose rates tell for these matrices: coded and thawed, of each kind that is there.
std::vector<WeightForm> FormsToChooseFrom(std::span<const WeightMatrix> matrices);

// Marks the matrices (TileForm::kEither, else kCoded) that one token is multiplied with faster when
// they are thawed; `rates` must know FormsToChooseFrom. True when there is any.
bool MarkFasterThawed(const MachineRates& rates, std::vector<WeightMatrix>& matrices);

// Holds as many tiles of the marked matrices thawed as `fits` allows, in the order of their visits,
// the others coded. `fits` is asked for some numbers of tiles, with those held so in `map`, first
// for all; not for more than what has failed, nor for less than what did fit.
void ThawWhatFits(TileMap& map, FunctionRef<bool()> fits);

}  // namespace thaw
