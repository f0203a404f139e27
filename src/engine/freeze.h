// Freezing a model: its matrices as entropy-coded tiles (docs/format.md), everything else as it is.
//
// Which tensors are frozen says freeze_plan.h, by which step freeze_recipe.h and
// freeze_allocation.h. Finished tensors go to a folder beside the output (freeze_journal.h); a run
// that was stopped goes on from them. The output appears when it is whole. What is written depends
// on the input and the goal alone: not on threads, budget or interruptions.
//
// One run at a time for an output. Costs: the rate of the quantizer on all threads, disk room for
// the output twice, and memory of a stream for each thread (kResourceExhausted says how much where
// the budget is less).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "codec/frozen_format.h"
#include "engine/budget.h"
#include "tensor/element_type.h"

namespace thaw {

struct FreezeGoal {
  enum class Kind {
    kLikeType,  // each tensor with the error that StepForType (freeze_recipe.h) tells of `type`
    kBits,      // each with so many bits a weight
    kFileSize,  // the least error that a file of `file_bytes` allows
    kLossless,  // BF16 exactly
  };
  Kind kind = Kind::kLikeType;
  ElementType type = ElementType::kQ4_K;
  double bits = 0;  // kLeastBits to kMostBits (freeze_allocation.h), all counted
  uint64_t file_bytes = 0;
};

struct FreezeOptions {
  std::string input;
  std::string output;
  FreezeGoal goal;
  std::vector<std::string> kept;  // patterns of tensors' names
  std::string importance;         // an importance matrix's file; "" for none
  BudgetRequest budget;
  int threads = 0;  // 0: all that may be used
  bool verify = false;
  const std::atomic<bool>* cancel = nullptr;  // stops the run when it is set; may be null
};

struct FrozenTensorReport {
  std::string name;
  FrozenKind kind = FrozenKind::kEcq;
  ElementType source_type = ElementType::kF32;
  int64_t weights = 0;
  uint64_t bytes = 0;
  double bits_per_weight = 0;  // all counted
  double relative_rmse = 0;    // of the input's weights; columns weighted where there is importance
  double type_rmse = 0;        // asked for by way of a type; 0 for none
  double seconds = 0;          // that encoding it took, in whichever run
};

struct KeptTensorReport {
  std::string name;
  ElementType source_type = ElementType::kF32;
  int64_t weights = 0;
  uint64_t bytes = 0;
  std::string reason;
};

struct FreezeReport {
  std::vector<FrozenTensorReport> tensors = {};  // in the order of the file, as the kept ones
  std::vector<KeptTensorReport> kept = {};
  double bits_per_weight = 0;  // of all that is frozen; 0 where nothing is
  double relative_rmse = 0;    // sqrt(sum of squared errors / sum of squares) of all that is frozen
  uint64_t bytes = 0;          // of the output
  uint64_t input_bytes = 0;
  double seconds = 0;  // of this run
  bool is_verified = false;
};

// What a run does, one after the other. Progress is counted in weights, of kWriting in bytes.
enum class FreezePhase { kMeasuring, kFreezing, kWriting, kVerifying };

// How a run tells what it does; called by the thread that called FreezeModel.
struct FreezeEvents {
  std::function<void(FreezePhase phase, uint64_t done, uint64_t total)> on_progress;
  // A sentence about what was found, for people.
  std::function<void(std::string_view sentence)> on_note;
};

// The errors of what it reads and writes; kInvalidArgument for an output that is the input, for an
// input that is frozen, for a pattern that names nothing, and for a file size that cannot be
// reached, with the least that can; kCancelled when it was stopped: finished tensors wait for the
// next run.
Result<FreezeReport> FreezeModel(const FreezeOptions& options, const FreezeEvents& events);

}  // namespace thaw
