// The model families as data: what tells one architecture's forward pass from another's.
//
// There is one forward pass (model/model.h). A family is a row of this table; to add one whose
// operations all exist is to add a row. What a file's metadata says (scales, soft caps, windows) is
// read for every family alike where the row does not forbid it (model/config.cc).
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "kernels/kernel_table.h"
#include "kernels/rope.h"
#include "model/experts.h"
#include "model/recurrence.h"

namespace thaw {

// Whether the files of a family carry a tensor.
enum class Presence { kAbsent, kOptional, kRequired };

enum class NormKind {
  kRms,
  kBiasedRms,        // and then a bias
  kLayer,            // minus the mean, by the standard deviation
  kBiasedLayer,      // the same and then a bias
  kUnweightedLayer,  // the same with neither weights nor biases
};

// Norm of queries and keys, before they turn.
enum class QkNorm {
  kNone,
  kHead,            // RMS of each head, blk.N.attn_{q,k}_norm.weight [head_dim]
  kOptionalHead,    // the same where the file has it
  kUnweightedHead,  // the same without weights, in layers whose heads turn
  kRow,             // RMS of all heads together, [heads * head_dim]
  kOptionalLayer,   // layer norm of each head, [head_dim, heads], where the file has it
};

// What has a gate of its own among what attention gives.
enum class AttentionGate { kNone, kNumber, kHead };

// What the feed-forward block of a layer reads.
enum class Residual {
  kSequential,  // the stream after attention was added
  kParallel,    // the stream as attention read it
  kByFfnNorm,   // parallel where the file has no norm of the block's own
  kByField,     // parallel where use_parallel_residual says so
};

enum class Positions {
  kRope,
  kRopeUnlessNotTuned,  // none where rope.scaling.finetuned is false
  kNone,
  kLearned,  // position_embd.weight is added to the embedding
  kSlopes,   // scores fall with the distance to the key, for each head by a slope of its own
};

// Which of embedding_scale, residual_scale and logit_scale a file has to state; without one that it
// need not, it is 1.
enum class StatedScales { kNone, kLogits, kAll };

// Which layers see a window of positions alone, where the file states its size.
struct WindowPattern {
  int64_t default_size = 0;  // where the file states none
  int64_t only_size = 0;     // whatever size the file states
  int64_t period = 0;        // of so many layers the last sees everything; 0: no layer has one
  bool is_stated = false;    // the file has to say which layers have one, and its size
  float freq_base = 0;       // of the rope of windowed layers; 0: that of the others
  bool scales_rope = true;   // whether windowed layers scale their rope as the others do
  bool only_window_turns = false;  // layers that see everything have no rope
  bool full_first = false;         // not the last of `period` layers sees everything but the first
  // Layers that see everything turn half of rope.dimension_count.
  bool halves_full_rope = false;
  bool factors_full_rope = false;  // frequency factors are of layers that see everything alone
};

// Factors where the file states none; 0: none either.
struct DefaultScales {
  float attention = 0;
  float embedding = 0;
  float logits = 0;
  float residual_by_depth = 0;  // of 1 / sqrt(n_layers)
  float logits_by_width = 0;    // of 1 / d_model
};

// In the first so many layers gates of the feed-forward block count from so many standard
// deviations above their mean; in others, and where the file says otherwise, as they are.
struct GateCutoff {
  int64_t layers = 0;
  float deviations = -std::numeric_limits<float>::infinity();
};

// Which layers of a family with recurrent ones have attention.
enum class AttentionLayers {
  kAll,        // beside the recurrent block, which every layer has
  kByKvHeads,  // those that state key/value heads
  kByPeriod,   // of full_attention_interval layers the last
  kNone,
};

struct Family {
  std::string_view name;  // as general.architecture gives it
  RopePairing rope_pairing = RopePairing::kHalves;
  Positions positions = Positions::kRope;
  int64_t layers_of_slopes = 0;           // models of so many layers have kSlopes
  float slope_bias = 0;                   // of kSlopes where the file states none; 0: it has to
  Presence qkv_bias = Presence::kAbsent;  // blk.N.attn_{q,k,v}.bias
  Presence attention_output_bias = Presence::kAbsent;  // blk.N.attn_output.bias
  Presence ffn_bias = Presence::kAbsent;               // blk.N.ffn_{gate,up,down}.bias
  Presence output_bias = Presence::kAbsent;            // output.bias

