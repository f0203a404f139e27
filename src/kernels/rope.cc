#include "kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace thaw {
namespace {

bool IsPositive(double x) { return std::isfinite(x) && x > 0; }

Result<void> CheckConfig(const RopeConfig& config) {
  const RopeScaling& scaling = config.scaling;
  if (config.rope_dim <= 0 || config.rope_dim % 2 != 0) {
    return Fail(ErrorCode::kInvalidArgument, "rope dimension {}: expected a positive even number",
                config.rope_dim);
  }
  const auto pairs = static_cast<size_t>(config.rope_dim / 2);
  if (!config.frequency_factors.empty() && config.frequency_factors.size() != pairs) {
    return Fail(ErrorCode::kInvalidArgument, "{} rope frequency factors: expected {} or none",
                config.frequency_factors.size(), pairs);
  }
  for (const float factor : config.frequency_factors) {
    if (IsPositive(factor)) continue;
    return Fail(ErrorCode::kInvalidArgument, "rope frequency factor {}: expected more than 0",
                factor);
  }
  if (!IsPositive(config.freq_base)) {
    return Fail(ErrorCode::kInvalidArgument, "rope frequency base {}: expected more than 0",
                config.freq_base);
  }
  if (!IsPositive(scaling.factor) || !std::isfinite(scaling.attention_factor)) {
    return Fail(ErrorCode::kInvalidArgument,
                "rope scaling factor {}, attention factor {}: expected more than 0, finite",
                scaling.factor, scaling.attention_factor);
  }
  if (scaling.kind != RopeScalingKind::kYarn) return {};
  if (scaling.original_context <= 0 || !IsPositive(scaling.beta_fast) ||
      !IsPositive(scaling.beta_slow) || !std::isfinite(scaling.extrapolation_factor) ||
      !std::isfinite(scaling.yarn_log_multiplier) || !std::isfinite(scaling.yarn_multiplier) ||
      config.freq_base == 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "YaRN rope scaling with original context {}, beta {} and {}, extrapolation factor "
                "{}, log multiplier {}, base {}: expected finite numbers, positive context and "
                "betas, a base other than 1",
                scaling.original_context, scaling.beta_fast, scaling.beta_slow,
                scaling.extrapolation_factor, scaling.yarn_log_multiplier, config.freq_base);
  }
  return {};
}

// The pair, as a real number, that turns `rotations` times within the original context: solving
// context * base^(-2i/dim) = 2 pi rotations for i.
double PairThatTurns(double rotations, const RopeConfig& config) {
  const auto context = static_cast<double>(config.scaling.original_context);
  return static_cast<double>(config.rope_dim) *
         std::log(context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(double{config.freq_base}));
}

// The ends of YaRN's ramp, in pairs: before `low` frequencies stay, after `high` they are divided.
struct Ramp {
  double low;
  double high;

  // 1 where the frequency stays, 0 where it is divided. The divisor's floor of 0.001 is
  // llama.cpp's.
  double ShareKept(int64_t pair) const {
    const double y = (static_cast<double>(pair) - low) / std::max(0.001, high - low);
    return 1 - std::clamp(y, 0.0, 1.0);
  }
};

// The bounds are llama.cpp's: whole pairs, at least 0, and at most rope_dim - 1 (not rope_dim / 2).
Ramp YarnRamp(const RopeConfig& config) {
  const auto last = static_cast<double>(config.rope_dim - 1);
  return {std::max(0.0, std::floor(PairThatTurns(config.scaling.beta_fast, config))),
          std::min(last, std::ceil(PairThatTurns(config.scaling.beta_slow, config)))};
}

// YaRN's "mscale": attention logits grow with the logarithm of the factor.
double YarnMagnitude(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 1.0 + 0.1 * multiplier * std::log(factor);
}

// The factor on cosines and sines. llama.cpp's rope multiplies by 1 + 0.1 ln(factor), and its
// context presets an attention factor of m(1) / m(log multiplier) / (1 + 0.1 ln(factor)) times the
// file's; what remains of both is here.
double Magnitude(const RopeScaling& scaling) {
  if (scaling.kind != RopeScalingKind::kYarn || scaling.extrapolation_factor == 0) {
    return scaling.attention_factor;
  }
  return scaling.attention_factor * YarnMagnitude(scaling.factor, scaling.yarn_multiplier) /
         YarnMagnitude(scaling.factor, scaling.yarn_log_multiplier);
}

}  // namespace

double ScoreFactor(const RopeScaling& scaling) {
  if (scaling.kind != RopeScalingKind::kYarn) return 1;
  const double magnitude =
      Magnitude(scaling) * YarnMagnitude(scaling.factor, scaling.yarn_log_multiplier);
  return magnitude * magnitude;
}

Result<RopeAngles> RopeAngles::Create(const RopeConfig& config) {
  THAW_TRY(CheckConfig(config));
  const RopeScaling& scaling = config.scaling;
  const bool is_yarn = scaling.kind == RopeScalingKind::kYarn;
  const double divisor = scaling.kind == RopeScalingKind::kNone ? 1.0 : double{scaling.factor};
  const Ramp ramp = is_yarn ? YarnRamp(config) : Ramp{};

  RopeAngles angles;
  angles.magnitude_ = Magnitude(scaling);
  const auto rope_dim = static_cast<double>(config.rope_dim);
  for (int64_t pair = 0; pair < config.rope_dim / 2; ++pair) {
    double frequency =
        std::pow(double{config.freq_base}, -2 * static_cast<double>(pair) / rope_dim);
    if (!config.frequency_factors.empty()) {
      frequency /= double{config.frequency_factors[static_cast<size_t>(pair)]};
    }
    const double kept = is_yarn ? ramp.ShareKept(pair) * double{scaling.extrapolation_factor} : 0.0;
    angles.frequencies_.push_back(frequency / divisor * (1 - kept) + frequency * kept);
  }
  return angles;
}

void RopeAngles::Fill(int64_t position, float* cos_sin) const {
  const size_t pairs = frequencies_.size();
  for (size_t pair = 0; pair < pairs; ++pair) {
    const double angle = static_cast<double>(position) * frequencies_[pair];
    cos_sin[pair] = static_cast<float>(std::cos(angle) * magnitude_);
    cos_sin[pairs + pair] = static_cast<float>(std::sin(angle) * magnitude_);
  }
}

}  // namespace thaw
