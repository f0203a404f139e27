// The forward pass: tokens in, logits out, for every family that model/family.h lists.
//
// A Model reads its weights through the weight cache, tile by tile, and works in memory that it
// takes once at creation. The caller owns the cache, the thread pool and the KV caches, which must
// outlive it or the call. One forward pass at a time; the pass itself uses all threads of the pool.
//
// Row invariance: what is computed for a token depends on the token, its position, the positions
// before it, the KV type and the kernel table alone: not on the batch, the chunk or the threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "codec/tile_decoder.h"
#include "kernels/kernel_table.h"
#include "model/kv_cache.h"
#include "model/weights.h"
#include "model/workspace.h"
#include "residency/shared_pin.h"
#include "residency/weight_cache.h"

namespace thaw {

// One token of one sequence.
struct BatchToken {
  int32_t token = 0;      // in [0, n_vocab)
  int64_t position = 0;   // in its sequence, below the KV cache's capacity
  KvCache* kv = nullptr;  // of its sequence
  bool wants_logits = false;
};

struct ModelOptions {
  int64_t max_batch = 1;    // tokens of one forward pass
  int64_t max_context = 1;  // positions of the longest sequence
  // Of frozen weights.
  const TileDecoder* decoder = &PortableDecoder();
};

// Seconds of the calling thread, by what it did, but for the last.
struct PassTimes {
  double matmul = 0;     // products, waiting for weights included
  double attention = 0;  // scores, softmax and values
  double total = 0;      // whole passes
  // Products of coded weights, which decode them, summed over threads. Part of matmul.
  double coded_products = 0;
};

class Model {
 public:
  // `description` was made from the file whose matrices `weights` knows, in that order.
  static Result<std::unique_ptr<Model>> Create(ModelDescription description, WeightCache& weights,
                                               const KernelTable& kernels, ThreadPool& pool,
                                               const ModelOptions& options);

  const ModelConfig& config() const { return config_; }

  // Bytes of working memory taken at creation.
  uint64_t scratch_bytes() const { return work_.memory.size(); }

  // Of all passes so far.
  PassTimes times() const;

  // Runs 1 to max_batch tokens. The tokens of a sequence stand in order, at the positions right
  // after the length of its KV cache, which grows by them, and next to each other. Writes the
  // logits of those that want them, in their order, to `logits` [n_wanting, n_vocab]. kCancelled,
  // with no KV cache longer than before, soon after `cancel` (may be null) became true; other
  // errors come from reading weights.
  Result<void> Forward(std::span<const BatchToken> batch, std::span<float> logits,
                       const std::atomic<bool>* cancel);

 private:
  // One product, without bias. Of a matrix of experts it is that of one of them; of a matrix of
  // heads `activations` are those of one head after the other. The heads of `out`, one where the
  // matrix has no more, lie `head_stride` numbers apart.
  struct Product {
    const LinearWeights* weights;
    const Activations* activations;  // [weights->n_heads, tokens], whose quantized copy is ready
    float* out;                      // [tokens, weights->rows] or [tokens, n_heads, head_stride]
    int64_t expert = 0;
    int64_t head_stride = 0;  // 0: the rows of a head

    int64_t token_stride() const {
      return head_stride == 0 ? weights->rows : weights->n_heads * head_stride;
    }
  };

  // A run of rows of one tile: what one thread multiplies at a time.
  struct WorkItem {
    const Product* product;
    int32_t tile;
    SharedPin* visit;
    int64_t row_begin;  // within the tile
    int64_t row_end;
  };
  // `data` is that of its tile, which begins at `first` of the product's.
  void MultiplyRows(const WorkItem& item, const std::byte* data, int64_t first, std::byte* scratch);

  Model(ModelDescription description, std::vector<RopeAngles> angles, WeightCache& weights,
        const KernelTable& kernels, ThreadPool& pool, const ModelOptions& options);
  static void Scale(std::span<float> x, float factor);
  // Calls body(token) for every token of the batch, spread over the threads.
  void ForEachToken(int64_t n_tokens, FunctionRef<void(int64_t token)> body);
  // The copy of what these matrices read, those of them that are there. The same for every batch,
  // which row invariance needs.
  ActivationCopy CopyFor(std::initializer_list<const LinearWeights*> readers) const;
  // Of what RunFeedForward hands to the block and the experts of a layer.
  ActivationCopy CopyForFeedForward(const LayerWeights& layer) const;
  // x [n_tokens, k] with its copy in work_.quantized.
  Activations Quantize(const float* x, int64_t n_tokens, int64_t k, ActivationCopy copy);

