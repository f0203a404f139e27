#include "engine/memory_plan.h"

#include <algorithm>
#include <array>
#include <optional>

#include "base/log.h"
#include "base/units.h"
#include "model/kv_cache.h"
#include "model/workspace.h"
#include "residency/weight_cache.h"

namespace thaw {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

// Most models state contexts whose KV cache would dwarf their weights.
constexpr int64_t kDefaultMaxContext = 4096;

// A context that nobody asked for is lowered no further than this to fit a budget.
constexpr int64_t kLeastDefaultContext = 256;

// The larger ones amortize unpacking and reading weights over many tokens with working memory that
// stays taken when the budget is lowered, 27 MiB of 256 tokens for a 1.1B model; the least keeps
// the floor low. Those up to 160 fill the tiles of all kernels, of 5 tokens or of 16; of the larger
// ones but the last tile is not full.
constexpr std::array<int64_t, 6> kPrefillChunks = {512, 256, 160, 80, 40, 8};

// The largest of models without experts, which would gain a hundredth more. Of a mixture each
// expert sees a share of a chunk alone.
constexpr int64_t kMostDenseChunk = 256;

// Where weights are streamed these take no larger chunk than this, and the working memory of any
// beyond the least chunk's takes no more than this part of what lies above the floor: more of it
// would hide no more reading behind computing, and weights use the memory better. Of mixtures any
// chunk hides more: it needs nearly all experts, and multiplies each with a share of its tokens.
constexpr int64_t kMostStreamedChunk = 160;
constexpr uint64_t kScratchShare = 8;

// Positions whose logits are computed at a time where all are wanted: as many as fit into this part
// of the budget. Where weights are streamed and nothing else is wanted, they may take as much as a
// chunk's working memory: all weights are read for each of so many.
constexpr int64_t kMostLogitsChunk = 32;
constexpr uint64_t kLogitsShare = 256;

// What the program touches only later, measured over short and long answers: code and library
// pages, the heap of tokens and text, and per thread a stack.
constexpr uint64_t kGrowthBytes = 2 * kMiB;
constexpr uint64_t kGrowthBytesPerThread = 128 << 10;
// The cache's and the model's tables for each tile, and the sampler's for each vocabulary entry.
constexpr uint64_t kGrowthBytesPerTile = 512;
constexpr uint64_t kGrowthBytesPerVocabularyEntry = 24;

// Page tables, ring buffers and other kernel memory that a cgroup charges: 0.3 to 0.9 MiB measured
// with huge pages, and 8 bytes for each 4 KiB where there are none.
constexpr uint64_t kKernelBytes = kMiB;
constexpr uint64_t kKernelShare = 512;

// The program's own size differs by this much from run to run; a budget that missed the floor by
// less than it is taken for the floor.
constexpr uint64_t kMeasurementBytes = kMiB;

// What logits may take, and of how many positions.
struct LogitsRoom {
  uint64_t bytes = 0;
  int64_t most_positions = kMostLogitsChunk;
};

// All shares but the weights'.
MemoryPlan FixedShares(const MemoryPlanInput& in, int64_t context, int64_t chunk,
                       const LogitsRoom& room) {
  const ModelConfig& config = *in.config;
  MemoryPlan plan;
  plan.context = context;
  plan.prefill_chunk = std::min(chunk, context);
  plan.program_bytes = in.resident_bytes;
  plan.growth_bytes =
      kGrowthBytes + kGrowthBytesPerThread * static_cast<uint64_t>(in.threads) +
      kGrowthBytesPerTile * static_cast<uint64_t>(in.map->tile_count()) +
      kGrowthBytesPerVocabularyEntry * static_cast<uint64_t>(config.n_vocab) +
      static_cast<uint64_t>(WeightCache::MostThawers(in.io_threads)) * in.map->thaw_scratch_bytes();
  plan.kv_bytes = KvCache::Bytes(
      config, {.type = in.kv_type, .n_positions = context, .max_batch = plan.prefill_chunk});
  plan.row_cache_bytes = RowCache::Bytes(*in.map);
  plan.reserved_bytes = in.reserved_bytes;
  plan.scratch_bytes =
      WorkspaceBytes(config, {.max_batch = plan.prefill_chunk,
                              .max_context = context,
                              .threads = in.threads,
                              .product_bytes = ProductScratchBytes(config, *in.map),
                              .may_split = in.may_split});
  const uint64_t row = static_cast<uint64_t>(config.n_vocab) * sizeof(float);
  plan.logits_chunk = std::clamp(static_cast<int64_t>(room.bytes / row), int64_t{1},
                                 std::min(plan.prefill_chunk, room.most_positions));
  plan.logits_bytes = static_cast<uint64_t>(plan.logits_chunk) * row;
  const uint64_t mapped = in.map->most_span_bytes() + plan.kv_bytes + plan.scratch_bytes;
  plan.kernel_bytes = kKernelBytes + (in.huge_pages ? 0 : mapped / kKernelShare);
  return plan;
}

uint64_t SumOfShares(const MemoryPlan& plan) {
  return plan.program_bytes + plan.growth_bytes + plan.kernel_bytes + plan.kv_bytes +
         plan.scratch_bytes + plan.logits_bytes + plan.row_cache_bytes + plan.reserved_bytes;
}

// With a chunk as stated, or as small as any, and few logits at a time.
MemoryPlan LeastShares(const MemoryPlanInput& in, int64_t context) {
  const int64_t chunk = in.prefill_chunk > 0 ? in.prefill_chunk : kPrefillChunks.back();
  return FixedShares(in, context, chunk, {});
}

uint64_t Floor(const MemoryPlanInput& in, int64_t context) {
  const uint64_t least =
      SumOfShares(LeastShares(in, context)) + MinimumCapacity(*in.map, *in.policy, in.pinned);
  // What was held while the model was opened is part of the peak, too.
  return std::max(least, in.peak_resident_bytes) + kMeasurementBytes;
}

Result<void> FailBelowFloor(const MemoryPlanInput& in, uint64_t budget, uint64_t floor,
                            int64_t context) {
  std::string advice = "a shorter context (-c) needs less";
  if (in.kv_type == KvType::kF32) advice += ", and so does --kv-type f16";
  if (in.kv_type != KvType::kQ8_0 && KvCache::CheckType(*in.config, KvType::kQ8_0)) {
    advice += ", and so does --kv-type q8_0";
  }
  if (in.prefill_chunk > kPrefillChunks.back()) advice += ", and a smaller --prefill-chunk";
  if (std::ranges::count(in.pinned, 1) > 0) advice += ", and pinning fewer weights";
  return Fail(ErrorCode::kResourceExhausted,
              "a budget of {} is below the floor of {} ({} bytes): the program takes {}, the KV "
              "cache of {} positions {}, the least of weights {}; {}",
              FormatBytes(budget), FormatBytes(floor), floor, FormatBytes(in.resident_bytes),
              context, FormatBytes(LeastShares(in, context).kv_bytes),
              FormatBytes(MinimumCapacity(*in.map, *in.policy, in.pinned)), advice);
}

// The plan with a chunk and room for logits, its weights placed.
Result<MemoryPlan> PlaceWeights(const MemoryPlanInput& in, uint64_t budget, uint64_t floor,
                                int64_t context, int64_t chunk, const LogitsRoom& room) {
  MemoryPlan plan = FixedShares(in, context, chunk, room);
  plan.budget_bytes = budget;
  plan.floor_bytes = floor;
  const uint64_t fixed = SumOfShares(plan);
  const uint64_t minimum = MinimumCapacity(*in.map, *in.policy, in.pinned);
  plan.weight_capacity_bytes = std::max(budget - std::min(budget, fixed), minimum);
  const std::vector<TileUse> unseen(static_cast<size_t>(in.map->tile_count()));
  THAW_ASSIGN(const PlacementTargets targets,
              ChoosePlacement(*in.map, *in.policy, unseen, in.pinned, plan.weight_capacity_bytes));
  plan.weight_capacity_bytes = targets.capacity_bytes;
  plan.weight_bytes = in.map->weight_bytes();
  CountForms(*in.map, plan);
  plan.shares = targets.shares;
  plan.slot_bytes = targets.slot_bytes;
  return plan;
}

}  // namespace

