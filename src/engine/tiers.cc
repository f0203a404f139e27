#include "engine/tiers.h"

#include <algorithm>

#include "base/check.h"

namespace thaw {
namespace {

// Rates that are measured differ by this much from one time to the next.
constexpr double kNoise = 1.05;

WeightForm CodedForm(const WeightMatrix& matrix) { return {matrix.type, matrix.is_frozen()}; }

// Rows a second that one token is multiplied with.
double RowRate(const MachineRates& rates, const WeightForm& form, int64_t cols) {
  const MatMulRate* rate = rates.FindMatMul(form);
  THAW_CHECK(rate != nullptr);
  return rate->decode_bytes_per_second / static_cast<double>(RowBytes(form.type, cols));
}

bool IsFasterThawed(const MachineRates& rates, const WeightMatrix& matrix) {
  return RowRate(rates, matrix.thawed_type(), matrix.cols) >
         kNoise * RowRate(rates, CodedForm(matrix), matrix.cols);
}

}  // namespace

Result<Tier> FindTier(std::string_view name) {
  if (name == "auto") return Tier::kAuto;
  if (name == "coded") return Tier::kCoded;
  if (name == "thawed") return Tier::kThawed;
  return Fail(ErrorCode::kInvalidArgument, "there is no tier '{}'; there are: auto, coded, thawed",
              name);
}

std::vector<WeightForm> FormsToChooseFrom(std::span<const WeightMatrix> matrices) {
  std::vector<WeightForm> forms;
  for (const WeightMatrix& matrix : matrices) {
    if (!matrix.has_forms()) continue;
    for (const WeightForm& form : {WeightForm(matrix.thawed_type()), CodedForm(matrix)}) {
      if (std::ranges::find(forms, form) == forms.end()) forms.push_back(form);
    }
  }
  return forms;
}

bool MarkFasterThawed(const MachineRates& rates, std::vector<WeightMatrix>& matrices) {
  for (WeightMatrix& matrix : matrices) {
    const bool is_faster = matrix.has_forms() && IsFasterThawed(rates, matrix);
    matrix.form = is_faster ? TileForm::kEither : TileForm::kCoded;
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