  // The stream before the first layer, and what layers have of the tokens.
  Result<void> Embed(std::span<const BatchToken> batch);
  // The rows of the tokens in all tables: of their embeddings to work_.x, of their positions to
  // work_.projected, of layers to work_.layer_inputs.
  Result<void> LookUp(std::span<const BatchToken> batch);
  // model_layer_embeddings.cc. Adds what comes of the stream to what layers have of the tokens.
  Result<void> EmbedForLayers(int64_t n_tokens);
  // Adds to the stream what a layer has of the tokens, gated by the stream. Where there are several
  // it adds to all but the first, which it reads scaled from work_.normed.
  Result<void> AddLayerEmbedding(int64_t index, int64_t n_tokens);

  // model_streams.cc. A token's row of one of the streams, the first of which is work_.x.
  float* Stream(int64_t stream, int64_t i);
  // Makes the other streams of the first.
  Result<void> SpreadStreams(int64_t n_tokens);
  // Streams as a layer begins: mixtures of all; the first is kept in work_.predicted.
  void PredictStreams(const StreamWeights& weights, int64_t n_tokens);
  // Tells the others what the layer's blocks changed of the first.
  void CorrectStreams(const StreamWeights& weights, int64_t n_tokens);
  // How to mix the streams of a token, from its first one: `matrix` [rows, n_streams] times what
  // the router says, to `out` [rows].
  void MixingOf(const StreamWeights& weights, const std::vector<float>& matrix, int64_t i,
                int worker, float* out);
  // Adds what was projected for a token, normed, to its streams but for the first.
  void AddToOtherStreams(const NormWeights& norm, int64_t i);
  // Puts the mean of all streams of these tokens into the first.
  Result<void> MergeStreams(std::span<const int64_t> tokens);
  // Adds what attention has projected to the stream, and the low-rank block of what it read.
  Result<void> AddWithLaurel(const LayerWeights& layer, int64_t n_tokens);

  // Cosines and sines of a token of the batch.
  float* CosSin(int rope, int64_t i);
  // [d_model] -> [d_model], which may be the same.
  void Norm(const NormWeights& norm, const float* x, float* out) const;
  // In place; nothing without weights.
  void NormByRms(const std::vector<float>& weight, float* x) const;
  // What a block reads: the stream of a token, normed where there is a norm, to work_.normed.
  void ReadStream(const std::optional<NormWeights>& norm, int64_t i);
  // Adds what a block has projected to the stream of a token: with its bias, normed and scaled.
  void AddToStream(const std::vector<float>& bias, const std::optional<NormWeights>& norm,
                   int64_t i);
  Result<void> RunLayer(int64_t index, std::span<const BatchToken> batch);
  // model_attention.cc. Of the stream to `out` [batch, d_model], without the last bias.
  Result<void> RunAttention(int64_t index, std::span<const BatchToken> batch, float* out);
  // Adds what the mixing gave where there was one, then what the feed-forward block gives.
  Result<void> RunFeedForward(int64_t index, std::span<const BatchToken> batch, bool has_mixed);

  // model_recurrent.cc. The recurrent block of a layer: of the stream to work_.projected.
  Result<void> RunRecurrence(int64_t index, std::span<const BatchToken> batch);
  // Puts what stands together for each key head into work_.mixed and work_.recurrent_gate.
  void Deal(int64_t i);
  // The convolution of work_.mixed over the latest tokens of its sequence, to work_.convolved.
  void Convolve(int64_t index, std::span<const BatchToken> batch);
  // The states of a kind: of work_.convolved and what the kind has beside it to work_.mixed.
  Result<void> RunMamba(int64_t index, std::span<const BatchToken> batch);
  void RunMamba2(int64_t index, std::span<const BatchToken> batch);
  void RunDelta(int64_t index, std::span<const BatchToken> batch);
  // What a token hands to the states of the delta rule: queries and keys of unit length, betas in
  // work_.factors, and in work_.rates the factors of fading of each head: one, or one a key.
  void PrepareDelta(const RecurrentWeights& w, int64_t i);
  // Steps `parts` parts of the states of all sequences, token by token. `prepare` states the step
  // of a part but for the state, and returns where the part begins in it.
  void StepStates(
      int64_t index, std::span<const BatchToken> batch, int64_t parts,
      FunctionRef<int64_t(int64_t i, int64_t part, float* scratch, StateStep& step)> prepare);

