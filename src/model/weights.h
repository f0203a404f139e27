// The weights of a model by their role, found and checked by name and shape.
//
// Matrices stay in the file: a role holds the index under which the weight cache knows its matrix.
// Vectors (norms, biases) are small, are needed in every step, and are held here as floats.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "model/config.h"
#include "residency/tile_map.h"

namespace thaw {

// y = s W x + b
struct LinearWeights {
  int32_t matrix = -1;            // of the weight cache
  int64_t rows = 0;               // length of y
  int64_t cols = 0;               // length of x
  std::vector<float> bias = {};   // [rows], or empty
  std::vector<float> scale = {};  // [1], of experts [n]; or empty
  // The rows are those of so many heads, one after the other, each of which has an x of its own.
  int64_t n_heads = 1;
};

// Of the family's kind; both are [d_model], or empty where the kind or the file has none.
struct NormWeights {
  std::vector<float> weight;
  std::vector<float> bias;
};

// A feed-forward block; no rows where a layer has none.
struct FeedForwardWeights {
  LinearWeights gate;  // without gates (Family::is_gated) what the nonlinearity is applied to
  LinearWeights up;    // no matrix without gates
  LinearWeights down;
  std::vector<float> sub_norm;  // of what down reads, [down.cols], or empty
  Activation activation;
  float gate_cutoff = LayerConfig().gate_cutoff;  // likewise of the layer

  bool is_there() const { return down.rows != 0; }
};

// What a layer does with several residual streams (model_streams.cc). A router tells of the first
// one, by `n` = n_streams numbers, how to mix all of them.
struct StreamWeights {
  std::vector<float> router_norm;  // [d_model], times 1 / d_model
  std::vector<float> router;       // [n, d_model]
  std::vector<float> predict;      // [n * n, n], coefficients of each stream in each prediction
  std::vector<float> correct;      // [n, n], of what the layer changed
  std::vector<float> scale;        // [d_model], of the first as gates of layer embeddings read it
};

// The low-rank block beside attention.
struct LaurelWeights {
  LinearWeights down;  // [laurel_rank, d_model]
  LinearWeights up;    // [d_model, laurel_rank]
  NormWeights after;
};

// The experts of a layer. The rows and columns of `each` are those of one of them; its matrices
// hold all, and its biases are [experts, rows]. Where gates are joined with up, both are `gate`.
struct ExpertWeights {
  LinearWeights router;            // [n, d_model]
  std::vector<float> choice_bias;  // [n], or empty: of the choice alone
  // Where a dense block stands beside experts: [d_model] of what the router reads, and norms of
  // what experts read, of what the block adds and of what they do.
  std::vector<float> router_norm;
  std::optional<NormWeights> before, block_after, after;
  LinearWeights latent_down;  // [width, d_model], what experts read; no row: they read the stream
  FeedForwardWeights each;
  LinearWeights latent_up;    // [d_model, width]
  LinearWeights shared_gate;  // [1, d_model], or no row: the shared block is times sigmoid(w x)
};

// A recurrent block, of the family's kind (Recurrence). What a kind has not has no rows or is
// empty.
struct RecurrentWeights {
  LinearWeights mixed;  // [convolved, d_model], what goes through the convolution; or, interleaved,
                        // [convolved + inner, d_model]: the gates too
  // kChannelDelta: the rows of `mixed`, each [inner, d_model].
  LinearWeights queries, keys, values;
  LinearWeights gate_down;  // kChannelDelta: [rank, d_model], what gates are made of
  LinearWeights gate;       // [inner, d_model] or [inner, rank], of what the block gives
  LinearWeights factors;  // [heads, d_model], beta of the delta rule; [d_model, d_model], what the
                          // inputs of a short convolution are multiplied with
  // [heads, d_model], time steps; [2 heads, d_model], key head by key head its betas and time
  // steps; of Mamba [rank + 2 keys, inner]; kChannelDelta: [rank, d_model]
  LinearWeights steps;
  // Time steps of channels: of Mamba [inner, rank]; kChannelDelta: [heads * keys, rank]
  LinearWeights rates;
  std::vector<float> convolution;       // [taps, convolved]
  std::vector<float> convolution_bias;  // [convolved]
  std::vector<float> step_bias;         // [heads], or that of channels
  std::vector<float> a;     // [heads], of Mamba [keys, inner]: the rates of fading, negative
  std::vector<float> d;     // [heads], of Mamba [inner]: the share of the input
  std::vector<float> norm;  // delta rule: [values], of each head; Mamba-2: [inner], of each group
  std::vector<float> query_norm, key_norm;       // delta rule: [keys], constant: unit length
  std::vector<float> step_norm, b_norm, c_norm;  // Mamba: [rank], [keys], [keys]
  LinearWeights output;                          // [d_model, inner]
};

// What time mixing makes by two products: up f(down x) + bias.
struct LowRankWeights {
  LinearWeights down;  // [rank, d_model]
  LinearWeights up;    // [d_model, rank]
};

// A recurrent block of time mixing.
struct TimeMixWeights {
  std::vector<float> shares;   // [kShiftedInputs, d_model], of the token before
  LinearWeights q, k, v;       // [d_model, d_model]
  LowRankWeights decay, rate;  // the factors of fading, the learning rates
  LowRankWeights value;        // the share of the first layer's values; no rows in that layer
  LowRankWeights gate;         // of what the block gives; without biases
  // [d_model]: factors of the keys under which states are looked up; how far keys shrink by their
  // learning rates; the share of a token's own value.
  std::vector<float> probe, shrinking, own_value;
  std::vector<float> probe_norm;  // [keys], constant: unit length
  NormWeights norm;               // of each head
  LinearWeights output;           // [d_model, d_model]
};

// What scores keys; no rows where a layer has none of its own.
struct IndexerWeights {
  LinearWeights q;                 // [n_heads * key_size, q_rank]
  LinearWeights k;                 // [key_size, d_model]
  std::vector<float> k_norm;       // [key_size]
  std::vector<float> k_norm_bias;  // [key_size]
  LinearWeights weights;           // [n_heads, d_model]

