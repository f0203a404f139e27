#include "sampling/sampling_options.h"

#include <cmath>
#include <string_view>

namespace thaw {
namespace {

Result<void> RequireAtLeastZero(std::string_view name, int value) {
  if (value >= 0) return {};
  return Fail(ErrorCode::kInvalidArgument, "sampling: {} must be at least 0, not {}", name, value);
}

Result<void> RequireFinite(std::string_view name, float value) {
  if (std::isfinite(value)) return {};
  return Fail(ErrorCode::kInvalidArgument, "sampling: {} must be a finite number, not {}", name,
              value);
}

Result<void> RequireShare(std::string_view name, float value) {
  if (value >= 0 && value <= 1) return {};
  return Fail(ErrorCode::kInvalidArgument, "sampling: {} must be between 0 and 1, not {}", name,
              value);
}

Result<void> ValidateBias(const std::pair<int32_t, float>& bias, int32_t n_vocab) {
  const auto [token, value] = bias;
  if (token < 0 || token >= n_vocab) {
    return Fail(ErrorCode::kInvalidArgument,
                "sampling: logit bias names token {}, but the vocabulary has {} tokens", token,
                n_vocab);
  }
  if (std::isnan(value) || value == INFINITY) {
    return Fail(ErrorCode::kInvalidArgument,
                "sampling: the logit bias of token {} must be a finite number or -inf, not {}",
                token, value);
  }
  return {};
}

}  // namespace

Result<void> Validate(const SamplingOptions& options, int32_t n_vocab) {
  for (const auto& bias : options.logit_bias) THAW_TRY(ValidateBias(bias, n_vocab));
  THAW_TRY(RequireAtLeastZero("repeat window", options.repeat_window));
  THAW_TRY(RequireFinite("repeat penalty", options.repeat_penalty));
  if (options.repeat_penalty <= 0) {
    return Fail(ErrorCode::kInvalidArgument, "sampling: repeat penalty must be above 0, not {}",
                options.repeat_penalty);
  }
  THAW_TRY(RequireFinite("frequency penalty", options.frequency_penalty));
  THAW_TRY(RequireFinite("presence penalty", options.presence_penalty));
  THAW_TRY(RequireAtLeastZero("top-k", options.top_k));
  THAW_TRY(RequireShare("top-p", options.top_p));
  THAW_TRY(RequireShare("min-p", options.min_p));
  THAW_TRY(RequireFinite("temperature", options.temperature));
  if (options.temperature < 0) {
    return Fail(ErrorCode::kInvalidArgument, "sampling: temperature must be at least 0, not {}",
                options.temperature);
  }
  return {};
}

}  // namespace thaw