void CountForms(const TileMap& map, MemoryPlan& plan) {
  plan.coded_bytes = 0;
  plan.thawed_bytes = 0;
  for (int32_t i = 0; i < map.tile_count(); ++i) {
    if (!map.matrix_of(i).has_forms()) continue;
    const Tile& tile = map.tile(i);
    (tile.is_thawed ? plan.thawed_bytes : plan.coded_bytes) += tile.memory_bytes;
  }
}

Result<MemoryPlan> MakeMemoryPlan(const MemoryPlanInput& in) {
  const int64_t wanted =
      in.context > 0 ? in.context : std::min(in.config->context_length, kDefaultMaxContext);
  const uint64_t floor = Floor(in, wanted);
  const uint64_t budget = BudgetBytes(in.budget, {.available_bytes = in.available_bytes,
                                                  .default_bytes = in.default_budget_bytes,
                                                  .floor_bytes = floor,
                                                  .weight_bytes = in.map->weight_bytes()});
  const auto fits = [&](int64_t context) {
    return budget + kMeasurementBytes >= Floor(in, context);
  };
  int64_t context = wanted;
  while (in.context == 0 && !fits(context) && context / 2 >= kLeastDefaultContext) context /= 2;
  if (!fits(context)) THAW_TRY(FailBelowFloor(in, budget, Floor(in, context), context));
  if (context < wanted) {
    LogWarning("the context is {} positions instead of {}, to fit into {}", context, wanted,
               FormatBytes(budget));
  }
  const uint64_t above_floor = budget - std::min(budget, Floor(in, context));
  const LogitsRoom room = {.bytes = budget / kLogitsShare};
  const auto with_all_logits = [&](const MemoryPlan& plan) -> Result<MemoryPlan> {
    if (!in.all_logits || plan.shares.HoldsAll()) return plan;
    const LogitsRoom larger = {.bytes = std::max(room.bytes, above_floor / kScratchShare),
                               .most_positions = plan.prefill_chunk};
    return PlaceWeights(in, budget, floor, context, plan.prefill_chunk, larger);
  };
  if (in.prefill_chunk > 0) {
    THAW_ASSIGN(const MemoryPlan plan,
                PlaceWeights(in, budget, floor, context, in.prefill_chunk, room));
    return with_all_logits(plan);
  }
  const uint64_t least_scratch = FixedShares(in, context, kPrefillChunks.back(), {}).scratch_bytes;
  const bool has_experts = in.config->experts.n > 0;
  std::optional<MemoryPlan> best;
  for (const int64_t chunk : kPrefillChunks) {
    if (chunk > kMostDenseChunk && !has_experts) continue;
    THAW_ASSIGN(const MemoryPlan plan, PlaceWeights(in, budget, floor, context, chunk, room));
    if (plan.shares.HoldsAll()) return plan;
    const bool is_modest = (chunk <= kMostStreamedChunk || has_experts) &&
                           plan.scratch_bytes - least_scratch <= above_floor / kScratchShare;
    if (!best && (is_modest || chunk == kPrefillChunks.back())) best = plan;
    // Smaller chunks that keep everything in memory are worth it only while they are not tiny.
    if (best && chunk <= 32) break;
  }
  return with_all_logits(*best);
}

}  // namespace thaw
