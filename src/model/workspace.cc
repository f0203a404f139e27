#include "model/workspace.h"

#include <algorithm>
#include <functional>

#include "base/round_up.h"
#include "kernels/activations.h"
#include "kernels/attention.h"
#include "kernels/coded_matmul.h"

namespace thaw {
namespace {

// Every part begins on a cache line.
size_t ToLines(int64_t bytes) { return static_cast<size_t>(RoundUp(bytes, 64)); }

// What the output matrix of attention reads of a token.
int64_t MostOutWidth(const ModelConfig& c) {
  return c.Most([&](const LayerConfig& layer) {
    return layer.is_latent ? layer.heads.n * c.latent.value_size : layer.heads.out_width();
  });
}

int64_t MaxColumns(const ModelConfig& c) {
  return std::max({c.d_model, c.widest_block(), c.experts.d_ff, MostOutWidth(c), c.recurrence.inner,
                   c.recurrence.rank, c.recurrence.ranks.most(), c.experts.width, c.latent.q_rank,
                   c.latent.rank, c.latent.still_size(), c.indexer.key_size, c.layer_embedding,
                   c.laurel_rank, c.n_streams});
}

// The quantized copy of what latent attention multiplies, of n_heads heads.
int64_t LatentActivationBytes(const LatentConfig& latent, int64_t n_heads, int64_t batch,
                              bool may_split) {
  const int64_t rows = latent.is_absorbed ? batch * n_heads : batch;
  return std::max({ActivationBytes(batch, latent.q_rank, may_split),
                   ActivationBytes(rows, latent.rank, may_split),
                   ActivationBytes(rows, latent.still_size(), may_split)});
}

// The quantized copies of what the products of time mixing read, all of a kind at a time.
int64_t TimeMixActivationBytes(const ModelConfig& c, int64_t batch, bool may_split) {
  if (c.family->recurrence != Recurrence::kTimeMix) return 0;
  const TimeMixRanks& ranks = c.recurrence.ranks;
  int64_t of_ranks = 0;
  for (const int64_t rank : {ranks.decay, ranks.rate, ranks.value, ranks.gate}) {
    of_ranks += ActivationBytes(batch, rank, may_split);
  }
  return std::max(kShiftedInputs * ActivationBytes(batch, c.d_model, may_split), of_ranks);
}

// Hands the parts of a block out one after the other. Without a block it only counts, so that the
// size is known by the very steps that lay it out.
class Layout {
 public:
  explicit Layout(std::byte* block) : block_(block) {}

  template <typename T>
  void Add(T*& part, int64_t count) {
    if (block_ != nullptr) part = reinterpret_cast<T*>(block_ + end_);
    end_ += ToLines(count * static_cast<int64_t>(sizeof(T)));
  }
  size_t bytes() const { return end_; }

