// The shape of a model: what its file's metadata says of it, checked.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "kernels/rope.h"
#include "model/family.h"

namespace thaw {

// What one layer does unlike others.
struct LayerConfig {
  int64_t window = 0;  // positions that a token sees, its own the last; 0: all
  int rope = 0;        // which of ModelConfig::ropes turns its heads, or kNoRope
  bool has_experts = false;
  bool has_temperature = true;  // queries are scaled by position, where the model does that
};

inline constexpr int kNoRope = -1;

struct ModelConfig {
  const Family* family = nullptr;
  std::string name;  // general.name, for people; may be empty
  int64_t n_layers = 0;
  int64_t n_unused_layers = 0;  // in the file after those: they predict further tokens
  int64_t d_model = 0;
  int64_t d_ff = 0;  // hidden width of dense blocks; 0: none
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;      // n_heads is a multiple
  int64_t head_dim = 0;        // of queries and keys
  int64_t v_head_dim = 0;      // of values
  int64_t n_vocab = 0;         // rows of the embedding
  int64_t context_length = 0;  // trained for, scaling included
  float norm_epsilon = 0;
  bool is_parallel = false;  // feed-forward blocks read the stream as attention read it

  // All of one rope_dim; the frequency factors come with the weights. None where positions are
  // learned.
  std::vector<RopeConfig> ropes;
  // Frequency factors of the first rope for sessions longer than its original context, or none.
  std::vector<float> long_frequency_factors;
  std::vector<LayerConfig> layers;  // [n_layers]
  ExpertConfig experts;             // of the layers that have them; n is 0 where none has

  float attention_scale = 1;     // of scores
  float attention_soft_cap = 0;  // c of c tanh(score / c); 0: none
  float final_soft_cap = 0;      // of logits, likewise
  float qkv_clamp = 0;           // queries, keys and values are kept within +-this; 0: as is
  float temperature_scale = 0;   // s: queries times 1 + s ln(1 + floor(position / interval))
  int64_t temperature_interval = 0;
  int64_t temperature_offset = 0;  // added to the position
  int64_t most_positions = 0;      // of a session; 0: any number
  float embedding_scale = 1;       // of embeddings
  float residual_scale = 1;        // of what a block adds
  float logit_scale = 1;           // of logits

  int64_t group() const { return n_heads / n_kv_heads; }
  // Hidden width of the widest block that all tokens go through.
  int64_t widest_block() const { return std::max(d_ff, experts.shared_d_ff); }
  int64_t rope_dim() const { return ropes.empty() ? 0 : ropes.front().rope_dim; }
};

// Frequency factors of the rope for sessions longer than the original context, and for others.
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

// Reads the metadata. kUnsupported for an architecture or a feature that Thaw does not run, with
// the list of those it does; kCorrupt for metadata that is missing or contradicts itself.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace thaw
