// Rotary position embedding: which angle each pair of a head's numbers is turned by.
//
// RopeAngles holds the frequencies of one model, computed once in double precision. For a position
// it yields a row of cosines and sines that serves every head of every layer; KernelTable::rope
// applies the row. Immutable after creation, so any thread may use it.
//
// The frequency of pair i is base^(-2i/dim), divided by the file's factor for that pair where it
// has any (llama-3), and then scaled:
//   linear: divided by `factor`.
//   YaRN (Peng et al., 2023, "YaRN: Efficient Context Window Extension", as llama.cpp's
//   ggml_rope_yarn_corr_dims and rope_yarn compute it): pairs that turn more than beta_fast times
//   within the original context keep their frequency, those that turn less than beta_slow times are
//   divided by `factor`, and a linear ramp lies between. See rope.cc.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"

namespace thaw {

enum class RopeScalingKind { kNone, kLinear, kYarn };

struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kNone;
  float factor = 1;                // how many times longer the context became
  float attention_factor = 1;      // multiplies every cosine and sine, whatever the kind
  int64_t original_context = 0;    // YaRN: the context of pre-training
  float beta_fast = 32;            // YaRN
  float beta_slow = 1;             // YaRN
  float extrapolation_factor = 1;  // YaRN: strength of the ramp; 0 makes it linear scaling
  float yarn_multiplier = 1;       // YaRN: mscale of DeepSeek's configurations
  float yarn_log_multiplier = 0;   // YaRN: mscale_all_dim of DeepSeek's configurations
};

// YaRN's factor on scores where only part of a head turns, so that cosines and sines cannot carry
// it: the square of what they are multiplied with and of mscale_all_dim's magnitude. 1 of others.
double ScoreFactor(const RopeScaling& scaling);

struct RopeConfig {
  int64_t rope_dim = 0;  // numbers of a head that turn: even; the rest of the head is left alone
  float freq_base = 10000;
  RopeScaling scaling = {};
  std::vector<float> frequency_factors = {};  // [rope_dim / 2], or empty
};

class RopeAngles {
 public:
  // kInvalidArgument for an odd or non-positive rope_dim, frequency factors of another count, or
  // numbers that are not finite and positive where they must be.
  static Result<RopeAngles> Create(const RopeConfig& config);

  int64_t rope_dim() const { return static_cast<int64_t>(frequencies_.size()) * 2; }

  // Writes rope_dim / 2 cosines and then rope_dim / 2 sines of `position`, both times the
  // magnitude.
  void Fill(int64_t position, float* cos_sin) const;

  // Angle per position of each pair, [rope_dim / 2], and the factor on cosines and sines.
  const std::vector<double>& frequencies() const { return frequencies_; }
  double magnitude() const { return magnitude_; }

 private:
  RopeAngles() = default;

  std::vector<double> frequencies_;
  double magnitude_ = 1;
};

// Which two numbers of a head turn together.
enum class RopePairing {
  kAdjacent,  // 2i and 2i + 1 (llama files; "norm" in llama.cpp)
  kHalves,    // i and i + rope_dim / 2 (qwen and most others; "neox")
};

}  // namespace thaw
