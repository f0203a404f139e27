#include "model/indexer.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/check.h"

namespace thaw {

void ChooseKeys(std::span<float> scores, std::span<int32_t> order, std::span<int32_t> chosen) {
  THAW_CHECK(order.size() == scores.size() && chosen.size() <= scores.size());
  for (float& score : scores) {
    if (std::isnan(score)) score = std::numeric_limits<float>::lowest();
  }
  const auto is_better = [&](int32_t a, int32_t b) {
    const float score_a = scores[static_cast<size_t>(a)];
    const float score_b = scores[static_cast<size_t>(b)];
    return score_a != score_b ? score_a > score_b : a < b;
  };
  std::iota(order.begin(), order.end(), 0);
  const auto end_of_best = order.begin() + std::ssize(chosen);
  std::ranges::nth_element(order, end_of_best, is_better);
  std::copy(order.begin(), end_of_best, chosen.begin());
  std::ranges::sort(chosen);
}

}  // namespace thaw
