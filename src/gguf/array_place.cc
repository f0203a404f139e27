#include "gguf/array_place.h"

namespace thaw {
namespace {

// A string has at least its length, an inner array at least its type and count.
uint64_t LeastBytes(GgufType type) {
  if (type == GgufType::kString) return 8;
  if (type == GgufType::kArray) return 12;
  return GgufTypeBytes(type);
}

Result<void> SkipElements(WindowReader& reader, const GgufArray& array, uint64_t& visits_left,
                          int depth) {
  if (array.element_type != GgufType::kString && array.element_type != GgufType::kArray) {
    return reader.Skip(array.count * GgufTypeBytes(array.element_type), "the array");
  }
  if (array.count > visits_left) {
    return reader.Refuse(ErrorCode::kUnsupported,
                         "the array at offset {} has {} elements of type {}, at most {} are read",
                         array.offset, array.count, GgufTypeName(array.element_type), visits_left);
  }
  visits_left -= array.count;
  for (uint64_t i = 0; i < array.count; ++i) {
    if (array.element_type == GgufType::kString) {
      THAW_ASSIGN(const uint64_t length, reader.ReadNumber<uint64_t>("the length of a string"));
      THAW_TRY(reader.Skip(length, "a string of the array"));
    } else {
      THAW_TRY(ReadArrayPlace(reader, visits_left, depth + 1));
    }
  }
  return {};
}

}  // namespace

Result<GgufType> ReadGgufType(WindowReader& reader) {
  const uint64_t offset = reader.position();
  THAW_ASSIGN(const uint32_t number, reader.ReadNumber<uint32_t>("the type of a value"));
  if (number > static_cast<uint32_t>(GgufType::kFloat64)) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "the value type at offset {} is {}, 0 to 12 are expected", offset, number);
  }
  return static_cast<GgufType>(number);
}

Result<GgufArray> ReadArrayPlace(WindowReader& reader, uint64_t& visits_left, int depth) {
  if (depth > kMaxArrayDepth) {
    return reader.Refuse(ErrorCode::kUnsupported, "arrays are nested deeper than {} at offset {}",
                         kMaxArrayDepth, reader.position());
  }
  GgufArray array;
  THAW_ASSIGN(array.element_type, ReadGgufType(reader));
  THAW_ASSIGN(array.count, reader.ReadNumber<uint64_t>("the length of an array"));
  array.offset = reader.position();
  const uint64_t least_bytes = LeastBytes(array.element_type);
  if (array.count > reader.remaining() / least_bytes) {
    return reader.Refuse(ErrorCode::kCorrupt,
                         "an array of {} elements of type {} needs at least {} bytes each at "
                         "offset {}, {} bytes are left in the file",
                         array.count, GgufTypeName(array.element_type), least_bytes, array.offset,
                         reader.remaining());
  }
  THAW_TRY(SkipElements(reader, array, visits_left, depth));
  array.bytes = reader.position() - array.offset;
  return array;
}

}  // namespace thaw
