// The values of a GgufFile's fields.
#include <limits>
#include <type_traits>
#include <utility>

#include "gguf/array_place.h"
#include "gguf/gguf_file.h"
#include "gguf/window_reader.h"

namespace thaw {
namespace {

constexpr auto kMaxInt64 = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());

// "the int32 -5", "of type array of string": what a field was found to be.
std::string Describe(const GgufField& field) {
  const std::string type_name = field.TypeName();
  if (const auto* number = std::get_if<uint64_t>(&field.value)) {
    return fmt::format("the {} {}", type_name, *number);
  }
  if (const auto* number = std::get_if<int64_t>(&field.value)) {
    return fmt::format("the {} {}", type_name, *number);
  }
  if (const auto* number = std::get_if<double>(&field.value)) {
    return fmt::format("the {} {}", type_name, *number);
  }
  return fmt::format("of type {}", type_name);
}

tl::unexpected<Error> WrongType(const std::string& path, const GgufField& field,
                                std::string_view expected) {
  return Fail(ErrorCode::kCorrupt, "{}: field {} is {}, {} is expected", path, Quote(field.key),
              Describe(field), expected);
}

tl::unexpected<Error> WrongElements(const std::string& path, const GgufArray& array,
                                    std::string_view name, std::string_view expected) {
  return Fail(ErrorCode::kCorrupt, "{}: field {} is an array of {}, an array of {} is expected",
              path, Quote(name), GgufTypeName(array.element_type), expected);
}

// A reader at the front of an array that may be read into memory.
Result<WindowReader> StartReading(const File& file, const GgufArray& array, std::string_view name) {
  if (array.bytes > kMaxValueBytes) {
    return Fail(ErrorCode::kResourceExhausted,
                "{}: field {}: its array has {} bytes, at most {} are read into memory",
                file.path(), Quote(name), array.bytes, kMaxValueBytes);
  }
  return WindowReader(file, array.offset, fmt::format("field {}", Quote(name)));
}

constexpr const char* kElement = "an element of the array";

template <typename Stored, typename Out>
Result<void> ReadNumbers(WindowReader& reader, uint64_t count, std::vector<Out>& out) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = reader.position();
    THAW_ASSIGN(const Stored value, reader.ReadNumber<Stored>(kElement));
    if constexpr (std::is_same_v<Stored, uint64_t> && std::is_same_v<Out, int64_t>) {
      if (value > kMaxInt64) {
        return reader.Refuse(ErrorCode::kCorrupt,
                             "element {} at offset {} is {}, at most 2^63 - 1 is expected", i,
                             offset, value);
      }
    }
    out.push_back(static_cast<Out>(value));
  }
  return {};
}

Result<void> ReadBools(WindowReader& reader, uint64_t count, std::vector<int64_t>& out) {
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t offset = reader.position();
    THAW_ASSIGN(const uint8_t byte, reader.ReadNumber<uint8_t>(kElement));
    if (byte > 1) {
      return reader.Refuse(ErrorCode::kCorrupt,
                           "the bool of element {} at offset {} is {}, 0 or 1 is expected", i,
                           offset, byte);
    }
    out.push_back(byte);
  }
  return {};
}

bool IsInteger(GgufType type) {
  switch (type) {
    case GgufType::kUint8:
    case GgufType::kInt8:
    case GgufType::kUint16:
    case GgufType::kInt16:
    case GgufType::kUint32:
    case GgufType::kInt32:
    case GgufType::kUint64:
    case GgufType::kInt64:
      return true;
    default:
      return false;
  }
}

