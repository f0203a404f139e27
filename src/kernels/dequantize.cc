#include "kernels/dequantize.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/unpack.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// Elements unpacked at a time: 2.5 KiB of stack, and a multiple of every block (the largest is
// 256).
constexpr int64_t kChunkElements = 1024;

void DequantizeRow(const RowUnpacker& unpacker, const std::byte* row, std::span<float> out) {
  int8_t quants[kChunkElements];
  float scales[kChunkElements / kUnpackGroup];
  float offsets[kChunkElements / kUnpackGroup] = {};
  while (!out.empty()) {
    const int64_t k = std::min<int64_t>(kChunkElements, static_cast<int64_t>(out.size()));
    unpacker.unpack(row, k, quants, scales, offsets);
    for (int64_t i = 0; i < k; ++i) {
      const float scaled = scales[i / kUnpackGroup] * static_cast<float>(quants[i]);
      out[i] = unpacker.has_offsets ? scaled + offsets[i / kUnpackGroup] : scaled;
    }
    row += RowBytes(unpacker.type, k);
    out = out.subspan(k);
  }
}

template <typename Stored, typename ToFloat>
void ConvertEach(const std::byte* stored, std::span<float> out, ToFloat to_float) {
  for (size_t i = 0; i < out.size(); ++i) {
    Stored value;
    std::memcpy(&value, stored + i * sizeof(Stored), sizeof(Stored));
    out[i] = to_float(value);
  }
}

template <typename Number>
void ConvertNumbers(const std::byte* stored, std::span<float> out) {
  ConvertEach<Number>(stored, out, [](Number value) { return static_cast<float>(value); });
}

}  // namespace

Result<void> Dequantize(ElementType type, std::span<const std::byte> rows, std::span<float> out) {
  const ElementTypeInfo& info = Info(type);
  const auto elements = static_cast<int64_t>(out.size());
  if (elements % info.block_elements != 0) {
    return Fail(ErrorCode::kInvalidArgument, "{} elements of type {}, expected a multiple of {}",
                elements, info.name, info.block_elements);
  }
  const int64_t expected_bytes = RowBytes(type, elements);
  if (static_cast<int64_t>(rows.size()) != expected_bytes) {
    return Fail(ErrorCode::kInvalidArgument, "{} elements of type {} in {} bytes, expected {}",
                elements, info.name, rows.size(), expected_bytes);
  }
  switch (type) {
    case ElementType::kF32:
      ConvertNumbers<float>(rows.data(), out);
      break;
    case ElementType::kF64:
      ConvertNumbers<double>(rows.data(), out);
      break;
    case ElementType::kI8:
      ConvertNumbers<int8_t>(rows.data(), out);
      break;
    case ElementType::kI16:
      ConvertNumbers<int16_t>(rows.data(), out);
      break;
    case ElementType::kI32:
      ConvertNumbers<int32_t>(rows.data(), out);
      break;
    case ElementType::kI64:
      ConvertNumbers<int64_t>(rows.data(), out);
      break;
    case ElementType::kF16:
      ConvertEach<uint16_t>(rows.data(), out, F16ToF32);
      break;
    case ElementType::kBF16:
      ConvertEach<uint16_t>(rows.data(), out, BF16ToF32);
      break;
    default:
      DequantizeRow(*FindRowUnpacker(type), rows.data(), out);
      break;
  }
  return {};
}

}  // namespace thaw
