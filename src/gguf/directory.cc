#include "gguf/directory.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "gguf/array_place.h"
#include "gguf/window_reader.h"

namespace thaw {
namespace {

// The fewest bytes an entry can take: a name of one character with its length, then a type and a
// value of one byte; or the number of dimensions, no dimension, the type and the offset.
constexpr uint64_t kLeastFieldBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kLeastTensorBytes = 8 + 1 + 4 + 4 + 8;

struct Header {
  int version = 0;
  uint64_t tensor_count = 0;
  uint64_t field_count = 0;
};

Result<void> CheckMagic(const File& file) {
  if (file.size() == 0) {
    return Fail(ErrorCode::kCorrupt, "{}: not a GGUF file: it is empty", file.path());
  }
  std::string magic(std::min<uint64_t>(kGgufMagic.size(), file.size()), '\0');
  THAW_TRY(ReadExactlyAt(file, 0, std::as_writable_bytes(std::span(magic))));
  if (magic != kGgufMagic) {
    std::string hex;
    for (const char c : magic) hex += fmt::format(" {:02x}", static_cast<unsigned char>(c));
    return Fail(ErrorCode::kCorrupt,
                "{}: not a GGUF file: it begins with{} ({}), 47 47 55 46 (\"GGUF\") is expected",
                file.path(), hex, Quote(magic));
  }
  return {};
}

Result<void> CheckVersion(const WindowReader& reader, uint32_t version) {
  if (version == 2 || version == 3) return {};
  // The versions of the format are small numbers, so the other byte order has its low bytes zero.
  if (version != 0 && (version & 0xffff) == 0) {
    return reader.Refuse(ErrorCode::kUnsupported,
                         "the file is big-endian (version {:#010x} at offset 4), little-endian "
                         "files are supported",
                         version);
  }
  return reader.Refuse(ErrorCode::kUnsupported,
                       "GGUF version {} at offset 4 is not supported, versions 2 and 3 are",
                       version);
}

Result<void> CheckCount(const WindowReader& reader, uint64_t count, uint64_t least_bytes,
                        const char* what) {
  if (count > reader.remaining() / least_bytes) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "{} {} are declared, each takes at least {} bytes, and the file has {} "
                         "left",
                         count, what, least_bytes, reader.remaining());
  }
  if (count > kMaxDirectoryEntries) {
    return reader.Refuse(ErrorCode::kUnsupported, "{} {} are declared, at most {} are supported",
                         count, what, kMaxDirectoryEntries);
  }
  return {};
}

Result<Header> ReadHeader(WindowReader& reader) {
  THAW_TRY(reader.Skip(kGgufMagic.size(), "the magic number"));
  THAW_ASSIGN(const uint32_t version, reader.ReadNumber<uint32_t>("the version"));
  THAW_TRY(CheckVersion(reader, version));
  Header header;
  header.version = static_cast<int>(version);
  THAW_ASSIGN(header.tensor_count, reader.ReadNumber<uint64_t>("the number of tensors"));
  THAW_ASSIGN(header.field_count, reader.ReadNumber<uint64_t>("the number of fields"));
  THAW_TRY(CheckCount(reader, header.tensor_count, kLeastTensorBytes, "tensors"));
  THAW_TRY(CheckCount(reader, header.field_count, kLeastFieldBytes, "fields"));
  return header;
}

Result<std::string> ReadName(WindowReader& reader, uint64_t max_bytes, const char* what) {
  const uint64_t offset = reader.position();
  THAW_ASSIGN(std::string name, reader.ReadString(max_bytes, what));
  if (name.empty()) {
    return reader.Refuse(ErrorCode::kCorrupt, "{} at offset {} is empty", what, offset);
  }
  if (!IsValidUtf8(name)) {
    return reader.Refuse(ErrorCode::kCorrupt, "{} at offset {} is not valid UTF-8: {}", what,
                         offset, Quote(name));
  }
  return name;
}

template <typename Stored, typename Held>
Result<GgufValue> ReadScalar(WindowReader& reader) {
  THAW_ASSIGN(const Stored value, reader.ReadNumber<Stored>("the value"));
  return GgufValue(static_cast<Held>(value));
}

Result<GgufValue> ReadBool(WindowReader& reader) {
  const uint64_t offset = reader.position();
  THAW_ASSIGN(const uint8_t byte, reader.ReadNumber<uint8_t>("the value"));
  if (byte > 1) {
    return reader.Refuse(ErrorCode::kCorrupt, "the bool at offset {} is {}, 0 or 1 is expected",
                         offset, byte);
  }
  return GgufValue(byte == 1);
}