  NormKind norm = NormKind::kRms;
  bool norms_before = true;  // what a block reads: attn_norm, and
  std::string_view ffn_norm = "ffn_norm";
  bool norms_after = false;  // what a block adds:
  std::string_view attention_after_norm = "post_attention_norm";
  std::string_view ffn_after_norm = "post_ffw_norm";
  bool has_second_attention_norm = false;  // attn_norm_2, of attention where there is one
  QkNorm qk_norm = QkNorm::kNone;
  bool norms_values = false;            // by the RMS of each head
  bool may_lack_values = false;         // values are the keys where the file has no attn_v
  bool norms_turned_heads = false;      // queries and keys are normed after they turn
  int64_t experts_without_qk_norm = 0;  // models of so many experts have none
  // Keys and values come of a low-rank latent (LatentConfig); files state a tenth of YaRN's log
  // multiplier, which is its multiplier too.
  bool has_latent_attention = false;
  bool has_indexer = false;  // it is to chosen keys alone (IndexerConfig)
  RopePairing indexer_pairing = RopePairing::kHalves;
  // What attention gives is multiplied with the logistic of blk.N.attn_gate of what it read.
  AttentionGate attention_gate = AttentionGate::kNone;
  bool joins_query_gates = false;  // attn_q holds for each head its queries and then those gates
  // blk.N.attn_sinks.weight: scores of heads that have no value.
  Presence sinks = Presence::kAbsent;
  // What attention gives (attn_sub_norm) and hidden layers (ffn_sub_norm) are normed by their RMS.
  bool has_sub_norms = false;
  Residual residual = Residual::kSequential;

  Nonlinearity nonlinearity = Nonlinearity::kSilu;
  bool states_nonlinearity = false;  // where hidden_activation states another
  bool is_gated = true;              // the hidden layer is f(gate) * up, not f(up)
  bool joins_gate_up = false;        // ffn_up holds the rows of gate and then those of up
  std::string_view ffn_up = "ffn_up";
  std::string_view ffn_down = "ffn_down";

  // Of layers with experts; which they are says the file (blk.N.ffn_gate_inp.weight).
  Gating gating = Gating::kSoftmax;  // where the file states none
  // But sigmoid where the first layer with experts has biases of the choice.
  bool choice_bias_means_sigmoid = false;
  bool renormalizes_experts = false;  // likewise: a token's weights add up to 1
  bool routes_stream = false;         // routers read the stream as attention does, without its norm
  bool shares_kv = false;  // the last attention.shared_kv_layers see keys and values of others
  // Beside the experts stands the dense block; both, and the router, norm what they read for
  // themselves, and what they add.
  bool keeps_dense_block = false;
  bool scales_expert_input = false;  // weights multiply what experts read, not what they write
  // blk.N.ffn_{gate_inp,gate_exps,up_exps,down_exps}.bias
  Presence expert_bias = Presence::kAbsent;

  Recurrence recurrence = Recurrence::kNone;
  AttentionLayers attention_layers = AttentionLayers::kAll;
  bool is_one_block = false;     // a layer is attention, recurrence or feed-forward, not two
  bool deals_key_heads = false;  // value head h has key head h mod groups, not h / (heads a group)
  std::string_view output_norm = "output_norm";

  bool scales_embedding_by_width = false;  // by sqrt(d_model)
  bool norms_embedding = false;            // by token_embd_norm
  StatedScales stated_scales = StatedScales::kNone;
  DefaultScales default_scales = {};
  bool divides_logits = false;   // by logit_scale, which multiplies them elsewhere
  float attention_soft_cap = 0;  // where the file states none; 0: none
  float final_soft_cap = 0;      // likewise
  WindowPattern windows = {};
  GateCutoff gate_cutoff = {};
  // Of residual streams (AltUp), where the file states no other number. With several a low-rank
  // block (LAuReL) stands beside attention, and each layer has an embedding of each token.
  int64_t n_streams = 1;
  // Of shares_kv: where the file does not say which, layers after so many share; 0: none do.
  int64_t own_kv_layers = 0;
  int64_t only_layers = 0;  // how many the models that run have, but for layers_of_slopes; 0: any
  // Where the model has so many layers, scores are scaled by 1 / sqrt(d_model / n_heads).
  int64_t layers_of_width_scale = 0;
  int64_t no_rope_period = 0;  // of so many layers the last has no rope; 0: all have
  // Where layers of no_rope_period turn, a token sees positions of its own chunk of so many alone.
  // Queries of the others grow with the position, by this scale.
  int64_t chunk = 0;
  float chunk_temperature = 0;
};

std::span<const Family> AllFamilies();

// nullptr when no family has this name.
const Family* FindFamily(std::string_view name);

}  // namespace thaw