template <typename Out>
Result<void> ReadIntegers(WindowReader& reader, const GgufArray& array, std::vector<Out>& out) {
  switch (array.element_type) {
    case GgufType::kUint8:
      return ReadNumbers<uint8_t>(reader, array.count, out);
    case GgufType::kInt8:
      return ReadNumbers<int8_t>(reader, array.count, out);
    case GgufType::kUint16:
      return ReadNumbers<uint16_t>(reader, array.count, out);
    case GgufType::kInt16:
      return ReadNumbers<int16_t>(reader, array.count, out);
    case GgufType::kUint32:
      return ReadNumbers<uint32_t>(reader, array.count, out);
    case GgufType::kInt32:
      return ReadNumbers<int32_t>(reader, array.count, out);
    case GgufType::kUint64:
      return ReadNumbers<uint64_t>(reader, array.count, out);
    default:
      return ReadNumbers<int64_t>(reader, array.count, out);
  }
}

}  // namespace

Result<const GgufField*> GgufFile::Require(std::string_view key, std::string_view expected) const {
  const GgufField* field = Find(key);
  if (field == nullptr) {
    return Fail(ErrorCode::kNotFound, "{}: field {} is missing, {} is expected", path(), Quote(key),
                expected);
  }
  return field;
}

Result<uint64_t> GgufFile::GetUint(std::string_view key) const {
  constexpr std::string_view kExpected = "an unsigned integer";
  THAW_ASSIGN(const GgufField* field, Require(key, kExpected));
  if (const auto* number = std::get_if<uint64_t>(&field->value)) return *number;
  const auto* number = std::get_if<int64_t>(&field->value);
  if (number == nullptr || *number < 0) return WrongType(path(), *field, kExpected);
  return static_cast<uint64_t>(*number);
}

Result<int64_t> GgufFile::GetInt(std::string_view key) const {
  constexpr std::string_view kExpected = "an integer of 64 bits with sign";
  THAW_ASSIGN(const GgufField* field, Require(key, kExpected));
  if (const auto* number = std::get_if<int64_t>(&field->value)) return *number;
  const auto* number = std::get_if<uint64_t>(&field->value);
  if (number == nullptr || *number > kMaxInt64) return WrongType(path(), *field, kExpected);
  return static_cast<int64_t>(*number);
}

Result<double> GgufFile::GetFloat(std::string_view key) const {
  constexpr std::string_view kExpected = "a number";
  THAW_ASSIGN(const GgufField* field, Require(key, kExpected));
  if (const auto* number = std::get_if<double>(&field->value)) return *number;
  if (const auto* number = std::get_if<int64_t>(&field->value)) return static_cast<double>(*number);
  const auto* number = std::get_if<uint64_t>(&field->value);
  if (number == nullptr) return WrongType(path(), *field, kExpected);
  return static_cast<double>(*number);
}

Result<bool> GgufFile::GetBool(std::string_view key) const {
  constexpr std::string_view kExpected = "a bool";
  THAW_ASSIGN(const GgufField* field, Require(key, kExpected));
  const auto* value = std::get_if<bool>(&field->value);
  if (value == nullptr) return WrongType(path(), *field, kExpected);
  return *value;
}

Result<std::string> GgufFile::GetString(std::string_view key) const {
  constexpr std::string_view kExpected = "a string";
  THAW_ASSIGN(const GgufField* field, Require(key, kExpected));
  const auto* place = std::get_if<GgufStringPlace>(&field->value);
  if (place == nullptr) return WrongType(path(), *field, kExpected);
  std::string text(static_cast<size_t>(place->bytes), '\0');
  THAW_TRY(ReadExactlyAt(*files_.front(), place->offset, std::as_writable_bytes(std::span(text))));
  return text;
}

Result<uint64_t> GgufFile::GetUintOr(std::string_view key, uint64_t missing) const {
  return Find(key) == nullptr ? missing : GetUint(key);
}

Result<int64_t> GgufFile::GetIntOr(std::string_view key, int64_t missing) const {
  return Find(key) == nullptr ? missing : GetInt(key);
}

Result<double> GgufFile::GetFloatOr(std::string_view key, double missing) const {
  return Find(key) == nullptr ? missing : GetFloat(key);
}

Result<bool> GgufFile::GetBoolOr(std::string_view key, bool missing) const {
  return Find(key) == nullptr ? missing : GetBool(key);
}

Result<std::string> GgufFile::GetStringOr(std::string_view key, std::string_view missing) const {
  return Find(key) == nullptr ? std::string(missing) : GetString(key);
}