Result<GgufValue> ReadStringPlace(WindowReader& reader) {
  const uint64_t offset = reader.position();
  THAW_ASSIGN(const std::string text, reader.ReadString(kMaxValueBytes, "the string"));
  if (!IsValidUtf8(text)) {
    return reader.Refuse(ErrorCode::kCorrupt, "the string at offset {} is not valid UTF-8: {}",
                         offset, Quote(text));
  }
  return GgufValue(GgufStringPlace{reader.position() - text.size(), text.size()});
}

Result<GgufValue> ReadValue(WindowReader& reader, GgufType type, uint64_t& visits_left) {
  switch (type) {
    case GgufType::kUint8:
      return ReadScalar<uint8_t, uint64_t>(reader);
    case GgufType::kInt8:
      return ReadScalar<int8_t, int64_t>(reader);
    case GgufType::kUint16:
      return ReadScalar<uint16_t, uint64_t>(reader);
    case GgufType::kInt16:
      return ReadScalar<int16_t, int64_t>(reader);
    case GgufType::kUint32:
      return ReadScalar<uint32_t, uint64_t>(reader);
    case GgufType::kInt32:
      return ReadScalar<int32_t, int64_t>(reader);
    case GgufType::kUint64:
      return ReadScalar<uint64_t, uint64_t>(reader);
    case GgufType::kInt64:
      return ReadScalar<int64_t, int64_t>(reader);
    case GgufType::kFloat32:
      return ReadScalar<float, double>(reader);
    case GgufType::kFloat64:
      return ReadScalar<double, double>(reader);
    case GgufType::kBool:
      return ReadBool(reader);
    case GgufType::kString:
      return ReadStringPlace(reader);
    case GgufType::kArray:
      break;
  }
  THAW_ASSIGN(const GgufArray array, ReadArrayPlace(reader, visits_left));
  return GgufValue(array);
}

Result<void> ReadFields(WindowReader& reader, uint64_t count, GgufDirectory& directory) {
  uint64_t visits_left = kMaxVisitedElements;
  for (uint64_t i = 0; i < count; ++i) {
    reader.SetSubject(fmt::format("field {} of {}", i + 1, count));
    GgufField field;
    THAW_ASSIGN(field.key, ReadName(reader, kMaxKeyBytes, "the key"));
    reader.SetSubject(fmt::format("field {}", Quote(field.key)));
    THAW_ASSIGN(field.type, ReadGgufType(reader));
    field.value_offset = reader.position();
    THAW_ASSIGN(field.value, ReadValue(reader, field.type, visits_left));
    field.value_bytes = reader.position() - field.value_offset;
    directory.fields.push_back(std::move(field));
  }
  directory.fields_by_key = FieldIndex(directory.fields);
  if (const GgufField* twin = directory.fields_by_key.FindDuplicate(directory.fields)) {
    reader.SetSubject(fmt::format("field {}", Quote(twin->key)));
    return reader.Refuse(ErrorCode::kCorrupt,
                         "there are two of this key, the second has its value "
                         "at offset {}",
                         twin->value_offset);
  }
  return {};
}

Result<uint64_t> ReadAlignment(const WindowReader& reader, const GgufDirectory& directory) {
  const GgufField* field = directory.Find(kAlignmentKey);
  if (field == nullptr) return uint64_t{kDefaultAlignment};
  if (field->type != GgufType::kUint32) {
    return reader.Refuse(ErrorCode::kCorrupt, "field {} is {}, uint32 is expected",
                         Quote(kAlignmentKey), field->TypeName());
  }
  const uint64_t alignment = std::get<uint64_t>(field->value);
  if (!std::has_single_bit(alignment)) {
    return reader.Refuse(ErrorCode::kCorrupt, "field {} is {}, a power of two is expected",
                         Quote(kAlignmentKey), alignment);
  }
  return alignment;
}

Result<void> ReadDimensions(WindowReader& reader, TensorInfo& tensor) {
  const uint64_t offset = reader.position();
  THAW_ASSIGN(const uint32_t n_dims, reader.ReadNumber<uint32_t>("the number of dimensions"));
  if (n_dims > kMaxTensorDimensions) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "the number of dimensions at offset {} is {}, at most {} are allowed",
                         offset, n_dims, kMaxTensorDimensions);
  }
  tensor.n_dims = static_cast<int>(n_dims);
  for (uint32_t i = 0; i < n_dims; ++i) {
    const uint64_t dim_offset = reader.position();
    THAW_ASSIGN(const uint64_t dim, reader.ReadNumber<uint64_t>("a dimension"));
    if (dim > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return reader.Refuse(ErrorCode::kCorrupt,
                           "dimension {} at offset {} is {}, at most 2^63 - 1 "
                           "is allowed",
                           i, dim_offset, dim);
    }
    tensor.dims[i] = static_cast<int64_t>(dim);
  }
  return {};
}

