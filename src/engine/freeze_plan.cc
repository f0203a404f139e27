#include "engine/freeze_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "model/weights.h"
#include "residency/placement.h"

namespace thaw {
namespace {

// A smaller matrix is no place to save: a 64 Ki of weights, with the states of its one stream (1
// KiB) taking 0.125 bits of each.
constexpr int64_t kLeastWeights = 64 << 10;

// Coded bytes of a tile, about; residency cuts other weights into tiles of the same size.
constexpr double kTileBytes = 512 << 10;

// The 1 KiB of states of a stream takes 0.016 bits a weight of ecq, and 0.4 % of it at 3.9 bits. A
// stream of bf16, 10.6 bits a weight, fills a tile alone.
constexpr int64_t kEcqWeightsOfStream = 512 << 10;
constexpr int64_t kBf16WeightsOfStream = 384 << 10;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Of the divisors of n that are `most` or less.
int64_t LargestDivisor(int64_t n, int64_t most) {
  int64_t divisor = std::min(n, most);
  while (n % divisor != 0) --divisor;
  return divisor;
}

// How a forward pass uses a tensor.
struct TensorUse {
  MatrixUse use = MatrixUse::kMultiplied;
  int64_t rows_per_part = 0;  // of which the first rows of its matrices are multiples; 0: all are 0
  bool is_output = false;
  bool is_values = true;  // of all matrices that it holds
  double visited_share = 1;
  const WeightMatrix* experts = nullptr;  // of which it is one, that has a tensor of its own
};

using UseByName = std::map<std::string, TensorUse, std::less<>>;

// Indices of the matrices that make the values of attention.
std::set<int32_t> ValueMatrices(const ModelWeights& weights) {
  std::set<int32_t> values;
  for (const LayerWeights& layer : weights.layers) {
    if (layer.v.rows != 0) values.insert(layer.v.matrix);
    if (layer.latent && layer.latent->v.rows != 0) values.insert(layer.latent->v.matrix);
  }
  return values;
}

// By the tensors' names.
UseByName UsesOf(const GgufFile& file, const ModelDescription& model) {
  UseByName uses;
  const std::set<int32_t> values = ValueMatrices(model.weights);
  const auto add = [&](const std::string& name, const WeightMatrix& matrix) -> TensorUse& {
    const int64_t rows = file.FindTensor(name)->dims[1];
    TensorUse& use = uses[name];
    use.use = matrix.use;
    use.rows_per_part = std::gcd(use.rows_per_part, matrix.first_row % rows);
    const auto index = static_cast<int32_t>(&matrix - model.matrices.data());
    use.is_values = use.is_values && values.contains(index);
    use.is_output = matrix.group == WeightGroup::kOutput;
    if (matrix.is_chosen()) {
      use.visited_share =
          static_cast<double>(matrix.n_used) / static_cast<double>(matrix.n_experts);
    }
    return use;
  };
  for (const WeightMatrix& matrix : model.matrices) {
    for (const ExpertTensor& own : matrix.expert_tensors) add(own.name, matrix).experts = &matrix;
    if (matrix.expert_tensors.empty()) add(matrix.name, matrix);
  }
  return uses;
}

std::string ShapeReason(const TensorPlan& plan) {
  const auto rows = static_cast<uint64_t>(plan.rows);
  const auto cols = static_cast<uint64_t>(plan.cols);
  if (plan.dimensions < 2 || plan.dimensions > 3) {
    return fmt::format("it has {} dimensions", plan.dimensions);
  }
  if (plan.weights() < kLeastWeights) {
    return fmt::format("it has fewer than {} weights", kLeastWeights);
  }
  if (cols % kFrozenBlock != 0 || cols > kFrozenMaxCols) {
    return fmt::format("its {} columns are no multiple of {} up to {}", cols, kFrozenBlock,
                       kFrozenMaxCols);
  }
  if (rows % kFrozenGroupRows != 0 || rows > kFrozenMaxRows) {
    return fmt::format("its {} rows are no multiple of {} up to {}", rows, kFrozenGroupRows,
                       kFrozenMaxRows);
  }
  if (static_cast<uint64_t>(plan.matrices) > kFrozenMaxMatrices) {
    return fmt::format("its {} matrices are more than {}", plan.matrices, kFrozenMaxMatrices);
  }
  return "";
}

std::string UseReason(const TensorPlan& plan, const TensorUse* use) {
  if (use == nullptr) return "no pass multiplies it";
  if (use->use == MatrixUse::kLookedUp) return "it is looked up row by row";
  if (!plan.is_in_parts()) return "";
  if (plan.rows_per_part % kFrozenGroupRows != 0) {
    return fmt::format("its rows are those of several matrices, which begin at multiples of {}",
                       plan.rows_per_part);
  }
  if (RowsPerStream(plan) * plan.cols < kLeastWeights) {
    return fmt::format(
        "its rows are those of several matrices, and streams of {} rows, which begin where these "
        "do, have fewer than {} weights",
        RowsPerStream(plan), kLeastWeights);
  }
  return "";
}

std::string TypeReason(ElementType type, bool is_lossless) {
  if (!is_lossless || type == ElementType::kBF16 || type == ElementType::kF32) return "";
  return fmt::format("{} does not become smaller without loss", Info(type).name);
}

std::string KeptReason(const TensorPlan& plan, const TensorUse* use, const PlanRules& rules) {
  for (const std::string& pattern : rules.kept) {
    const bool is_named = std::ranges::any_of(plan.tensors, [&](const TensorInfo* tensor) {
      return MatchesPattern(tensor->name, pattern);
    });
    if (is_named) return fmt::format("--keep {}", pattern);
  }
  if (std::string reason = ShapeReason(plan); !reason.empty()) return reason;
  if (std::string reason = UseReason(plan, use); !reason.empty()) return reason;
  return TypeReason(plan.source_type(), rules.is_lossless);
}

// Of the tensor by itself; or, where it is one of experts, of all of these.
TensorPlan PlanOf(const GgufFile& file, const TensorInfo& tensor, const TensorUse* use,
                  const PlanRules& rules) {
  TensorPlan plan{.name = tensor.name,
                  .tensors = {&tensor},
                  .kept_because = "",
                  .kind = rules.is_lossless ? FrozenKind::kBf16 : FrozenKind::kEcq,
                  .dimensions = tensor.n_dims,
                  .cols = tensor.dims[0],
                  .rows = tensor.dims[1],
                  .matrices = tensor.dims[2],
                  .rows_per_part = tensor.dims[1]};
  if (use != nullptr) {
    if (use->rows_per_part != 0) plan.rows_per_part = use->rows_per_part;
    plan.visited_share = use->visited_share;
    plan.is_output = use->is_output;
    plan.is_values = use->is_values;
  }
  if (use != nullptr && use->experts != nullptr) {
    plan.name = use->experts->name;
    plan.tensors.clear();
    for (const ExpertTensor& own : use->experts->expert_tensors) {
      plan.tensors.push_back(file.FindTensor(own.name));
    }
    plan.dimensions = 3;
    plan.matrices = std::ssize(plan.tensors);
  }
  plan.kept_because = KeptReason(plan, use, rules);
  return plan;
}

Result<void> CheckNotFrozen(const GgufFile& file) {
  if (file.Find(kFrozenVersionKey) != nullptr) {
    return Fail(ErrorCode::kInvalidArgument, "{}: it is frozen already (it has the field '{}')",
                file.path(), kFrozenVersionKey);
  }
  for (const TensorInfo& tensor : file.tensors()) {
    if (tensor.type == ElementType::kI8 && tensor.n_dims == 1) {
      return Fail(ErrorCode::kUnsupported,
                  "{}: tensor '{}' is I8 of one dimension, which in the output would stand for a "
                  "frozen tensor",
                  file.path(), tensor.name);
    }
  }
  return {};
}

Result<void> CheckPatterns(const GgufFile& file, std::span<const std::string> patterns) {
  for (const std::string& pattern : patterns) {
    const bool matches = std::ranges::any_of(file.tensors(), [&](const TensorInfo& tensor) {
      return MatchesPattern(tensor.name, pattern);
    });
    if (matches) continue;
    return Fail(ErrorCode::kInvalidArgument,
                "{}: no tensor is named '{}' (`*` stands for any characters, names are those that "
                "`thaw inspect` lists)",
                file.path(), pattern);
  }
  return {};
}

}  // namespace

Result<std::vector<TensorPlan>> PlanFreezing(const GgufFile& file, const PlanRules& rules) {
  THAW_TRY(CheckNotFrozen(file));
  THAW_TRY(CheckPatterns(file, rules.kept));
  THAW_ASSIGN(const ModelDescription model, DescribeModel(file));
  const UseByName uses = UsesOf(file, model);
  std::vector<TensorPlan> plans;
  std::set<std::string> experts;  // names of what is planned for several tensors
  for (const TensorInfo& tensor : file.tensors()) {
    const auto found = uses.find(tensor.name);
    TensorPlan plan = PlanOf(file, tensor, found == uses.end() ? nullptr : &found->second, rules);
    if (!plan.is_frozen()) {
      plan.name = tensor.name;
      plan.tensors = {&tensor};
    } else if (plan.tensors.size() > 1 && !experts.insert(plan.name).second) {
      continue;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

uint64_t TensorPlan::source_bytes() const {
  uint64_t bytes = 0;
  for (const TensorInfo* tensor : tensors) bytes += tensor->bytes;
  return bytes;
}

int64_t RowsPerStream(const TensorPlan& plan) {
  const bool is_ecq = plan.kind == FrozenKind::kEcq;
  const int64_t weights = is_ecq ? kEcqWeightsOfStream : kBf16WeightsOfStream;
  const int64_t most = std::max<int64_t>(1, weights / plan.cols / kFrozenGroupRows);  // of groups
  if (plan.is_in_parts()) {
    return LargestDivisor(plan.rows_per_part / kFrozenGroupRows, most) * kFrozenGroupRows;
  }
  const int64_t groups = plan.rows / kFrozenGroupRows;
  return DivideUp(groups, DivideUp(groups, most)) * kFrozenGroupRows;
}

int64_t StreamsPerTile(const TensorPlan& plan, double stream_bytes) {
  const auto fitting = static_cast<int64_t>(kTileBytes / stream_bytes);
  const int64_t most = std::clamp<int64_t>(fitting, 1, kFrozenMaxStreamsPerTile);
  if (plan.is_in_parts()) return LargestDivisor(plan.rows_per_part / RowsPerStream(plan), most);
  const int64_t streams = DivideUp(plan.rows, RowsPerStream(plan));
  return DivideUp(streams, DivideUp(streams, most));
}

}  // namespace thaw
