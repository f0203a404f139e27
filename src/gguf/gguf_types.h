// What a GGUF directory is made of: the fields (metadata) and the tensors it declares.
//
// The format is the one of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2
// and 3, little endian. All of this is plain data. Numbers are held as values; strings and arrays
// stay in the file and are held as the place they have there, so that a directory costs a few dozen
// bytes a field whatever the size of its vocabulary.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "tensor/element_type.h"

namespace thaw {

struct FrozenTensor;

// Types of field values, by the numbers that files carry.
enum class GgufType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,  // one byte, 0 or 1
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// "uint32", "string", ...
std::string_view GgufTypeName(GgufType type);

// Bytes of one value; 0 for strings and arrays, which carry their length.
uint64_t GgufTypeBytes(GgufType type);

// Where the characters of a string stand in the file.
struct GgufStringPlace {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Where the elements of an array stand in the file, one after the other without padding.
struct GgufArray {
  GgufType element_type = GgufType::kUint8;
  uint64_t count = 0;   // elements
  uint64_t offset = 0;  // of the first element
  uint64_t bytes = 0;   // of all elements together, with the lengths that strings and arrays carry
};

// Integers and floats are widened, which loses nothing; `type` of the field says how wide they
// were.
using GgufValue = std::variant<uint64_t, int64_t, double, bool, GgufStringPlace, GgufArray>;

struct GgufField {
  std::string key;  // valid UTF-8, not empty, unique in its file
  GgufType type = GgufType::kUint8;
  GgufValue value;
  uint64_t value_offset = 0;  // of the value's bytes in the file, after its type
  uint64_t value_bytes = 0;

  // "uint32", or "array of string" for arrays.
  std::string TypeName() const;
  // nullptr unless the field is an array.
  const GgufArray* array() const { return std::get_if<GgufArray>(&value); }
};

inline constexpr int kMaxTensorDimensions = 4;  // of the format

struct TensorInfo {
  std::string name;  // valid UTF-8, not empty, unique in the model
  ElementType type = ElementType::kF32;
  int n_dims = 0;
  // dims[0] is the contiguous one (the length of a row); 1 from n_dims on. A dimension may be 0,
  // the product of the others fits int64_t.
  std::array<int64_t, kMaxTensorDimensions> dims = {1, 1, 1, 1};
  int file_index = 0;   // which part of a split model holds the data
  uint64_t offset = 0;  // of the data, from the start of that file
  uint64_t bytes = 0;   // 0 when a dimension is 0
  // Where its tiles are, of a frozen tensor (codec/frozen_tensor.h): `type` and `dims` are then
  // those that it has once it is thawed, `offset` and `bytes` those of its blob. nullptr for
  // others.
  std::shared_ptr<const FrozenTensor> frozen = nullptr;

  // The tensor's own dimensions, without the ones behind them.
  std::span<const int64_t> extents() const {
    return std::span(dims).first(static_cast<size_t>(n_dims));
  }
  int64_t elements() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
  int64_t rows() const { return dims[1] * dims[2] * dims[3]; }
};

// "Q4_0", "frozen-ecq"
std::string_view TypeName(const TensorInfo& tensor);

// "[576, 49152]", the contiguous dimension first.
std::string ShapeText(std::span<const int64_t> dims);

// Bytes of a tensor's data. kCorrupt when a dimension is negative, a row is not a whole number of
// blocks, or the elements or bytes do not fit int64_t.
Result<uint64_t> TensorBytes(ElementType type,
                             const std::array<int64_t, kMaxTensorDimensions>& dims);

// `name` in double quotes for an error message: control characters and bytes that are no UTF-8 are
// replaced, and what exceeds the longest allowed tensor name by far is cut.
std::string Quote(std::string_view name);

inline constexpr std::string_view kGgufMagic = "GGUF";
inline constexpr std::string_view kAlignmentKey = "general.alignment";
inline constexpr uint32_t kDefaultAlignment = 32;    // of the format, when the field is absent
inline constexpr uint64_t kMaxKeyBytes = 65535;      // of the format
inline constexpr uint64_t kMaxTensorNameBytes = 64;  // of the format

// A string or array above this is not read into memory. Real ones are far below: vocabularies with
// their merges are 4 to 20 MiB, the JSON of a whole tokenizer up to 33 MiB.
inline constexpr uint64_t kMaxValueBytes = 64 << 20;

}  // namespace thaw
