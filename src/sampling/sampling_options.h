// How the next token is chosen. The fields apply in the order in which they stand here, which is
// llama.cpp's: what is cut off is decided on the model's own distribution, and the temperature then
// flattens or sharpens what is left.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "base/result.h"

namespace thaw {

struct SamplingOptions {
  // Added to the logits of single tokens; -inf bans a token.
  std::vector<std::pair<int32_t, float>> logit_bias = {};

  // Penalties for tokens among the last `repeat_window` accepted ones, prompt included. A window of
  // 0 switches all three off.
  int repeat_window = 64;
  float repeat_penalty = 1;     // > 0; divides positive logits, multiplies negative ones; 1: off
  float frequency_penalty = 0;  // subtracted once for each time the token occurs
  float presence_penalty = 0;   // subtracted once if the token occurs

  int top_k = 40;  // keep the k likeliest; 0: all
  float top_p =
      0.95F;  // keep the likeliest until they hold this share; 1: all; at least one is kept
  float min_p = 0.05F;  // drop what is less likely than this share of the likeliest; 0: none

  float temperature =
      0.8F;           // divides the logits; 0: always the likeliest token, lowest id on a tie
  uint64_t seed = 0;  // equal seeds and equal logits give equal tokens, on every machine
};

// The first option that is not a number, out of its range, or names a token outside of [0,
// n_vocab).
Result<void> Validate(const SamplingOptions& options, int32_t n_vocab);

}  // namespace thaw