  bool is_there() const { return k.rows != 0; }
};

// What makes queries, keys and values in a layer with latent attention (LatentConfig).
struct LatentWeights {
  LinearWeights q_down;        // [q_rank, d_model], or no row
  std::vector<float> q_norm;   // [q_rank], or empty
  LinearWeights q;             // [n_heads * key_size, q_rank or d_model]
  LinearWeights kv_down;       // [rank + rope_dim, d_model]
  std::vector<float> kv_norm;  // [rank]
  LinearWeights kv;            // [n_heads of still_size + value_size, rank], not absorbed
  LinearWeights q_absorbed;    // of heads: [n_heads of rank, still_size], absorbed
  LinearWeights v;             // of heads: [n_heads of value_size, rank], absorbed
  IndexerWeights indexer;
};

struct LayerWeights {
  std::optional<StreamWeights> streams;       // where there are several
  std::optional<NormWeights> attention_norm;  // none: blocks read the stream as it is
  std::optional<RecurrentWeights> recurrent;
  std::optional<TimeMixWeights> time_mix;
  // q, k and v have no rows where attention is of latents; q has twice the rows where it holds the
  // gates too.
  LinearWeights q, k, v, attention_output;
  std::optional<LatentWeights> latent;
  std::vector<float> v_norm;                   // ones, or empty: of each head
  std::vector<float> q_norm, k_norm;           // as the family's QkNorm has them, or empty
  std::vector<float> sinks;                    // [heads.n], or empty
  std::vector<float> slopes;                   // likewise; no tensor
  LinearWeights attention_gate;                // [heads.out_width() or heads.n, d_model], or no row
  std::vector<float> attention_sub_norm;       // of what attention gives, [heads.out_width()]
  std::optional<NormWeights> attention_after;  // of what attention adds
  std::optional<LaurelWeights> laurel;
  std::optional<NormWeights> ffn_norm;
  std::vector<float> ffn_shares;  // [d_model], of the token before, or empty: no token shift
  FeedForwardWeights ffn;         // dense, or the shared experts of a layer with experts
  std::optional<ExpertWeights> experts;
  std::optional<NormWeights> ffn_after;  // of what the feed-forward blocks add
  // Of what the layer has of a token: [layer_embedding, d_model], which is multiplied with it, and
  // [d_model, layer_embedding]; or no row.
  LinearWeights embedding_gate, embedding_output;
  std::optional<NormWeights> embedding_after;
  float output_scale = 1;  // of the stream after the layer
};

struct ModelWeights {
  int32_t embedding = -1;           // matrix of the weight cache: [n_vocab, d_model]
  int32_t position_embedding = -1;  // [context_length, d_model] where positions are learned
  std::optional<NormWeights> embedding_norm;
  // What layers have of a token: a row [n_layers, layer_embedding], to which that of the stream
  // [n_layers * layer_embedding, d_model] is added, normed [layer_embedding] layer by layer.
  int32_t layer_embedding = -1;
  LinearWeights layer_projection;
  std::vector<float> layer_projection_norm;
  // [n_streams - 1] of [d_model, d_model]: what the other streams are made of, and their shares of
  // what the output reads.
  std::vector<LinearWeights> stream_inputs;
  std::vector<LayerWeights> layers;
  std::vector<LinearWeights> stream_outputs;
  NormWeights output_norm;
  LinearWeights output;  // the embedding's own matrix where the file has no other
};

struct ModelDescription {
  ModelConfig config;  // with the frequency factors of the file
  ModelWeights weights;
  std::vector<WeightMatrix> matrices;  // for the weight cache, in the order of a forward pass
  uint64_t vector_bytes = 0;           // held as floats in `weights`
};

// Reads metadata and vectors; no matrix is read. kCorrupt names a tensor that is missing, of a
// wrong shape, or of no use to this architecture (the output would be silently wrong); kUnsupported
// one whose element type cannot be multiplied.
Result<ModelDescription> DescribeModel(const GgufFile& file);

}  // namespace thaw
