#include "gguf/gguf_file.h"

#include <utility>

#include "codec/frozen_tensor.h"
#include "gguf/split_name.h"

namespace thaw {
namespace {

constexpr std::string_view kSplitIndexKey = "split.no";
constexpr std::string_view kSplitCountKey = "split.count";
constexpr std::string_view kSplitTensorCountKey = "split.tensors.count";

// The format gives a part's number 16 bits, and its name 5 digits.
constexpr uint64_t kMaxParts = 65535;

}  // namespace

Result<GgufFile> GgufFile::OpenFirstPart(std::shared_ptr<const File> file) {
  GgufFile model;
  THAW_ASSIGN(model.directory_, ReadDirectory(*file));
  model.tensors_ = std::exchange(model.directory_.tensors, {});
  model.files_.push_back(std::move(file));
  return model;
}

Result<GgufFile> GgufFile::Open(std::shared_ptr<const File> file) {
  THAW_ASSIGN(GgufFile model, OpenFirstPart(std::move(file)));
  THAW_ASSIGN(const uint64_t part_count, model.GetUintOr(kSplitCountKey, 1));
  if (part_count > 1) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: this is one of the {} parts of a split model, a whole model is expected",
                model.path(), part_count);
  }
  THAW_TRY(model.IndexTensors());
  return model;
}

Result<GgufFile> GgufFile::Open(const std::string& path) {
  THAW_ASSIGN(std::shared_ptr<const File> file, OpenFile(path));
  THAW_ASSIGN(GgufFile model, OpenFirstPart(std::move(file)));
  THAW_ASSIGN(const uint64_t part_count, model.GetUintOr(kSplitCountKey, 1));
  if (part_count > 1) {
    THAW_ASSIGN(const uint64_t index, model.GetUint(kSplitIndexKey));
    if (part_count > kMaxParts || index >= part_count) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: field {} is {} and {} is {}: a part below the count, which is at most {}, "
                  "is expected",
                  path, Quote(kSplitIndexKey), index, Quote(kSplitCountKey), part_count, kMaxParts);
    }
    const auto prefix = SplitPrefix(path, index, part_count);
    if (!prefix) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: part {} of {} of a split model must be named {}, so that the other parts "
                  "can be found",
                  path, index + 1, part_count, SplitPartPath("NAME", index, part_count));
    }
    if (index != 0) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: this is part {} of {} of a split model: open its first part, {}", path,
                  index + 1, part_count, SplitPartPath(*prefix, 0, part_count));
    }
    THAW_TRY(model.AddOtherParts(*prefix, part_count));
  }
  THAW_TRY(model.IndexTensors());
  return model;
}

Result<void> GgufFile::AddOtherParts(std::string_view prefix, uint64_t part_count) {
  for (uint64_t index = 1; index < part_count; ++index) {
    const std::string part_path = SplitPartPath(prefix, index, part_count);
    auto file = OpenFile(part_path);
    if (!file) {
      return Fail(std::move(file).error().In(
          fmt::format("part {} of the {} of {}", index + 1, part_count, path())));
    }
    THAW_ASSIGN(const GgufFile part, OpenFirstPart(*std::move(file)));
    THAW_ASSIGN(const uint64_t found_index, part.GetUint(kSplitIndexKey));
    THAW_ASSIGN(const uint64_t found_count, part.GetUint(kSplitCountKey));
    if (found_index != index || found_count != part_count) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: its fields say part {} of {}, its name and the first part say {} of {}",
                  part_path, found_index + 1, found_count, index + 1, part_count);
    }
    for (TensorInfo tensor : part.tensors_) {
      tensor.file_index = static_cast<int>(index);
      tensors_.push_back(std::move(tensor));
    }
    files_.push_back(part.files_.front());
  }
  THAW_ASSIGN(const uint64_t declared, GetUintOr(kSplitTensorCountKey, tensors_.size()));
  if (declared != tensors_.size()) {
    return Fail(ErrorCode::kCorrupt, "{}: field {} is {}, the {} parts have {} tensors", path(),
                Quote(kSplitTensorCountKey), declared, part_count, tensors_.size());
  }
  return {};
}

Result<void> GgufFile::IndexTensors() {
  tensors_by_name_ = TensorIndex(tensors_);
  if (const TensorInfo* twin = tensors_by_name_.FindDuplicate(tensors_)) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tensor {}: there are two of this name, the second has its data at offset {}",
                file(twin->file_index)->path(), Quote(twin->name), twin->offset);
  }
  return ReadFrozenTensors();
}

Result<void> GgufFile::ReadFrozenTensors() {
  if (Find(kFrozenVersionKey) == nullptr) return {};
  THAW_ASSIGN(const uint64_t version, GetUint(kFrozenVersionKey));
  if (version != kFrozenVersion) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field {} is {}, expected {}: another program froze it", path(),
                Quote(kFrozenVersionKey), version, kFrozenVersion);
  }
  for (TensorInfo& tensor : tensors_) {
    if (tensor.type != ElementType::kI8 || tensor.n_dims != 1) continue;
    THAW_ASSIGN(FrozenTensor frozen, ReadFrozenTensor(*file(tensor.file_index), tensor.name,
                                                      tensor.offset, tensor.bytes));
    tensor.type = ThawedType(frozen.kind);
    tensor.n_dims = frozen.dimensions;
    tensor.dims = {frozen.cols, frozen.rows, frozen.matrices, 1};
    tensor.frozen = std::make_shared<const FrozenTensor>(std::move(frozen));
  }
  return {};
}

Result<std::vector<std::byte>> GgufFile::ReadRawValue(const GgufField& field) const {
  if (field.value_bytes > kMaxValueBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: field {}: its value has {} bytes, at most {} are read into memory", path(),
                Quote(field.key), field.value_bytes, kMaxValueBytes);
  }
  std::vector<std::byte> bytes(static_cast<size_t>(field.value_bytes));
  THAW_TRY(ReadExactlyAt(*files_.front(), field.value_offset, bytes));
  return bytes;
}

Result<void> GgufFile::ReadTensor(const TensorInfo& tensor, uint64_t offset_in_tensor,
                                  std::span<std::byte> out) const {
  const File& holder = *file(tensor.file_index);
  if (offset_in_tensor > tensor.bytes || out.size() > tensor.bytes - offset_in_tensor) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: tensor {}: {} bytes from its byte {} on are wanted, it has {}", holder.path(),
                Quote(tensor.name), out.size(), offset_in_tensor, tensor.bytes);
  }
  auto read = ReadExactlyAt(holder, tensor.offset + offset_in_tensor, out);
  if (!read) {
    read.error().message += fmt::format(" (while reading tensor {})", Quote(tensor.name));
    return Fail(std::move(read).error());
  }
  return {};
}

}  // namespace thaw
