// From a sample of a tensor to the recipe by which it is coded: its step for a number of bits, for
// the error of a type, or for a place on its curve of bits and errors.
//
// A sample is up to 256 Ki weights in groups of 16 rows, evenly spread over the tensor: always the
// same ones. Pure but for reading; any thread may call. Costs: learning from a sample is a search
// of the trellis for it, some 10 to 30 ms, and a step takes several; memory is that of a stream.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "base/thread_pool.h"
#include "engine/freeze_allocation.h"
#include "engine/freeze_plan.h"
#include "engine/freeze_tensor.h"
#include "engine/imatrix.h"
#include "gguf/gguf_file.h"
#include "tensor/element_type.h"

namespace thaw {

// Where recipes are made from. Both must outlive what is called with it.
struct RecipeSource {
  const GgufFile* file = nullptr;
  const ImportanceMatrix* importance = nullptr;  // may be null
};

// What a weight of a stream takes beside what is coded: the states, its tile's share of the head.
double OverheadBits(const TensorPlan& plan);

// The step with which a weight takes `bits`, all counted.
Result<double> StepForBits(const RecipeSource& source, const TensorPlan& plan, double bits);

// No type is asked for a smaller error: that of Q6_K, which takes about 6 bits. A bit more, and
// frozen tensors reach the end of their 8-bit integers.
inline constexpr double kLeastTypeError = 0.018;

// The step with the relative RMSE that quantizing to `type` has; of values and the output matrix
// with a quarter of it; with kLeastTypeError where that is less.
struct StepLikeType {
  double step = 0;
  double wanted_rmse = 0;
  bool is_coarser = false;  // than the type, which errs less than kLeastTypeError
};
Result<StepLikeType> StepForType(const RecipeSource& source, const TensorPlan& plan,
                                 ElementType type);

// What the tensor's bits buy.
Result<RateCurve> MeasureCurve(const RecipeSource& source, const TensorPlan& plan);

// `step` is of no matter to bf16. Where the importance matrix has columns for each expert, each
// gets a quantizer of its own, by all threads of the pool. An F32 tensor of which the sample shows
// that it is no BF16 gets a recipe all the same: FreezeTensor finds out.
Result<FreezeRecipe> MakeRecipe(const RecipeSource& source, const TensorPlan& plan, double step,
                                ThreadPool& pool);

}  // namespace thaw