// The tensor's offset stays as in the file, relative to the data section, which is not known yet.
Result<TensorInfo> ReadTensorInfo(WindowReader& reader) {
  TensorInfo tensor;
  THAW_ASSIGN(tensor.name, ReadName(reader, kMaxTensorNameBytes, "the name"));
  reader.SetSubject(fmt::format("tensor {}", Quote(tensor.name)));
  THAW_TRY(ReadDimensions(reader, tensor));
  const uint64_t type_offset = reader.position();
  THAW_ASSIGN(const uint32_t type, reader.ReadNumber<uint32_t>("the element type"));
  const ElementTypeInfo* info = FindElementType(type);
  if (info == nullptr) {
    return reader.Refuse(ErrorCode::kUnsupported, "the element type {} at offset {} is not known",
                         type, type_offset);
  }
  tensor.type = info->type;
  auto bytes = TensorBytes(tensor.type, tensor.dims);
  if (!bytes) return reader.Refuse(bytes.error().code, "{}", bytes.error().message);
  tensor.bytes = *bytes;
  THAW_ASSIGN(tensor.offset, reader.ReadNumber<uint64_t>("the offset"));
  return tensor;
}

// Checks the offset and makes it relative to the file.
Result<void> PlaceTensor(WindowReader& reader, uint64_t alignment, uint64_t data_offset,
                         uint64_t file_size, TensorInfo& tensor) {
  reader.SetSubject(fmt::format("tensor {}", Quote(tensor.name)));
  if (tensor.offset % alignment != 0) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "its data offset {} is misaligned, a multiple of {} is expected",
                         tensor.offset, alignment);
  }
  if (tensor.offset > std::numeric_limits<uint64_t>::max() - data_offset) {
    return reader.Refuse(ErrorCode::kCorrupt, "its data offset {} overflows 64 bits",
                         tensor.offset);
  }
  tensor.offset += data_offset;
  // A writer that ends with an empty tensor may leave out the padding before it.
  const bool is_inside = tensor.bytes == 0 ||
                         (tensor.offset <= file_size && tensor.bytes <= file_size - tensor.offset);
  if (!is_inside) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "its {} bytes at offset {} reach beyond the end of the file at {}; the "
                         "file is incomplete or its directory is wrong",
                         tensor.bytes, tensor.offset, file_size);
  }
  return {};
}

Result<void> CheckOverlap(WindowReader& reader, std::span<const TensorInfo> tensors) {
  std::vector<const TensorInfo*> by_offset;
  by_offset.reserve(tensors.size());
  for (const TensorInfo& tensor : tensors) {
    if (tensor.bytes > 0) by_offset.push_back(&tensor);
  }
  std::sort(by_offset.begin(), by_offset.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < by_offset.size(); ++i) {
    const TensorInfo& before = *by_offset[i - 1];
    const TensorInfo& tensor = *by_offset[i];
    if (tensor.offset - before.offset < before.bytes) {
      reader.SetSubject(fmt::format("tensor {}", Quote(tensor.name)));
      return reader.Refuse(ErrorCode::kCorrupt,
                           "its data at offset {} overlap those of tensor {}, {} bytes at offset "
                           "{}",
                           tensor.offset, Quote(before.name), before.bytes, before.offset);
    }
  }
  return {};
}

}  // namespace

Result<GgufDirectory> ReadDirectory(const File& file) {
  THAW_TRY(CheckMagic(file));
  WindowReader reader(file, 0, "the header");
  THAW_ASSIGN(const Header header, ReadHeader(reader));

  GgufDirectory directory;
  directory.version = header.version;
  THAW_TRY(ReadFields(reader, header.field_count, directory));
  reader.SetSubject("the header");
  THAW_ASSIGN(directory.alignment, ReadAlignment(reader, directory));

  for (uint64_t i = 0; i < header.tensor_count; ++i) {
    reader.SetSubject(fmt::format("tensor {} of {}", i + 1, header.tensor_count));
    THAW_ASSIGN(TensorInfo tensor, ReadTensorInfo(reader));
    directory.tensors.push_back(std::move(tensor));
  }
  // Below 2^63 + 2^32: the position is inside a file, the alignment a uint32.
  const uint64_t data_offset =
      (reader.position() + directory.alignment - 1) / directory.alignment * directory.alignment;
  for (TensorInfo& tensor : directory.tensors) {
    THAW_TRY(PlaceTensor(reader, directory.alignment, data_offset, file.size(), tensor));
  }
  THAW_TRY(CheckOverlap(reader, directory.tensors));
  return directory;
}

}  // namespace thaw
