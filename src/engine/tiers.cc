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
    matrix.changes_form = matrix.is_frozen() && IsFasterThawed(rates, matrix.type);
  }
  return std::ranges::any_of(matrices, &WeightMatrix::changes_form);
}

Result<void> ThawWhatFits(std::vector<WeightMatrix>& matrices,
                          FunctionRef<Result<bool>(const std::vector<WeightMatrix>&)> fits) {
  std::vector<size_t> candidates;
  for (size_t i = 0; i < matrices.size(); ++i) {
    if (matrices[i].changes_form) candidates.push_back(i);
  }
  const auto thaw_first = [&](size_t n) {
    for (size_t i = 0; i < candidates.size(); ++i) matrices[candidates[i]].is_thawed = i < n;
  };
  size_t most = 0;                          // that are known to fit
  size_t too_many = candidates.size() + 1;  // that are known not to
  while (too_many - most > 1) {
    // All of them first: that is what most have memory for, or next to none.
    const size_t n = too_many > candidates.size() ? candidates.size() : (most + too_many) / 2;
    thaw_first(n);
    THAW_ASSIGN(const bool do_fit, fits(matrices));
    (do_fit ? most : too_many) = n;
  }
  thaw_first(most);
  return {};
}

}  // namespace thaw
