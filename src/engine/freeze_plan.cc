#include "engine/freeze_plan.h"

#include <algorithm>
#include <map>
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

// How a forward pass uses a tensor.
struct TensorUse {
  MatrixUse use = MatrixUse::kMultiplied;
  bool is_whole = true;  // matrices of the pass are whole matrices of the tensor, none of heads
  bool is_output = false;
  double visited_share = 1;
};

using UseByName = std::map<std::string, TensorUse, std::less<>>;

// By the tensors' names. Experts in tensors of their own are not among them.
UseByName UsesOf(const GgufFile& file, std::span<const WeightMatrix> matrices) {
  UseByName uses;
  for (const WeightMatrix& matrix : matrices) {
    const TensorInfo* tensor = file.FindTensor(matrix.name);
    if (tensor == nullptr || !matrix.expert_tensors.empty()) continue;
    TensorUse& use = uses[matrix.name];
    use.use = matrix.use;
    use.is_output = matrix.group == WeightGroup::kOutput;
    use.is_whole = use.is_whole && !matrix.is_of_heads && matrix.rows % tensor->dims[1] == 0;
    if (matrix.is_chosen()) {
      use.visited_share =
          static_cast<double>(matrix.n_used) / static_cast<double>(matrix.n_experts);
    }
  }
  return uses;
}

std::string ShapeReason(const TensorInfo& tensor) {
  const auto matrices = static_cast<uint64_t>(tensor.dims[2]);
  const auto rows = static_cast<uint64_t>(tensor.dims[1]);
  const auto cols = static_cast<uint64_t>(tensor.dims[0]);
  if (tensor.n_dims < 2 || tensor.n_dims > 3) {
    return fmt::format("it has {} dimensions", tensor.n_dims);
  }
  if (tensor.elements() < kLeastWeights) {
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
  if (matrices > kFrozenMaxMatrices) {
    return fmt::format("its {} matrices are more than {}", matrices, kFrozenMaxMatrices);
  }
  return "";
}

std::string UseReason(const TensorInfo& tensor, const UseByName& uses) {
  const auto found = uses.find(tensor.name);
  if (found == uses.end()) return "no pass multiplies it as one matrix";
  if (found->second.use == MatrixUse::kLookedUp) return "it is looked up row by row";
  if (!found->second.is_whole) return "its rows are those of several matrices";
  return "";
}

std::string TypeReason(const TensorInfo& tensor, bool is_lossless) {
  if (!is_lossless || tensor.type == ElementType::kBF16 || tensor.type == ElementType::kF32) {
    return "";
  }
  return fmt::format("{} does not become smaller without loss", Info(tensor.type).name);
}

std::string KeptReason(const TensorInfo& tensor, const UseByName& uses, const PlanRules& rules) {
  for (const std::string& pattern : rules.kept) {
    if (MatchesPattern(tensor.name, pattern)) return fmt::format("--keep {}", pattern);
  }
  if (std::string reason = ShapeReason(tensor); !reason.empty()) return reason;
  if (std::string reason = UseReason(tensor, uses); !reason.empty()) return reason;
  return TypeReason(tensor, rules.is_lossless);
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
  const UseByName uses = UsesOf(file, model.matrices);
  std::vector<TensorPlan> plans;
  for (const TensorInfo& tensor : file.tensors()) {
    TensorPlan plan{.tensor = &tensor,
                    .kept_because = KeptReason(tensor, uses, rules),
                    .kind = rules.is_lossless ? FrozenKind::kBf16 : FrozenKind::kEcq,
                    .dimensions = tensor.n_dims,
                    .cols = tensor.dims[0],
                    .rows = tensor.dims[1],
                    .matrices = tensor.dims[2]};
    if (plan.is_frozen()) {
      const TensorUse& use = uses.find(tensor.name)->second;
      plan.visited_share = use.visited_share;
      plan.is_output = use.is_output;
    }
    plans.push_back(std::move(plan));
  }
  return plans;
}

int64_t RowsPerStream(FrozenKind kind, int64_t cols, int64_t rows) {
  const int64_t weights = kind == FrozenKind::kEcq ? kEcqWeightsOfStream : kBf16WeightsOfStream;
  const int64_t most =
      std::max(kFrozenGroupRows, weights / cols / kFrozenGroupRows * kFrozenGroupRows);
  return DivideUp(DivideUp(rows, DivideUp(rows, most)), kFrozenGroupRows) * kFrozenGroupRows;
}

int64_t StreamsPerTile(int64_t streams, double stream_bytes) {
  const auto fitting = static_cast<int64_t>(kTileBytes / stream_bytes);
  const int64_t most = std::clamp<int64_t>(fitting, 1, kFrozenMaxStreamsPerTile);
  return DivideUp(streams, DivideUp(streams, most));
}

}  // namespace thaw
