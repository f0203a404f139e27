// The working memory of a forward pass: activations and scratch for a stated number of tokens.
//
// One block, taken at creation; WorkspaceBytes tells its size beforehand by the same arithmetic.
// Owned by the model, used by one forward pass at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "kernels/kernel_table.h"
#include "model/config.h"
#include "residency/tile_map.h"

namespace thaw {

struct WorkspaceSize {
  int64_t max_batch = 1;    // tokens of one forward pass
  int64_t max_context = 1;  // positions of the longest sequence
  int threads = 1;
  int64_t product_bytes = 0;  // ProductScratchBytes
  bool may_split = true;      // MaySplitActivations
};

// Whether products of the model's matrices by these kernels may read the split copy of activations.
bool MaySplitActivations(const KernelTable& kernels, const TileMap& map);

// Scratch that one thread takes for products of the model's matrices.
int64_t ProductScratchBytes(const ModelConfig& config, const TileMap& map);

// KV heads of single tokens whose spans of positions run apart from each other, so that their
// states must be kept: where there are more, whole heads keep the threads busy. Four a thread leave
// at most a fifth of the time to threads that wait for the last one.
constexpr int64_t MostSplitHeads(int threads) { return int64_t{4} * threads; }

// Positions that one thread scores at a time: at 64 heads 256 KiB of products, which the
// second-level cache holds.
inline constexpr int64_t kIndexSpan = 1024;

// Heads that attend to chosen keys at a time: what they share of reading a key is a sixteenth of
// their work, and the 64 or 128 of a model keep several threads busy.
inline constexpr int64_t kSparseHeads = 16;

// Sizes of a layer (HeadShape) are those of the largest; each layer uses as much as it has.
struct Workspace {
  float* x = nullptr;                      // [streams, batch, d_model], residual streams
  float* normed = nullptr;                 // [batch, d_model]
  float* q = nullptr;                      // [batch, q_width]
  float* k = nullptr;                      // [batch, k_width]
  float* v = nullptr;                      // [batch, v_width]
  float* attended = nullptr;               // [batch, out_width]
  float* attention_gate = nullptr;         // [batch, out_width or heads], of families that gate it
  float* gate = nullptr;                   // [batch, widest_block]
  float* up = nullptr;                     // [batch, widest_block], of gated families
  float* projected = nullptr;              // [batch, d_model], what a block adds to the stream
  float* beside = nullptr;                 // [batch, d_model], of a block beside another
  float* laurel = nullptr;                 // [batch, laurel_rank]
  float* predicted = nullptr;              // [batch, d_model], of the first of several streams
  float* cos_sin = nullptr;                // [ropes, batch, most_rope_dim]
  std::byte* attention_scratch = nullptr;  // [threads, attention_scratch_stride]
  float* attention_states = nullptr;       // [MostSplitHeads(threads)] of [spans, group] of states
  std::byte* quantized = nullptr;          // activations of the batch as int8
  std::byte* quantized_hidden = nullptr;   // those of hidden layers: `quantized` without experts
  std::byte* matmul_scratch = nullptr;     // [threads, matmul_scratch_stride]
  size_t matmul_scratch_stride = 0;        // bytes
  size_t attention_scratch_stride = 0;     // bytes
  int64_t attention_states_stride = 0;     // floats

  // Of models with latent attention. Absorbed, `attended` also holds the still parts of queries and
  // `q` what attention gave, both [n_heads, batch] for the products of heads.
  float* q_latent = nullptr;   // [batch, q_rank]
  float* kv_down = nullptr;    // [batch, rank + rope_dim]
  float* kv_latent = nullptr;  // [batch, rank], where it is not absorbed
  // Absorbed, queries [batch, n_heads, key_size] and later values [batch, n_heads, value_size];
  // else keys and values [batch, n_heads, still_size + value_size].
  float* heads = nullptr;

  // Of models that choose keys; those from index_products on where the longest sequence is longer
  // than what is chosen. As many tokens choose at a time as there are threads.
  float* index_q = nullptr;            // [batch, n_heads, key_size]
  float* index_k = nullptr;            // [batch, key_size]
  float* index_weights = nullptr;      // [batch, n_heads]
  float* index_products = nullptr;     // [threads, n_heads, kIndexSpan]
  float* index_scores = nullptr;       // [threads, max_context]
  int32_t* index_order = nullptr;      // [threads, max_context]
  int32_t* chosen_keys = nullptr;      // [batch, top_k]
  std::byte* chosen_copies = nullptr;  // [threads, chosen_copies_stride], keys and then values
  int64_t chosen_copies_stride = 0;    // bytes

  // Of models with experts. A pair is a token and an expert that it goes through; of all of them
  // ExpertPairs are worked on at a time.
  float* router = nullptr;            // [batch, experts]
  float* router_scratch = nullptr;    // [batch, experts]
  float* shared_gate = nullptr;       // [batch]
  ExpertChoice* choices = nullptr;    // [batch, n_used]
  int32_t* pair_of_choice = nullptr;  // [batch, n_used]
  int32_t* token_of_pair = nullptr;   // [batch * n_used], experts ascending, then tokens
  float* pair_rows = nullptr;         // [pairs, d_model], what experts read, then what they write
  float* pair_gate = nullptr;         // [pairs, experts.d_ff]
  float* pair_up = nullptr;           // [pairs, experts.up_width()]

  // Where experts do not read what the block beside them reads: [batch, experts.width].
  float* latent = nullptr;
  float* latent_sum = nullptr;  // [batch, experts.width]

  // Of models whose layers have something of each token.
  float* layer_inputs = nullptr;     // [batch, n_layers, layer_embedding]
  float* layer_projected = nullptr;  // likewise
  float* layer_gate = nullptr;       // [batch, layer_embedding]

  // Of models with recurrent layers.
  float* interleaved = nullptr;     // [batch, convolved + inner], where they are
  float* mixed = nullptr;           // [batch, convolved], then [batch, inner], what heads give
  float* convolved = nullptr;       // [batch, convolved]
  float* recurrent_gate = nullptr;  // [batch, inner]
  float* gate_latent = nullptr;     // [batch, rank], where gates are made of it
  float* steps = nullptr;           // [batch, rows of RecurrentWeights::steps]
  float* factors = nullptr;         // [batch, the most of heads, rank and, without a state, inner]
  float* rates = nullptr;           // [batch, heads], or [batch, rows of RecurrentWeights::rates]
  float* step_scratch = nullptr;    // [threads, step_scratch_stride]
  int64_t step_scratch_stride = 0;  // floats

  // Of models with time mixing.
  float* shifted = nullptr;       // [kShiftedInputs, batch, d_model], then what low ranks give
  float* mixed_q = nullptr;       // [batch, d_model]
  float* mixed_k = nullptr;       // likewise
  float* mixed_v = nullptr;       // likewise
  float* first_values = nullptr;  // likewise, of the first layer
  float* low_ranks = nullptr;     // [batch, ranks.sum()], part by part

  AlignedBuffer memory;  // what all of them point into
};

// Channels of Mamba that a thread steps at a time: their factors of fading lie in its scratch.
inline constexpr int64_t kSteppedColumns = 256;

// Enough for all tokens of one expert, and for all experts of one token.
int64_t ExpertPairs(const ModelConfig& config, int64_t max_batch);

uint64_t WorkspaceBytes(const ModelConfig& config, const WorkspaceSize& size);

// kResourceExhausted when the system has no memory for it.
Result<Workspace> AllocateWorkspace(const ModelConfig& config, const WorkspaceSize& size);

}  // namespace thaw
