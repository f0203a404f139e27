// The shape of a model: what its file's metadata says of it, checked.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "gguf/gguf_file.h"
#include "kernels/attention.h"
#include "kernels/rope.h"
#include "model/family.h"
#include "model/indexer.h"
#include "model/recurrence.h"

namespace thaw {

// The heads of a layer's attention.
struct HeadShape {
  int64_t n = 0;       // of queries; 0: the layer has no attention
  int64_t n_kv = 0;    // of keys and values; n is a multiple
  int64_t size = 0;    // of queries and keys
  int64_t v_size = 0;  // of values

  int64_t group() const { return n / n_kv; }
  int64_t q_width() const { return n * size; }
  int64_t k_width() const { return n_kv * size; }
  int64_t v_width() const { return n_kv * v_size; }
  int64_t out_width() const { return n * v_size; }
};

// What one layer does unlike others.
struct LayerConfig {
  HeadShape heads = {};
  int64_t kv_layer = -1;  // whose keys and values this layer sees; -1: its own
  Window window = {};
  int rope = 0;      // which of ModelConfig::ropes turns its heads, or kNoRope
  int64_t d_ff = 0;  // hidden width of the dense block; 0: none
  // Its gates count from so many standard deviations above their mean; -infinity: as they are.
  float gate_cutoff = -std::numeric_limits<float>::infinity();
  Activation activation = {};  // of the block that all tokens go through
  Activation expert_activation = {};
  bool has_experts = false;
  bool recurs = false;     // has a recurrent block, beside its attention where it has both
  bool is_latent = false;  // its attention is of latents
  // Of the keys by which it chooses keys (IndexerConfig). Layers that have none, in a model that
  // chooses, take the choice of the layer before.
  int64_t index_key_size = 0;
  bool has_temperature = true;  // queries are scaled by position, where the model does that

  bool has_block() const { return d_ff != 0 || has_experts; }  // a feed-forward one
};

inline constexpr int kNoRope = -1;

// Latent attention: what a position keeps is a vector of `rank` numbers, of which the keys and
// values of all heads are made, and one key part that turns and that all heads share.
//
// Absorbed, the matrix that makes keys is applied to the queries and the one that makes values to
// what attention gives: attention then runs over one KV head whose key is the latent and the
// turning part, and whose value is the latent. Else keys and values of each head are made and kept.
struct LatentConfig {
  int64_t rank = 0;        // 0: no layer has it
  int64_t q_rank = 0;      // of the latent that queries are made of; 0: they are made of the stream
  int64_t key_size = 0;    // of a head, its last rope_dim numbers turn
  int64_t value_size = 0;  // of a head
  int64_t rope_dim = 0;
  bool is_absorbed = false;

  int64_t still_size() const { return key_size - rope_dim; }
};

// Of residual streams. Models have 4; how each of 8 is mixed of all are 64 numbers on the stack.
inline constexpr int64_t kMaxStreams = 8;

struct ModelConfig {
  const Family* family = nullptr;
  std::string name;  // general.name, for people; may be empty
  int64_t n_layers = 0;
  int64_t n_unused_layers = 0;  // in the file after those: they predict further tokens
  int64_t d_model = 0;
  int64_t n_vocab = 0;         // rows of the embedding
  int64_t context_length = 0;  // trained for, scaling included
  float norm_epsilon = 0;
  bool is_parallel = false;  // feed-forward blocks read the stream as attention read it

  // The frequency factors come with the weights. None where nothing turns.
  std::vector<RopeConfig> ropes;
  // Frequency factors of the first rope for sessions longer than its original context, or none.
  std::vector<float> long_frequency_factors;
  std::vector<LayerConfig> layers;  // [n_layers]
  ExpertConfig experts;             // of the layers that have them; n is 0 where none has
  RecurrenceConfig recurrence;      // of the layers that recur
  LatentConfig latent;              // likewise; heads are those that attention runs over
  IndexerConfig indexer;            // of the layers with latent attention

  float attention_scale = 1;     // of scores
  float attention_soft_cap = 0;  // c of c tanh(score / c); 0: none
  float final_soft_cap = 0;      // of logits, likewise
  int64_t layer_embedding = 0;   // width of what each layer has of a token; 0: nothing
  int64_t n_streams = 1;         // blocks read and add to the first, at most kMaxStreams
  int64_t laurel_rank = 0;       // of the low-rank block beside attention; 0: none
  float value_scale = 1;         // of what attention adds
  float qkv_clamp = 0;           // queries, keys and values are kept within +-this; 0: as is
  float slope_bias = 0;          // slopes of n heads begin with 2^(-bias / n); 0: there are none
  float temperature_scale = 0;   // s: queries times 1 + s ln(1 + floor(position / interval))
  int64_t temperature_interval = 0;
  int64_t temperature_offset = 0;  // added to the position
  float embedding_scale = 1;       // of embeddings
  float residual_scale = 1;        // of what a block adds
  float logit_scale = 1;           // of logits

  // The largest that a layer has of some size.
  int64_t Most(FunctionRef<int64_t(const LayerConfig& layer)> size) const;
  // Hidden width of the widest block that all tokens go through.
  int64_t widest_block() const;
  bool gates_attention() const {
    return family->attention_gate != AttentionGate::kNone || family->joins_query_gates;
  }
  // Of the first layer that has attention; of no heads where none has.
  HeadShape first_heads() const;
  // Of the rope that turns the most of a head; 0 without ropes.
  int64_t most_rope_dim() const;
};

// Frequency factors of the rope for sessions longer than the original context, and for others.
inline constexpr const char* kLongFactors = "rope_factors_long.weight";
inline constexpr const char* kShortFactors = "rope_factors_short.weight";

// Reads the metadata. kUnsupported for an architecture or a feature that Thaw does not run, with
// the list of those it does; kCorrupt for metadata that is missing or contradicts itself.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace thaw
