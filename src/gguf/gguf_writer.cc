#include "gguf/gguf_writer.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "base/utf8.h"

namespace thaw {
namespace {

constexpr uint32_t kWrittenVersion = 3;

static_assert(std::endian::native == std::endian::little, "numbers are written as they stand");

template <typename T>
void AppendNumber(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void AppendString(std::string& out, std::string_view text) {
  AppendNumber<uint64_t>(out, text.size());
  out.append(text);
}

}  // namespace

GgufWriter::GgufWriter(OutputFile file, uint32_t alignment)
    : file_(std::move(file)), alignment_(alignment) {}

Result<GgufWriter> GgufWriter::Create(const std::string& path, uint32_t alignment) {
  if (!std::has_single_bit(alignment)) {
    return Fail(ErrorCode::kInvalidArgument, "{}: the alignment is {}, a power of two is expected",
                path, alignment);
  }
  THAW_ASSIGN(OutputFile file, OutputFile::Create(path));
  GgufWriter writer(std::move(file), alignment);
  if (alignment != kDefaultAlignment) {
    THAW_TRY(writer.SetNumber<uint32_t>(kAlignmentKey, alignment));
  }
  writer.keys_.emplace(kAlignmentKey);
  return writer;
}

Result<void> GgufWriter::CheckName(std::string_view kind, std::string_view name,
                                   uint64_t max_bytes) const {
  if (name.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: a {} is empty", file_.path(), kind);
  }
  if (name.size() > max_bytes) {
    return Fail(ErrorCode::kInvalidArgument, "{}: {} {} is {} bytes long, at most {} are allowed",
                file_.path(), kind, Quote(name), name.size(), max_bytes);
  }
  if (!IsValidUtf8(name)) {
    return Fail(ErrorCode::kInvalidArgument, "{}: {} {} is not valid UTF-8", file_.path(), kind,
                Quote(name));
  }
  return {};
}

Result<void> GgufWriter::AddField(std::string_view key, GgufType type,
                                  std::string_view value_bytes) {
  THAW_CHECK(!is_directory_written_);
  THAW_TRY(CheckName("key", key, kMaxKeyBytes));
  if (!keys_.emplace(key).second) {
    return Fail(ErrorCode::kInvalidArgument, "{}: field {} is set already", file_.path(),
                Quote(key));
  }
  AppendString(field_bytes_, key);
  AppendNumber(field_bytes_, static_cast<uint32_t>(type));
  field_bytes_.append(value_bytes);
  ++field_count_;
  return {};
}

std::string GgufWriter::ArrayHead(GgufType element_type, uint64_t count) {
  std::string head;
  AppendNumber(head, static_cast<uint32_t>(element_type));
  AppendNumber(head, count);
  return head;
}

Result<void> GgufWriter::SetString(std::string_view key, std::string_view text) {
  if (!IsValidUtf8(text) || text.size() > kMaxValueBytes) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: field {}: a string is expected to be valid UTF-8 of at most {} bytes, this "
                "one has {}: {}",
                file_.path(), Quote(key), kMaxValueBytes, text.size(), Quote(text));
  }
  std::string bytes;
  AppendString(bytes, text);
  return AddField(key, GgufType::kString, bytes);
}

Result<void> GgufWriter::SetStrings(std::string_view key, std::span<const std::string> strings) {
  std::string bytes = ArrayHead(GgufType::kString, strings.size());
  for (const std::string& text : strings) AppendString(bytes, text);
  return AddField(key, GgufType::kArray, bytes);
}

Result<void> GgufWriter::CopyField(const GgufFile& source, const GgufField& field) {
  THAW_ASSIGN(const std::vector<std::byte> bytes, source.ReadRawValue(field));
  return AddField(field.key, field.type, Bytes(std::span<const std::byte>(bytes)));
}

Result<void> GgufWriter::CopyFields(const GgufFile& source) {
  for (const GgufField& field : source.fields()) {
    if (field.key == kAlignmentKey || field.key.starts_with("split.")) continue;
    THAW_TRY(CopyField(source, field));
  }
  return {};
}

