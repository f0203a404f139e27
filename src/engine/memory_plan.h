// Where every byte of a budget goes: what the engine allocates, and what `thaw plan` prints.
//
// The shares are those of the whole process: its program, libraries and tables as measured when
// the plan is made, memory that the system will hold on its behalf, the KV cache of one sequence of
// the full context, working memory, and what is left for weights. MakeMemoryPlan is the only place
// where they are computed.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "engine/budget.h"
#include "kernels/attention.h"
#include "model/config.h"
#include "residency/placement.h"

namespace thaw {

struct MemoryPlan {
  uint64_t budget_bytes = 0;
  uint64_t floor_bytes = 0;  // the least budget with this context, KV type and these threads

  // The shares; they add up to no more than the budget.
  uint64_t program_bytes = 0;  // program, libraries, metadata, tokenizer: measured
  uint64_t growth_bytes = 0;   // what the program will still touch: code, heap, stacks, tables
  uint64_t kernel_bytes = 0;   // page tables and the like, charged to a cgroup
  uint64_t kv_bytes = 0;       // of one sequence
  uint64_t scratch_bytes = 0;  // activations
  uint64_t logits_bytes = 0;
  uint64_t row_cache_bytes = 0;        // of tables that are looked up by row
  uint64_t reserved_bytes = 0;         // for whoever asked for them: MemoryPlanInput
  uint64_t weight_capacity_bytes = 0;  // places and slots

  int64_t context = 0;        // positions of a sequence
  int64_t prefill_chunk = 0;  // tokens of one forward pass over a prompt
  int64_t logits_chunk = 0;   // positions whose logits are computed at a time

  uint64_t weight_bytes = 0;
  uint64_t coded_bytes = 0;   // of them, that stay coded in memory, of weights with two forms
  uint64_t thawed_bytes = 0;  // in memory, of such weights that are thawed when they are read
  uint64_t slot_bytes = 0;    // for weights without memory of their own
  WeightShares shares = {};

  uint64_t claimed_bytes() const {
    return program_bytes + growth_bytes + kernel_bytes + kv_bytes + scratch_bytes + logits_bytes +
           row_cache_bytes + reserved_bytes + weight_capacity_bytes;
  }

  // Weights read for each decoded token: what is streamed, where the policy keeps a plan, and of
  // experts as much as under uniform use.
  uint64_t bytes_read_per_token() const {
    return static_cast<uint64_t>(shares.read_bytes_per_token);
  }
};

// What a plan is made from.
struct MemoryPlanInput {
  const ModelConfig* config = nullptr;
  const TileMap* map = nullptr;
  const Policy* policy = nullptr;
  std::vector<char> pinned = {};     // [tiles]
  uint64_t resident_bytes = 0;       // of the process now, everything above already loaded
  uint64_t peak_resident_bytes = 0;  // of the process so far
  uint64_t available_bytes = 0;      // what `50%` is a part of
  uint64_t default_budget_bytes = 0;
  bool huge_pages = false;  // whether the system gives them
  int threads = 1;
  int io_threads = 0;
  KvType kv_type = KvType::kF16;
  bool may_split = false;       // MaySplitActivations
  int64_t context = 0;          // 0: the model's, at most 4096, less where it does not fit
  int64_t prefill_chunk = 0;    // 0: what the budget has room for
  bool all_logits = false;      // whether the logits of all positions are wanted, not of few
  uint64_t reserved_bytes = 0;  // kept free for the caller
  BudgetRequest budget = {};
};

// What of the plan the forms of weights decide: coded_bytes and thawed_bytes.
void CountForms(const TileMap& map, MemoryPlan& plan);

// kResourceExhausted below the floor: states it, and what could be lowered.
Result<MemoryPlan> MakeMemoryPlan(const MemoryPlanInput& input);

}  // namespace thaw