  // model_time_mix.cc. As RunRecurrence, of a layer with time mixing.
  Result<void> RunTimeMix(int64_t index, std::span<const BatchToken> batch);
  // The row of a token in work_.shifted, whose inputs are [n_tokens, d_model].
  float* ShiftedRow(ShiftedInput input, int64_t n_tokens, int64_t i);
  // Products of `inputs` [kShiftedInputs]: to work_.mixed_q, mixed_k and mixed_v, and those of low
  // rank, before their biases, to the place of the input that they read.
  Result<void> ProjectTimeMix(const TimeMixWeights& w, std::span<const Activations> inputs);
  // What the step of a token takes: its key and value, and in work_.shifted the factors of fading
  // (kDecay), the probe (kKey) and the correction (kRate).
  void PrepareTimeMix(const TimeMixWeights& w, int64_t n_tokens, int64_t i);
  // What the step gave a token (kQuery in work_.shifted): normed, with its own value, gated.
  void FinishTimeMix(const TimeMixWeights& w, int64_t n_tokens, int64_t i);
  // The blocks of a layer that have a token shift, in the order in which its state holds them.
  enum class Shifted { kTimeMix, kFeedForward };
  // Mixes what a block reads (work_.normed) with what it read of the token before, once for each of
  // `inputs`, whose rows of `shares` [inputs, d_model] say how; makes a copy of them, and keeps the
  // last token of each sequence.
  void Shift(int64_t index, std::span<const BatchToken> batch, Shifted block,
             std::span<const float> shares, ActivationCopy copy, std::span<Activations> inputs);
  // The block that all tokens go through: from `normed` to work_.projected, without the last bias.
  Result<void> RunBlock(const FeedForwardWeights& ffn, const Activations& normed);
  // Takes note that gate or up has got rows [begin, end), and activates those that both have.
  void ActivateDone(const FeedForwardWeights& ffn, int64_t n_tokens, int64_t begin, int64_t end);
  // Biases and activation of rows [begin, end) of a token, from work_.gate and work_.up to
  // work_.gate; of all rows where gates are cut.
  void Activate(const FeedForwardWeights& ffn, int64_t i, int64_t begin, int64_t end);

  // model_experts.cc. A layer with experts: from `normed` to work_.projected, with all biases. Its
  // tokens were routed already where the family's routers read the stream.
  Result<void> RunExperts(const LayerWeights& layer, const Activations& normed);
  // The same where experts stand beside the dense block: each reads the stream by a norm of its
  // own.
  Result<void> RunExpertsBeside(const LayerWeights& layer, const Activations& normed);
  // Which experts each token goes through, by what it `read`; they are announced to the cache.
  Result<void> Route(const ExpertWeights& experts, const Activations& read);
  // Sorts tokens by expert: expert_runs_, waves_ and the tables of pairs.
  void PlanExpertRuns(int64_t n_tokens);
  // Tells the weight cache which tiles the layer's experts need, in the order of their visits.
  void ExpectExperts(const FeedForwardWeights& each);
  // Experts of `runs`, whose pairs fit into the workspace together, added to `sums`.
  struct ExpertRun {
    int32_t expert;
    int64_t first;  // pair
    int64_t count;
  };
  Result<void> RunWave(const FeedForwardWeights& each, std::span<const ExpertRun> runs,
                       const Activations& read, float* sums);

  // model_latent.cc. The copy that ProjectLatent reads.
  ActivationCopy CopyForLatents(const LatentWeights& weights) const;
  // Queries of all heads from `normed` to work_.q; latents, or keys and values, to the KV caches.
  Result<void> ProjectLatent(int64_t index, std::span<const BatchToken> batch,
                             const Activations& normed);
  // Norm of the latent of one token, rope of its key and its `queries`.
  void PrepareLatent(int64_t index, const BatchToken& token, float* queries, int64_t i);
  // Queries from work_.heads to work_.q, and latents to the KV caches.
  Result<void> AbsorbQueries(int64_t index, std::span<const BatchToken> batch);
  // Keys and values of latents to the KV caches.
  Result<void> ExpandKeys(int64_t index, std::span<const BatchToken> batch);
  // Values of the latents that attention gave, from work_.attended to work_.heads.
  Result<void> ExpandValues(int64_t index, int64_t n_tokens);

  // model_indexer.cc. Norm and rope of what scores the keys of one token; its key is kept.
  void PrepareIndexer(int64_t index, const BatchToken& token, int64_t i);
  // What the sparse tokens attend to in this layer and those after that do not choose.
  void ChooseKeysOfAll(int64_t index, std::span<const BatchToken> batch);
  // Of the positions of a span of kIndexSpan, to `scores` [max_context].
  void ScoreKeys(int64_t index, const BatchToken& token, int64_t i, int64_t span, int worker,
                 float* scores);
  // Attention of the sparse tokens.
  void AttendChosen(int64_t index, std::span<const BatchToken> batch);
  // Calls body for as many sparse tokens at a time as the workspace has room for.
  void ForEachSparse(FunctionRef<void(std::span<const int64_t> some)> body);