Result<GgufArray> GgufFile::RequireArray(std::string_view key) const {
  THAW_ASSIGN(const GgufField* field, Require(key, "an array"));
  if (field->array() == nullptr) return WrongType(path(), *field, "an array");
  return *field->array();
}

Result<std::vector<std::string>> GgufFile::ReadStrings(std::string_view key) const {
  THAW_ASSIGN(const GgufArray array, RequireArray(key));
  return ReadStrings(array, key);
}

Result<std::vector<int64_t>> GgufFile::ReadInts(std::string_view key) const {
  THAW_ASSIGN(const GgufArray array, RequireArray(key));
  return ReadInts(array, key);
}

Result<std::vector<float>> GgufFile::ReadFloats(std::string_view key) const {
  THAW_ASSIGN(const GgufArray array, RequireArray(key));
  return ReadFloats(array, key);
}

Result<std::vector<GgufArray>> GgufFile::ReadArrays(std::string_view key) const {
  THAW_ASSIGN(const GgufArray array, RequireArray(key));
  return ReadArrays(array, key);
}

Result<std::vector<std::string>> GgufFile::ReadStrings(const GgufArray& array,
                                                       std::string_view name) const {
  if (array.element_type != GgufType::kString) {
    return WrongElements(path(), array, name, "string");
  }
  THAW_ASSIGN(WindowReader reader, StartReading(*files_.front(), array, name));
  std::vector<std::string> strings;
  strings.reserve(static_cast<size_t>(array.count));
  for (uint64_t i = 0; i < array.count; ++i) {
    THAW_ASSIGN(std::string text, reader.ReadString(array.bytes, "a string of the array"));
    strings.push_back(std::move(text));
  }
  return strings;
}

Result<std::vector<int64_t>> GgufFile::ReadInts(const GgufArray& array,
                                                std::string_view name) const {
  const bool is_bool = array.element_type == GgufType::kBool;
  if (!is_bool && !IsInteger(array.element_type)) {
    return WrongElements(path(), array, name, "integers");
  }
  THAW_ASSIGN(WindowReader reader, StartReading(*files_.front(), array, name));
  std::vector<int64_t> values;
  values.reserve(static_cast<size_t>(array.count));
  THAW_TRY(is_bool ? ReadBools(reader, array.count, values) : ReadIntegers(reader, array, values));
  return values;
}

Result<std::vector<float>> GgufFile::ReadFloats(const GgufArray& array,
                                                std::string_view name) const {
  const bool is_float32 = array.element_type == GgufType::kFloat32;
  const bool is_float64 = array.element_type == GgufType::kFloat64;
  if (!is_float32 && !is_float64 && !IsInteger(array.element_type)) {
    return WrongElements(path(), array, name, "numbers");
  }
  THAW_ASSIGN(WindowReader reader, StartReading(*files_.front(), array, name));
  std::vector<float> values;
  values.reserve(static_cast<size_t>(array.count));
  if (is_float32) {
    THAW_TRY(ReadNumbers<float>(reader, array.count, values));
  } else if (is_float64) {
    THAW_TRY(ReadNumbers<double>(reader, array.count, values));
  } else {
    THAW_TRY(ReadIntegers(reader, array, values));
  }
  return values;
}

Result<std::vector<GgufArray>> GgufFile::ReadArrays(const GgufArray& array,
                                                    std::string_view name) const {
  if (array.element_type != GgufType::kArray) return WrongElements(path(), array, name, "arrays");
  THAW_ASSIGN(WindowReader reader, StartReading(*files_.front(), array, name));
  std::vector<GgufArray> arrays;
  arrays.reserve(static_cast<size_t>(array.count));
  uint64_t visits_left = kMaxVisitedElements;
  for (uint64_t i = 0; i < array.count; ++i) {
    THAW_ASSIGN(const GgufArray inner, ReadArrayPlace(reader, visits_left));
    arrays.push_back(inner);
  }
  return arrays;
}

}  // namespace thaw
