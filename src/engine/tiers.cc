#include "engine/tiers.h"

#include <algorithm>

#include "base/check.h"

namespace thaw {
namespace {

// Rates that are measured differ by this much from one time to the next.
constexpr double kNoise = 1.05;

bool IsFasterThawed(const MachineRates& rates, ElementType type) {
  const MatMulRate* thawed = rates.FindMatMul(type);
  const MatMulRate* coded = rates.FindMatMul(WeightForm(type, /*coded=*/true));
  THAW_CHECK(thawed != nullptr && coded != nullptr);
  return thawed->decode_bytes_per_second > kNoise * coded->decode_bytes_per_second;
}

}  // namespace

Result<Tier> FindTier(std::string_view name) {
  if (name == "auto") return Tier::kAuto;
  if (name == "coded") return Tier::kCoded;
  if (name == "thawed") return Tier::kThawed;
  return Fail(ErrorCode::kInvalidArgument, "there is no tier '{}'; there are: auto, coded, thawed",
              name);
}

std::vector<WeightForm> FormsOfFrozen(std::span<const WeightMatrix> matrices) {
  std::vector<WeightForm> forms;
  for (const WeightMatrix& matrix : matrices) {
    for (const bool is_coded : {false, true}) {
      const WeightForm form(matrix.type, is_coded);
      if (matrix.is_frozen() && std::ranges::find(forms, form) == forms.end()) {
        forms.push_back(form);
      }
    }
  }
  return forms;
}

bool MarkFasterThawed(const MachineRates& rates, std::vector<WeightMatrix>& matrices) {
  for (WeightMatrix& matrix : matrices) {
    const bool is_faster = matrix.is_frozen() && IsFasterThawed(rates, matrix.type);
    matrix.form = is_faster ? FrozenForm::kEither : FrozenForm::kCoded;
  }
  return std::ranges::any_of(matrices, &WeightMatrix::changes_form);
}

void ThawWhatFits(TileMap& map, FunctionRef<bool()> fits) {
  int32_t all = 0;
  for (int32_t tile = 0; tile < map.tile_count(); ++tile) all += map.changes_form(tile) ? 1 : 0;
  const auto thaw_first = [&](int32_t n) { map.SetThawed([&](int32_t) { return n-- > 0; }); };
  int32_t most = 0;            // that are known to fit
  int32_t too_many = all + 1;  // that are known not to
  while (too_many - most > 1) {
    // All of them first: that is what most have memory for, or next to none.
    const int32_t n = too_many > all ? all : most + (too_many - most) / 2;
    thaw_first(n);
    (fits() ? most : too_many) = n;
  }
  thaw_first(most);
}

}  // namespace thaw
