// The tensors of a file as what a model is made of: found by name, checked for shape and type,
// remembered as used. Floats are read at once; matrices become entries of
// ModelDescription::matrices and are read by the weight cache. Errors name file and tensor.
// weights.cc is its only caller.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "model/weights.h"

namespace thaw {

using Dimensions = std::array<int64_t, kMaxTensorDimensions>;  // the contiguous one first

// `file` and `model` must outlive it.
class TensorFinder {
 public:
  TensorFinder(const GgufFile& file, ModelDescription& model) : file_(file), model_(model) {}

  bool Has(const std::string& name) const { return file_.FindTensor(name) != nullptr; }

  // A float vector of `size` elements. Empty where it is absent and need not be there.
  Result<std::vector<float>> Vector(const std::string& name, int64_t size, Presence presence);

  // The same of a tensor of any shape.
  Result<std::vector<float>> Floats(const std::string& name, const Dimensions& shape,
                                    Presence presence);

  // `stem`.weight and `stem`.bias, as the family's kind of norm has them.
  Result<NormWeights> Norm(const std::string& stem);

  // The matrices found from now on are part of this.
  void EnterGroup(int64_t layer, WeightGroup group);

  // A matrix of `rows` x `cols`; its index in the weight cache.
  Result<int32_t> Matrix(const std::string& name, int64_t rows, int64_t cols,
                         MatrixUse use = MatrixUse::kMultiplied);

  // `stem`.weight of `rows` x `cols` with, perhaps, `stem`.bias and `stem`.scale.
  Result<LinearWeights> Linear(const std::string& stem, int64_t rows, int64_t cols, Presence bias);

  // `stem`_exps.weight, which holds `rows` x `cols` for each of the experts, its bias and its scale
  // likewise; or, of files made before 2024, the tensors `stem`.E.weight.
  Result<LinearWeights> Experts(const std::string& stem, int64_t rows, int64_t cols, Presence bias);

  // `stem`.weight, which holds `rows` x `cols` for each of `n` heads.
  Result<LinearWeights> Heads(const std::string& stem, int64_t n, int64_t rows, int64_t cols);

  // `stem`.weight, which holds `n` matrices of `rows` x `cols`, each with one x and y of its own.
  Result<std::vector<LinearWeights>> Stacked(const std::string& stem, int64_t n, int64_t rows,
                                             int64_t cols);

  struct Part {
    LinearWeights* weights;
    int64_t rows;
  };

  // `stem`.weight, whose rows are those of the parts one after the other, and its bias likewise.
  Result<void> Joined(const std::string& stem, int64_t cols, Presence bias,
                      std::initializer_list<Part> parts);

  // A tensor that is of no use where the file has it.
  void Ignore(const std::string& name);

  // An error for the first tensor that nobody asked for, in the layers that are run.
  Result<void> CheckAllUsed() const;

 private:
  Result<const TensorInfo*> FindMatrix(const std::string& name, int64_t rows, int64_t cols);

  Result<const TensorInfo*> FindMultiplied(const std::string& name, const Dimensions& shape);

  // The tensors `stem`.E.weight of all experts as one matrix of the weight cache.
  Result<int32_t> ExpertsApart(const std::string& stem, int64_t rows, int64_t cols);

  // Rows [first, first + rows) of a tensor as a matrix of the weight cache.
  Result<int32_t> Add(const TensorInfo& tensor, int64_t first, int64_t rows,
                      MatrixUse use = MatrixUse::kMultiplied);

  tl::unexpected<Error> CannotBeFrozen(std::string_view name, std::string_view why) const;

  Result<const TensorInfo*> Find(const std::string& name, const Dimensions& expected,
                                 Presence presence);

  // How many there are but for ones at the end.
  static size_t DimensionsOf(const Dimensions& shape);

  std::string Where(std::string_view name) const;

  const GgufFile& file_;
  ModelDescription& model_;
  int32_t layer_ = 0;
  WeightGroup group_ = WeightGroup::kAttention;
  std::unordered_set<std::string_view> used_;
};

}  // namespace thaw
