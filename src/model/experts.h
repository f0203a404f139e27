// Which experts of a layer a token goes through, and with what weight.
//
// Pure functions of a token's router logits, so the choice depends on nothing else. Ties go to the
// expert of the lower index.
#pragma once

#include <cstdint>
#include <span>

namespace thaw {

// How the weights of experts come from their logits; numbered as expert_gating_func in GGUF.
enum class Gating : uint8_t {
  kSoftmax = 1,          // of the logits of all experts
  kSigmoid = 2,          // of each logit alone
  kSoftmaxOfChosen = 3,  // of the logits of those that are chosen, which are the largest
};

// The experts of a model's layers.
struct ExpertConfig {
  int64_t n = 0;       // of a layer
  int64_t n_used = 0;  // by a token
  int64_t width = 0;   // of what an expert reads and writes: d_model, or that of a latent stream
  int64_t d_ff = 0;    // hidden width of each
  // One matrix has, for each expert, the rows of gate and then those of up.
  bool joins_gate_up = false;
  int64_t shared_d_ff = 0;  // of the block that all tokens go through beside them; 0: none
  Gating gating = Gating::kSoftmax;
  bool renormalizes = false;  // weights are divided by their sum
  float weight_scale = 1;     // and multiplied by this
  // Experts stand in groups of as many; only those of the best groups can be chosen.
  int64_t n_groups = 1;
  int64_t n_groups_used = 1;

  // Numbers that a token's `up` takes, with those of the gate where they are joined.
  int64_t up_width() const { return joins_gate_up ? 2 * d_ff : d_ff; }
};

struct ExpertChoice {
  int32_t expert = 0;
  float weight = 0;
};

// 1 / (1 + e^-x)
float Sigmoid(float x);

// Chooses config.n_used different experts into `chosen`, the lowest index first. `logits` [n] and
// `scratch` [n] are overwritten. `bias` [n], or empty, is added to weights for the choice alone. A
// group is worth the sum of its two best.
void ChooseExperts(const ExpertConfig& config, std::span<float> logits, std::span<const float> bias,
                   std::span<float> scratch, std::span<ExpertChoice> chosen);

}  // namespace thaw