Result<void> GgufWriter::AddTensor(std::string_view name, ElementType type,
                                   std::span<const int64_t> dims) {
  THAW_CHECK(!is_directory_written_);
  THAW_TRY(CheckName("tensor name", name, kMaxTensorNameBytes));
  if (dims.size() > kMaxTensorDimensions) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: tensor {} has {} dimensions, at most {} are allowed", file_.path(),
                Quote(name), dims.size(), kMaxTensorDimensions);
  }
  std::array<int64_t, kMaxTensorDimensions> all_dims = {1, 1, 1, 1};
  std::copy(dims.begin(), dims.end(), all_dims.begin());
  auto bytes = TensorBytes(type, all_dims);
  if (!bytes) {
    return Fail(ErrorCode::kInvalidArgument, "{}: tensor {}: {}", file_.path(), Quote(name),
                bytes.error().message);
  }
  if (!tensor_names_.emplace(name).second) {
    return Fail(ErrorCode::kInvalidArgument, "{}: tensor {} is declared already", file_.path(),
                Quote(name));
  }
  tensors_.push_back({std::string(name), type, {dims.begin(), dims.end()}, *bytes});
  return {};
}

Result<void> GgufWriter::WriteDirectory() {
  std::string head(kGgufMagic);
  AppendNumber(head, kWrittenVersion);
  AppendNumber<uint64_t>(head, tensors_.size());
  AppendNumber(head, field_count_);
  THAW_TRY(file_.Append(head));
  THAW_TRY(file_.Append(field_bytes_));

  std::string infos;
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    AppendString(infos, tensor.name);
    AppendNumber(infos, static_cast<uint32_t>(tensor.dims.size()));
    for (const int64_t dim : tensor.dims) AppendNumber(infos, dim);
    AppendNumber(infos, static_cast<uint32_t>(tensor.type));
    AppendNumber(infos, offset);
    offset = RoundUp(offset + tensor.bytes, alignment_);
  }
  THAW_TRY(file_.Append(infos));
  is_directory_written_ = true;
  return Pad();
}

Result<void> GgufWriter::Pad() {
  return file_.Append(std::string(RoundUp(file_.size(), alignment_) - file_.size(), '\0'));
}

Result<void> GgufWriter::SkipCompleteTensors() {
  while (current_tensor_ < tensors_.size() && current_bytes_ == tensors_[current_tensor_].bytes) {
    THAW_TRY(Pad());
    ++current_tensor_;
    current_bytes_ = 0;
  }
  return {};
}

Result<void> GgufWriter::AppendData(std::span<const std::byte> bytes) {
  if (!is_directory_written_) THAW_TRY(WriteDirectory());
  if (bytes.empty()) return {};
  THAW_TRY(SkipCompleteTensors());
  if (current_tensor_ == tensors_.size()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: {} bytes more than its {} tensors have",
                file_.path(), bytes.size(), tensors_.size());
  }
  const Tensor& tensor = tensors_[current_tensor_];
  if (bytes.size() > tensor.bytes - current_bytes_) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: tensor {}: {} bytes are given where {} of its {} are missing", file_.path(),
                Quote(tensor.name), bytes.size(), tensor.bytes - current_bytes_, tensor.bytes);
  }
  THAW_TRY(file_.Append(bytes));
  current_bytes_ += bytes.size();
  return {};
}

Result<void> GgufWriter::Commit() {
  if (!is_directory_written_) THAW_TRY(WriteDirectory());
  THAW_TRY(SkipCompleteTensors());
  if (current_tensor_ < tensors_.size()) {
    const Tensor& tensor = tensors_[current_tensor_];
    return Fail(ErrorCode::kInvalidArgument, "{}: tensor {}: {} of its {} bytes were given",
                file_.path(), Quote(tensor.name), current_bytes_, tensor.bytes);
  }
  return file_.Commit();
}

}  // namespace thaw
