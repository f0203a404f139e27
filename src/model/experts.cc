#include "model/experts.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace thaw {
namespace {

constexpr float kNever = -std::numeric_limits<float>::infinity();

// A score that is no longer to be had.
constexpr float kTaken = std::numeric_limits<float>::quiet_NaN();

// What a sum of weights is taken for when it is less: the least normal number of 16 bits.
constexpr float kLeastSum = 6.103515625e-5F;

void Softmax(std::span<float> x) {
  const float most = *std::ranges::max_element(x);
  float sum = 0;
  for (float& number : x) {
    number = std::exp(number - most);
    sum += number;
  }
  for (float& number : x) number /= sum;
}

// The index of the best score that is not taken, which is taken now.
size_t TakeBest(std::span<float> scores) {
  size_t best = scores.size();
  for (size_t i = 0; i < scores.size(); ++i) {
    if (std::isnan(scores[i])) continue;
    if (best == scores.size() || scores[i] > scores[best]) best = i;
  }
  scores[best] = kTaken;
  return best;
}

float SumOfTwoBest(std::span<const float> scores) {
  float best = kNever;
  float second = kNever;
  for (const float score : scores) {
    second = std::max(second, std::min(best, score));
    best = std::max(best, score);
  }
  return scores.size() == 1 ? best : best + second;
}

// Makes the scores of all groups but the best ones kNever.
void KeepBestGroups(const ExpertConfig& config, std::span<float> scores) {
  const auto size = static_cast<size_t>(config.n / config.n_groups);
  for (int64_t left_out = config.n_groups - config.n_groups_used; left_out > 0; --left_out) {
    std::span<float> worst;
    float least = 0;
    for (size_t first = 0; first < scores.size(); first += size) {
      const std::span<float> group = scores.subspan(first, size);
      if (group.front() == kNever) continue;
      // Of equal groups the last goes.
      const float worth = SumOfTwoBest(group);
      if (worst.empty() || worth <= least) {
        worst = group;
        least = worth;
      }
    }
    std::ranges::fill(worst, kNever);
  }
}

}  // namespace

float Sigmoid(float x) { return 1 / (1 + std::exp(-x)); }

void ChooseExperts(const ExpertConfig& config, std::span<float> logits, std::span<const float> bias,
                   std::span<float> scratch, std::span<ExpertChoice> chosen) {
  if (config.gating == Gating::kSoftmax) {
    Softmax(logits);
  } else if (config.gating == Gating::kSigmoid) {
    std::ranges::transform(logits, logits.begin(), Sigmoid);
  }
  const std::span<const float> weights = logits;
  for (size_t i = 0; i < scratch.size(); ++i) {
    const float score = bias.empty() ? weights[i] : weights[i] + bias[i];
    // What is no number is chosen last, and makes the result no number where it is chosen.
    scratch[i] = std::isnan(score) ? std::numeric_limits<float>::lowest() : score;
  }
  if (config.n_groups_used < config.n_groups) KeepBestGroups(config, scratch);
  for (ExpertChoice& choice : chosen) choice.expert = static_cast<int32_t>(TakeBest(scratch));
  std::ranges::sort(chosen, {}, &ExpertChoice::expert);

  const std::span<float> of_chosen = scratch.first(chosen.size());
  for (size_t i = 0; i < chosen.size(); ++i) {
    of_chosen[i] = weights[static_cast<size_t>(chosen[i].expert)];
  }
  if (config.gating == Gating::kSoftmaxOfChosen) Softmax(of_chosen);
  float factor = config.weight_scale;
  if (config.renormalizes) {
    float sum = 0;
    for (const float weight : of_chosen) sum += weight;
    factor /= std::max(sum, kLeastSum);
  }
  for (size_t i = 0; i < chosen.size(); ++i) chosen[i].weight = of_chosen[i] * factor;
}

}  // namespace thaw
