#include "engine/imatrix.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>

#include "io/file.h"

namespace thaw {
namespace {

std::string SumsName(std::string_view tensor) { return fmt::format("{}.in_sum2", tensor); }
std::string CountsName(std::string_view tensor) { return fmt::format("{}.counts", tensor); }

Result<void> CheckMagic(const std::string& path) {
  constexpr std::string_view kMagic = "GGUF";
  THAW_ASSIGN(const std::shared_ptr<const File> file, OpenFile(path));
  std::array<char, kMagic.size()> magic = {};
  if (file->size() >= magic.size()) {
    THAW_TRY(ReadExactlyAt(*file, 0, std::as_writable_bytes(std::span(magic))));
  }
  if (std::string_view(magic.data(), magic.size()) == kMagic) return {};
  return Fail(ErrorCode::kUnsupported,
              "{}: no GGUF file; importance matrices in the older .dat format are not read "
              "(`llama-imatrix --in-file OLD.dat -o NEW.gguf` converts them)",
              path);
}

// The numbers of a tensor of [first, second].
Result<std::vector<float>> ReadFloats(const GgufFile& file, const std::string& name, int64_t first,
                                      int64_t second) {
  const TensorInfo* tensor = file.FindTensor(name);
  if (tensor == nullptr) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor '{}' is missing", file.path(), name);
  }
  if (tensor->type != ElementType::kF32) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor '{}' is {}, expected F32", file.path(), name,
                Info(tensor->type).name);
  }
  const std::array<int64_t, kMaxTensorDimensions> expected = {first, second, 1, 1};
  if (tensor->dims != expected) {
    return Fail(ErrorCode::kCorrupt, "{}: tensor '{}' is {}, the model's needs {}", file.path(),
                name, ShapeText(tensor->extents()), ShapeText(std::span(expected).first(2)));
  }
  std::vector<float> values(static_cast<size_t>(first * second));
  THAW_TRY(file.ReadTensor(*tensor, 0, std::as_writable_bytes(std::span(values))));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) && values[i] >= 0) continue;
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor '{}': number {} is {}, expected finite ones of at least 0", file.path(),
                name, i, values[i]);
  }
  return values;
}

}  // namespace

Result<ImportanceMatrix> ImportanceMatrix::Open(const std::string& path) {
  constexpr std::string_view kType = "imatrix";
  THAW_TRY(CheckMagic(path));
  THAW_ASSIGN(GgufFile file, GgufFile::Open(path));
  THAW_ASSIGN(const std::string type, file.GetStringOr("general.type", ""));
  if (type != kType) {
    return Fail(ErrorCode::kCorrupt, "{}: field 'general.type' is '{}', expected '{}'", path, type,
                kType);
  }
  return ImportanceMatrix(std::move(file));
}

bool ImportanceMatrix::Has(std::string_view tensor) const {
  return file_.FindTensor(SumsName(tensor)) != nullptr;
}

Result<ColumnImportance> ImportanceMatrix::Read(std::string_view tensor, int64_t cols,
                                                int64_t matrices) const {
  THAW_ASSIGN(const std::vector<float> sums, ReadFloats(file_, SumsName(tensor), cols, matrices));
  THAW_ASSIGN(const std::vector<float> counts, ReadFloats(file_, CountsName(tensor), 1, matrices));
  ColumnImportance read = {.weights = std::vector<float>(sums.size(), 1.0F),
                           .mean_squares = std::vector<double>(counts.size(), 0.0)};
  for (int64_t m = 0; m < matrices; ++m) {
    const auto of_matrix =
        std::span(sums).subspan(static_cast<size_t>(m * cols), static_cast<size_t>(cols));
    const double sum = std::accumulate(of_matrix.begin(), of_matrix.end(), 0.0);
    const double count = counts[static_cast<size_t>(m)];
    if (count == 0 || sum == 0) continue;
    const double mean = sum / static_cast<double>(cols);
    read.mean_squares[static_cast<size_t>(m)] = mean / count;
    std::ranges::transform(of_matrix, read.weights.begin() + m * cols, [mean](float value) {
      return std::max(kLeastColumnWeight, static_cast<float>(value / mean));
    });
  }
  return read;
}

}  // namespace thaw