  // Multiplies what attention gave a token with the logistic of its gates, of numbers or of heads.
  void GateAttention(const HeadShape& heads, int64_t n_gates, int64_t i);
  // Takes queries and gates of a token apart, which stand together for each head.
  void SplitQueryGates(const HeadShape& heads, int64_t i);
  // Bias, q/k norm and rope of one token; its key and value go to its KV cache.
  void PrepareHeads(const LayerWeights& layer, int64_t index, const BatchToken& token, int64_t i);
  // The factor on the queries of a token at `position`.
  void ScaleQueries(int64_t index, int64_t position, std::span<float> q) const;
  // As ForEachToken, for a body that stores keys.
  void StoreEach(int64_t n_tokens, FunctionRef<void(int64_t token)> body);
  // The norm of the queries or the keys of a token.
  void NormHeads(const std::vector<float>& norm, int64_t n_heads, int64_t size, float* heads) const;

  // Tokens [first, first + count) of the batch, one after the other in one sequence.
  struct TokenRun {
    int64_t first;
    int64_t count;
  };
  // Splits the batch into sequences_, and into runs_ of at most AttentionTileTokens but for the
  // tokens that attend to chosen keys, which are sparse_.
  void PlanRuns(std::span<const BatchToken> batch);
  void AttendAll(int64_t index, std::span<const BatchToken> batch);
  // The same for few single tokens, with the spans of their positions spread over the threads.
  void AttendBySpans(int64_t index, std::span<const BatchToken> batch);
  AttentionArguments ArgumentsOf(int64_t index, std::span<const BatchToken> batch,
                                 const TokenRun& run, int64_t kv_head);
  Result<void> ComputeLogits(std::span<const BatchToken> batch, std::span<float> logits);
  // Bias, scale and soft cap of whole rows of logits.
  void FinishLogits(std::span<float> logits);

  // model_products.cc. All products of the span, tiles in memory first.
  Result<void> Multiply(std::span<const Product> products);
  // The same; calls done(begin, end), on any thread, for each run of rows that one of them has got.
  Result<void> Multiply(std::span<const Product> products,
                        FunctionRef<void(int64_t begin, int64_t end)> done);
  // One product of what is not quantized yet: of `x` [n_tokens, cols] to `out` [n_tokens, rows].
  Result<void> QuantizeAndMultiply(const LinearWeights& weights, const float* x, int64_t n_tokens,
                                   float* out);
  // Multiplies rows [begin, end) of what a product gave with the scale of its matrix.
  static void ScaleRows(const Product& product, int64_t begin, int64_t end);
  // Splits products into work_items_: tiles that are in memory first, shared evenly, so that the
  // others, which are everybody's, have time to come.
  void PlanWork(std::span<const Product> products);
  // Those of one tile. next_rows(planned) takes note of the rows that an item has got, and says how
  // many the next one is to have.
  void PlanTile(const Product& product, int32_t tile,
                FunctionRef<int64_t(int64_t planned)> next_rows);

  const ModelConfig config_;
  const ModelWeights weights_;
  const std::vector<RopeAngles> angles_;  // of config_.ropes
  WeightCache& cache_;
  const KernelTable& kernels_;
  const TileDecoder& decoder_;
  ThreadPool& pool_;
  const ModelOptions options_;

  Workspace work_;
  std::vector<TableRow> rows_;       // of the current pass, table by table
  std::vector<TokenRun> sequences_;  // likewise
  std::vector<TokenRun> runs_;       // likewise
  std::vector<int64_t> sparse_;      // likewise
  std::vector<Product> recurrent_products_;
  // Of the current layer with experts; kept for their memory.
  std::vector<ExpertRun> expert_runs_;
  std::vector<std::span<const ExpertRun>> waves_;  // of them, those that run at a time
  std::vector<Activations> run_activations_;
  std::vector<Product> expert_products_;
  std::vector<int32_t> expected_;  // tiles
  // Of the current Multiply; kept for their memory.
  std::vector<WorkItem> work_items_;
  std::vector<int64_t> share_ends_;                            // as ThreadPool takes them
  std::vector<std::pair<const Product*, int32_t>> in_memory_;  // tiles
  std::vector<std::pair<const Product*, int32_t>> streamed_;   // those without a place
  std::vector<SharedPin> visits_;  // of its tiles; as many as the largest product has
  size_t visit_count_ = 0;
  std::vector<std::atomic<int32_t>> rows_done_;   // of gate and up, in each block of kActivatedRows
  std::vector<std::atomic<int64_t>> spans_left_;  // to attend to, of each of MostSplitHeads
  PassTimes times_;                               // but for coded_products
  std::atomic<int64_t> coded_product_ns_{0};
};

}  // namespace thaw
