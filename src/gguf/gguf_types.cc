#include "gguf/gguf_types.h"

#include <limits>

#include "base/check.h"
#include "base/utf8.h"
#include "codec/frozen_tensor.h"

namespace thaw {
namespace {

struct TypeRow {
  std::string_view name;
  uint64_t bytes;
};

// Indexed by GgufType.
constexpr TypeRow kTypes[] = {
    {"uint8", 1},  {"int8", 1},    {"uint16", 2},  {"int16", 2},  {"uint32", 4},
    {"int32", 4},  {"float32", 4}, {"bool", 1},    {"string", 0}, {"array", 0},
    {"uint64", 8}, {"int64", 8},   {"float64", 8},
};

const TypeRow& Row(GgufType type) {
  const auto index = static_cast<size_t>(type);
  THAW_CHECK(index < std::size(kTypes));
  return kTypes[index];
}

}  // namespace

std::string_view GgufTypeName(GgufType type) { return Row(type).name; }

uint64_t GgufTypeBytes(GgufType type) { return Row(type).bytes; }

std::string GgufField::TypeName() const {
  if (const GgufArray* elements = array()) {
    return fmt::format("array of {}", GgufTypeName(elements->element_type));
  }
  return std::string(GgufTypeName(type));
}

std::string_view TypeName(const TensorInfo& tensor) {
  if (tensor.frozen == nullptr) return Info(tensor.type).name;
  return tensor.frozen->kind == FrozenKind::kEcq ? "frozen-ecq" : "frozen-bf16";
}

std::string ShapeText(std::span<const int64_t> dims) {
  return fmt::format("[{}]", fmt::join(dims, ", "));
}

Result<uint64_t> TensorBytes(ElementType type,
                             const std::array<int64_t, kMaxTensorDimensions>& dims) {
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  const ElementTypeInfo& info = Info(type);
  int64_t elements = 1;  // of the dimensions that are not 0
  bool is_empty = false;
  for (const int64_t dim : dims) {
    if (dim < 0) return Fail(ErrorCode::kCorrupt, "a dimension is {}", dim);
    is_empty |= dim == 0;
    if (dim > 1 && elements > kMax / dim) {
      return Fail(ErrorCode::kCorrupt, "the dimensions {} x {} x {} x {} overflow 63 bits", dims[0],
                  dims[1], dims[2], dims[3]);
    }
    if (dim > 1) elements *= dim;
  }
  if (dims[0] % info.block_elements != 0) {
    return Fail(ErrorCode::kCorrupt,
                "a row has {} elements, a multiple of {} (a block of {}) is expected", dims[0],
                info.block_elements, info.name);
  }
  if (is_empty) return 0;
  const int64_t blocks = elements / info.block_elements;
  if (blocks > kMax / info.block_bytes) {
    return Fail(ErrorCode::kCorrupt, "{} blocks of {} bytes overflow 63 bits", blocks,
                info.block_bytes);
  }
  return static_cast<uint64_t>(blocks * info.block_bytes);
}

std::string Quote(std::string_view name) {
  constexpr size_t kMaxShown = 160;
  const bool is_cut = name.size() > kMaxShown;
  std::string quoted = "\"";
  for (const char c : ReplaceInvalidUtf8(name.substr(0, kMaxShown))) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  quoted += is_cut ? "\"..." : "\"";
  return quoted;
}

}  // namespace thaw