 private:
  std::byte* block_;
  size_t end_ = 0;
};

void AddLatent(const LatentConfig& latent, int64_t n_heads, int64_t batch, Layout& layout,
               Workspace& w) {
  const int64_t of_head = latent.is_absorbed ? std::max(latent.key_size, latent.value_size)
                                             : latent.still_size() + latent.value_size;
  layout.Add(w.q_latent, batch * latent.q_rank);
  layout.Add(w.kv_down, batch * (latent.rank + latent.rope_dim));
  layout.Add(w.kv_latent, latent.is_absorbed ? 0 : batch * latent.rank);
  layout.Add(w.heads, batch * n_heads * of_head);
}

void AddIndexer(const ModelConfig& c, const WorkspaceSize& size, Layout& layout, Workspace& w) {
  const IndexerConfig& indexer = c.indexer;
  const int64_t batch = size.max_batch;
  layout.Add(w.index_q, batch * indexer.n_heads * indexer.key_size);
  layout.Add(w.index_k, batch * indexer.key_size);
  layout.Add(w.index_weights, batch * indexer.n_heads);
  if (!indexer.Chooses(size.max_context - 1)) return;
  // At most, whatever the type of the KV cache.
  w.chosen_copies_stride = c.Most([&](const LayerConfig& layer) {
    int64_t most = 0;
    for (const KvType type : kAllKvTypes) {
      most = std::max(most, KeyBytes(type, layer.heads.size, indexer.top_k) +
                                ValueBytes(type, layer.heads.v_size, indexer.top_k));
    }
    return ToLines(most);
  });
  layout.Add(w.index_products, size.threads * indexer.n_heads * kIndexSpan);
  layout.Add(w.index_scores, size.threads * size.max_context);
  layout.Add(w.index_order, size.threads * size.max_context);
  layout.Add(w.chosen_keys, batch * indexer.top_k);
  layout.Add(w.chosen_copies, size.threads * w.chosen_copies_stride);
}

void AddExperts(const ModelConfig& c, int64_t batch, Layout& layout, Workspace& w) {
  const int64_t pairs = ExpertPairs(c, batch);
  layout.Add(w.router, batch * c.experts.n);
  layout.Add(w.router_scratch, batch * c.experts.n);
  layout.Add(w.shared_gate, batch);
  layout.Add(w.choices, batch * c.experts.n_used);
  layout.Add(w.pair_of_choice, batch * c.experts.n_used);
  layout.Add(w.token_of_pair, batch * c.experts.n_used);
  layout.Add(w.pair_rows, pairs * c.experts.width);
  layout.Add(w.pair_gate, pairs * c.experts.d_ff);
  layout.Add(w.pair_up, c.family->is_gated ? pairs * c.experts.up_width() : 0);
  if (c.experts.width == c.d_model && !c.family->keeps_dense_block) return;
  layout.Add(w.latent, batch * c.experts.width);
  layout.Add(w.latent_sum, batch * c.experts.width);
}

void AddRecurrence(const ModelConfig& c, int64_t batch, int threads, Layout& layout, Workspace& w) {
  const RecurrenceConfig& of = c.recurrence;
  const bool is_mamba = c.family->recurrence == Recurrence::kMamba;
  const bool by_channel = c.family->recurrence == Recurrence::kChannelDelta;
  layout.Add(w.interleaved, of.is_interleaved ? batch * (of.convolved + of.inner) : 0);
  layout.Add(w.mixed, batch * of.convolved);
  layout.Add(w.convolved, batch * of.convolved);
  layout.Add(w.recurrent_gate, batch * of.inner);
  layout.Add(w.gate_latent, by_channel ? batch * of.rank : 0);
  layout.Add(w.steps, batch * (is_mamba     ? of.rank + 2 * of.keys
                               : by_channel ? of.rank
                                            : 2 * of.heads));
  layout.Add(w.factors, batch * std::max({of.heads, of.rank, of.heads == 0 ? of.inner : 0}));
  layout.Add(w.rates, batch * (is_mamba || by_channel ? of.inner : of.heads));
  // Of Mamba factors and values of columns; elsewhere decay, probe, correction and values of a
  // head.
  w.step_scratch_stride =
      is_mamba ? (of.keys + 1) * kSteppedColumns : (3 * of.keys + of.values() + 15) / 16 * 16;
  layout.Add(w.step_scratch, threads * w.step_scratch_stride);
}

void AddTimeMix(const ModelConfig& c, int64_t batch, Layout& layout, Workspace& w) {
  layout.Add(w.shifted, kShiftedInputs * batch * c.d_model);
  for (float** part : {&w.mixed_q, &w.mixed_k, &w.mixed_v, &w.first_values}) {
    layout.Add(*part, batch * c.d_model);
  }
  layout.Add(w.low_ranks, batch * c.recurrence.ranks.sum());
}

size_t LayOut(const ModelConfig& c, const WorkspaceSize& size, std::byte* block, Workspace& w) {
  const int64_t batch = size.max_batch;
  const int64_t out_width = MostOutWidth(c);
  const auto most = [&](auto of_heads) {
    return c.Most([&](const LayerConfig& layer) {
      return layer.heads.n == 0 ? 0 : std::invoke(of_heads, layer.heads);
    });
  };
  const int64_t latent_heads =
      c.Most([](const LayerConfig& layer) { return layer.is_latent ? layer.heads.n : 0; });
  // The quantized copy of any activations: its size need not grow with k where k is no multiple of
  // a block, so the largest of the three counts.
  const int64_t pairs = ExpertPairs(c, batch);
  const auto copy_bytes = [&](int64_t n_tokens, int64_t k) {
    return ActivationBytes(n_tokens, k, size.may_split);
  };
  const int64_t hidden = copy_bytes(batch, c.widest_block());
  const int64_t beside =
      std::max({copy_bytes(batch, c.d_model), copy_bytes(batch, out_width),
                copy_bytes(batch, c.recurrence.inner), copy_bytes(batch, c.recurrence.rank),
                copy_bytes(batch, c.experts.width),
                LatentActivationBytes(c.latent, latent_heads, batch, size.may_split),
                copy_bytes(batch, c.layer_embedding), copy_bytes(batch, c.laurel_rank),
                TimeMixActivationBytes(c, batch, size.may_split)});
  w.matmul_scratch_stride = ToLines(size.product_bytes);
  w.attention_scratch_stride = ToLines(most([&](const HeadShape& heads) {
    const int64_t of_group = AttentionScratchBytes(heads.group(), heads.size, heads.v_size);
    if (c.indexer.top_k == 0) return of_group;
    const int64_t part = std::min(heads.group(), kSparseHeads);
    return std::max(of_group, AttentionScratchBytes(part, heads.size, heads.v_size));
  }));
  w.attention_states_stride =
      (AttentionSpanOf(size.max_context - 1) + 1) * most([](const HeadShape& heads) {
        return heads.group() * AttentionStateFloats(heads.v_size);
      });
  Layout layout(block);
  layout.Add(w.x, c.n_streams * batch * c.d_model);
  layout.Add(w.normed, batch * c.d_model);
  layout.Add(w.q, batch * most(&HeadShape::q_width));
  layout.Add(w.k, batch * most(&HeadShape::k_width));
  layout.Add(w.v, batch * most(&HeadShape::v_width));
  layout.Add(w.attended,
             batch * std::max(most(&HeadShape::out_width), latent_heads * c.latent.still_size()));
  const int64_t gate_width =
      c.family->joins_query_gates ? 2 * most(&HeadShape::q_width) : out_width;
  layout.Add(w.attention_gate, c.gates_attention() ? batch * gate_width : 0);
  AddLatent(c.latent, latent_heads, batch, layout, w);
  AddIndexer(c, size, layout, w);
  layout.Add(w.gate, batch * c.widest_block());
  layout.Add(w.up, c.family->is_gated ? batch * c.widest_block() : 0);
  layout.Add(w.projected, batch * c.d_model);
  layout.Add(w.layer_inputs, batch * c.n_layers * c.layer_embedding);
  layout.Add(w.layer_projected, batch * c.n_layers * c.layer_embedding);
  layout.Add(w.layer_gate, batch * c.layer_embedding);
  const bool recurs_beside =
      c.family->attention_layers == AttentionLayers::kAll && c.recurrence.taps != 0;
  layout.Add(w.beside, recurs_beside || c.laurel_rank != 0 ? batch * c.d_model : 0);
  layout.Add(w.laurel, batch * c.laurel_rank);
  layout.Add(w.predicted, c.n_streams > 1 ? batch * c.d_model : 0);
  layout.Add(w.cos_sin, std::ssize(c.ropes) * batch * c.most_rope_dim());
  layout.Add(w.attention_scratch, size.threads * static_cast<int64_t>(w.attention_scratch_stride));
  layout.Add(w.attention_states, MostSplitHeads(size.threads) * w.attention_states_stride);
  if (c.experts.n == 0) {
    layout.Add(w.quantized, std::max(beside, hidden));
    w.quantized_hidden = w.quantized;
  } else {
    // What experts read stays beside what they and the block beside them make of it.
    layout.Add(w.quantized, beside);
    layout.Add(w.quantized_hidden, std::max({hidden, copy_bytes(pairs, c.experts.width),
                                             copy_bytes(pairs, c.experts.d_ff)}));
    AddExperts(c, batch, layout, w);
  }
  if (c.family->recurrence == Recurrence::kTimeMix) {
    AddTimeMix(c, batch, layout, w);
  } else if (c.recurrence.taps != 0) {
    AddRecurrence(c, batch, size.threads, layout, w);
  }
  layout.Add(w.matmul_scratch, size.threads * static_cast<int64_t>(w.matmul_scratch_stride));
  return layout.bytes();
}

}  // namespace

int64_t ExpertPairs(const ModelConfig& config, int64_t max_batch) {
  return std::max(max_batch, config.experts.n_used);
}

bool MaySplitActivations(const KernelTable& kernels, const TileMap& map) {
  return std::ranges::any_of(map.matrices(), [&](const WeightMatrix& matrix) {
    return FastestCopy(kernels, matrix.type) == ActivationCopy::kSplit;
  });
}

int64_t ProductScratchBytes(const ModelConfig& config, const TileMap& map) {
  int64_t bytes = MatMulScratchBytes(MaxColumns(config));
  for (const WeightMatrix& matrix : map.matrices()) {
    if (!matrix.may_be_coded()) continue;
    bytes = std::max(bytes, CodedScratchBytes(matrix.frozen->kind, matrix.cols));
  }
  return bytes;
}

uint64_t WorkspaceBytes(const ModelConfig& config, const WorkspaceSize& size) {
  Workspace unused;
  return LayOut(config, size, nullptr, unused);
}

Result<Workspace> AllocateWorkspace(const ModelConfig& config, const WorkspaceSize& size) {
  Workspace w;
  THAW_ASSIGN(w.memory, AlignedBuffer::Allocate(WorkspaceBytes(config, size), "activations"));
  LayOut(config, size, w.memory.data(), w);
  return w;
}

}  // namespace thaw
