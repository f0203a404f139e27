#include "model/tensor_finder.h"

#include <algorithm>
#include <memory>
#include <span>
#include <utility>

#include "kernels/dequantize.h"
#include "kernels/kernel_table.h"

namespace thaw {

using enum Presence;

Result<std::vector<float>> TensorFinder::Vector(const std::string& name, int64_t size,
                                                Presence presence) {
  return Floats(name, {size, 1, 1, 1}, presence);
}

Result<std::vector<float>> TensorFinder::Floats(const std::string& name, const Dimensions& shape,
                                                Presence presence) {
  THAW_ASSIGN(const TensorInfo* tensor, Find(name, shape, presence));
  if (tensor == nullptr) return std::vector<float>();
  if (tensor->frozen != nullptr) return CannotBeFrozen(name, "is read as floats");
  std::vector<std::byte> bytes(tensor->bytes);
  THAW_TRY(file_.ReadTensor(*tensor, 0, bytes));
  int64_t size = 1;
  for (const int64_t extent : shape) size *= extent;
  std::vector<float> values(static_cast<size_t>(size));
  if (auto done = Dequantize(tensor->type, bytes, values); !done) {
    return Fail(std::move(done).error().In(Where(name)));
  }
  model_.vector_bytes += values.size() * sizeof(float);
  return values;
}

Result<NormWeights> TensorFinder::Norm(const std::string& stem) {
  const int64_t d = model_.config.d_model;
  const NormKind kind = model_.config.family->norm;
  NormWeights norm;
  if (kind == NormKind::kUnweightedLayer) return norm;
  const bool is_short = !Has(stem + ".weight") && Has(stem);
  THAW_ASSIGN(norm.weight, Vector(is_short ? stem : stem + ".weight", d, kRequired));
  if (kind == NormKind::kBiasedLayer || kind == NormKind::kBiasedRms) {
    THAW_ASSIGN(norm.bias, Vector(stem + ".bias", d, kRequired));
  }
  return norm;
}

void TensorFinder::EnterGroup(int64_t layer, WeightGroup group) {
  layer_ = static_cast<int32_t>(layer);
  group_ = group;
}

Result<int32_t> TensorFinder::Matrix(const std::string& name, int64_t rows, int64_t cols,
                                     MatrixUse use) {
  THAW_ASSIGN(const TensorInfo* tensor, FindMatrix(name, rows, cols));
  return Add(*tensor, 0, rows, use);
}

Result<LinearWeights> TensorFinder::Linear(const std::string& stem, int64_t rows, int64_t cols,
                                           Presence bias) {
  LinearWeights linear{.rows = rows, .cols = cols};
  THAW_ASSIGN(linear.matrix, Matrix(stem + ".weight", rows, cols));
  THAW_ASSIGN(linear.bias, Vector(stem + ".bias", rows, bias));
  THAW_ASSIGN(linear.scale, Vector(stem + ".scale", 1, kOptional));
  return linear;
}

Result<LinearWeights> TensorFinder::Experts(const std::string& stem, int64_t rows, int64_t cols,
                                            Presence bias) {
  const int64_t n = model_.config.experts.n;
  const std::string of_all = stem + "_exps";
  LinearWeights linear{.rows = rows, .cols = cols};
  if (!Has(of_all + ".weight") && Has(stem + ".0.weight")) {
    THAW_ASSIGN(linear.matrix, ExpertsApart(stem, rows, cols));
  } else {
    THAW_ASSIGN(const TensorInfo* tensor, FindMultiplied(of_all + ".weight", {cols, rows, n, 1}));
    THAW_ASSIGN(linear.matrix, Add(*tensor, 0, n * rows));
  }
  model_.matrices.back().n_experts = n;
  model_.matrices.back().n_used = model_.config.experts.n_used;
  THAW_ASSIGN(linear.bias, Floats(of_all + ".bias", {rows, n, 1, 1}, bias));
  THAW_ASSIGN(linear.scale, Vector(of_all + ".scale", n, kOptional));
  return linear;
}

Result<LinearWeights> TensorFinder::Heads(const std::string& stem, int64_t n, int64_t rows,
                                          int64_t cols) {
  THAW_ASSIGN(const TensorInfo* tensor, FindMultiplied(stem + ".weight", {cols, rows, n, 1}));
  LinearWeights linear{.rows = n * rows, .cols = cols, .n_heads = n};
  THAW_ASSIGN(linear.matrix, Add(*tensor, 0, n * rows));
  return linear;
}

Result<std::vector<LinearWeights>> TensorFinder::Stacked(const std::string& stem, int64_t n,
                                                         int64_t rows, int64_t cols) {
  THAW_ASSIGN(const TensorInfo* tensor, FindMultiplied(stem + ".weight", {cols, rows, n, 1}));
  std::vector<LinearWeights> stacked;
  for (int64_t i = 0; i < n; ++i) {
    LinearWeights& linear = stacked.emplace_back(LinearWeights{.rows = rows, .cols = cols});
    THAW_ASSIGN(linear.matrix, Add(*tensor, i * rows, rows));
  }
  return stacked;
}

Result<void> TensorFinder::Joined(const std::string& stem, int64_t cols, Presence bias,
                                  std::initializer_list<Part> parts) {
  int64_t rows = 0;
  for (const Part& part : parts) rows += part.rows;
  THAW_ASSIGN(const TensorInfo* tensor, FindMatrix(stem + ".weight", rows, cols));
  THAW_ASSIGN(const std::vector<float> biases, Vector(stem + ".bias", rows, bias));
  int64_t first = 0;
  for (const Part& part : parts) {
    *part.weights = {.rows = part.rows, .cols = cols};
    THAW_ASSIGN(part.weights->matrix, Add(*tensor, first, part.rows));
    if (!biases.empty()) {
      part.weights->bias.assign(biases.begin() + first, biases.begin() + first + part.rows);
    }
    first += part.rows;
  }
  return {};
}

void TensorFinder::Ignore(const std::string& name) {
  const TensorInfo* tensor = file_.FindTensor(name);
  if (tensor != nullptr) used_.insert(tensor->name);
}

Result<void> TensorFinder::CheckAllUsed() const {
  const ModelConfig& config = model_.config;
  const int64_t in_file = config.n_layers + config.n_unused_layers;
  std::vector<std::string> unused;
  for (int64_t layer = config.n_layers; layer < in_file; ++layer) {
    unused.push_back(fmt::format("blk.{}.", layer));
  }
  for (const TensorInfo& tensor : file_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    if (std::ranges::any_of(
            unused, [&](const std::string& layer) { return tensor.name.starts_with(layer); })) {
      continue;
    }
    return Fail(ErrorCode::kUnsupported,
                "{}: architecture '{}' has no use for this tensor here, so its output would be "
                "wrong without it",
                Where(tensor.name), model_.config.family->name);
  }
  return {};
}

Result<const TensorInfo*> TensorFinder::FindMatrix(const std::string& name, int64_t rows,
                                                   int64_t cols) {
  return FindMultiplied(name, {cols, rows, 1, 1});
}

Result<const TensorInfo*> TensorFinder::FindMultiplied(const std::string& name,
                                                       const Dimensions& shape) {
  THAW_ASSIGN(const TensorInfo* tensor, Find(name, shape, kRequired));
  if (!CanMultiply(tensor->type)) {
    return Fail(ErrorCode::kUnsupported, "{}: weights of type {} cannot be multiplied", Where(name),
                Info(tensor->type).name);
  }
  return tensor;
}

Result<int32_t> TensorFinder::ExpertsApart(const std::string& stem, int64_t rows, int64_t cols) {
  const int64_t n = model_.config.experts.n;
  std::vector<ExpertTensor> tensors;
  const TensorInfo* first = nullptr;
  for (int64_t expert = 0; expert < n; ++expert) {
    const std::string name = fmt::format("{}.{}.weight", stem, expert);
    THAW_ASSIGN(const TensorInfo* tensor, FindMatrix(name, rows, cols));
    if (tensor->frozen != nullptr) return CannotBeFrozen(name, "is one of several of experts");
    if (first == nullptr) first = tensor;
    if (tensor->type != first->type) {
      return Fail(ErrorCode::kUnsupported, "{}: its type is {}, expected {} as '{}' has",
                  Where(name), Info(tensor->type).name, Info(first->type).name, first->name);
    }
    tensors.push_back({name, file_.file(tensor->file_index), tensor->offset});
  }
  THAW_ASSIGN(const int32_t matrix, Add(*first, 0, n * rows));
  model_.matrices.back().name = stem + "_exps.weight";
  model_.matrices.back().expert_tensors = std::move(tensors);
  return matrix;
}

Result<int32_t> TensorFinder::Add(const TensorInfo& tensor, int64_t first, int64_t rows,
                                  MatrixUse use) {
  const int64_t cols = tensor.dims[0];
  if (tensor.frozen != nullptr && use == MatrixUse::kLookedUp) {
    return CannotBeFrozen(tensor.name, "is looked up by rows alone");
  }
  std::shared_ptr<const FrozenTensor> frozen = tensor.frozen;
  if (frozen != nullptr && rows != tensor.rows()) {
    auto part = RowsOfFrozen(*frozen, first, rows);
    if (!part) return Fail(std::move(part).error().In(Where(tensor.name)));
    frozen = std::make_shared<const FrozenTensor>(*std::move(part));
  }
  const auto skipped = static_cast<uint64_t>(first * RowBytes(tensor.type, cols));
  model_.matrices.push_back({.name = tensor.name,
                             .type = tensor.type,
                             .rows = rows,
                             .cols = cols,
                             .file = file_.file(tensor.file_index),
                             .offset = tensor.offset + skipped,
                             .first_row = first,
                             .layer = layer_,
                             .group = group_,
                             .frozen = std::move(frozen),
                             .use = use});
  return static_cast<int32_t>(model_.matrices.size() - 1);
}

tl::unexpected<Error> TensorFinder::CannotBeFrozen(std::string_view name,
                                                   std::string_view why) const {
  return Fail(ErrorCode::kUnsupported, "{}: it is frozen, but {} here, which frozen ones cannot be",
              Where(name), why);
}

Result<const TensorInfo*> TensorFinder::Find(const std::string& name, const Dimensions& expected,
                                             Presence presence) {
  if (presence == kAbsent) return nullptr;
  const TensorInfo* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    if (presence == kOptional) return nullptr;
    return Fail(ErrorCode::kCorrupt, "{}: the tensor is missing", Where(name));
  }
  used_.insert(tensor->name);
  if (tensor->dims != expected) {
    return Fail(ErrorCode::kCorrupt, "{}: its shape is {}, expected {}", Where(name),
                ShapeText(tensor->extents()),
                ShapeText(std::span(expected).first(DimensionsOf(expected))));
  }
  return tensor;
}

size_t TensorFinder::DimensionsOf(const Dimensions& shape) {
  size_t n = shape.size();
  while (n > 1 && shape[n - 1] == 1) --n;
  return n;
}

std::string TensorFinder::Where(std::string_view name) const {
  return fmt::format("{}: tensor '{}'", file_.path(), name);
}

}  // namespace thaw
