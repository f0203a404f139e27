#include "kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/portable/int8_block.h"
#include "kernels/portable/portable.h"
#include "tensor/half.h"

namespace thaw {

std::string_view KvTypeName(KvType type) {
  switch (type) {
    case KvType::kF32:
      return "f32";
    case KvType::kF16:
      return "f16";
    case KvType::kQ8_0:
      break;
  }
  return "q8_0";
}

bool CanStoreKv(KvType type, int64_t n) { return type != KvType::kQ8_0 || n % kKvBlock == 0; }

int64_t KvRowBytes(KvType type, int64_t n) {
  switch (type) {
    case KvType::kF32:
      return n * 4;
    case KvType::kF16:
      return n * 2;
    case KvType::kQ8_0:
      break;
  }
  return (n + kKvBlock - 1) / kKvBlock * kKvBlockBytes;
}

namespace portable {
namespace {

// Below this the scale, amax / 127, is no normal number, and so neither as exact as the others nor
// sure to have a reciprocal; next to anything a model computes such a block is zero.
constexpr float kSmallestAmax = 0x1p-119f;

constexpr uint16_t kBF16NaN = 0x7fc0;

template <typename T>
T Load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

float LoadKv(const std::byte* row, int64_t i, KvType type) {
  switch (type) {
    case KvType::kF32:
      return Load<float>(row + i * 4);
    case KvType::kF16:
      return F16ToF32(Load<uint16_t>(row + i * 2));
    case KvType::kQ8_0:
      break;
  }
  const std::byte* block = row + i / kKvBlock * kKvBlockBytes;
  const auto quant = Load<int8_t>(block + 2 + i % kKvBlock);
  return BF16ToF32(Load<uint16_t>(block)) * static_cast<float>(quant);
}

void StoreBlock(const float* x, std::byte* out) {
  const float amax = LargestMagnitude(x, kKvBlock);
  uint16_t scale = 0;
  int8_t quants[kKvBlock] = {};
  if (!IsFiniteMagnitude(amax)) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = F32ToBF16(amax / 127.0f);
    const float inverse = 1.0f / BF16ToF32(scale);
    for (int64_t i = 0; i < kKvBlock; ++i) {
      quants[i] = static_cast<int8_t>(RoundToInt(x[i] * inverse));
    }
  }
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), quants, sizeof(quants));
}

void StoreHalves(const float* x, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = F32ToF16(x[i]);
    std::memcpy(out + i * int64_t{sizeof(bits)}, &bits, sizeof(bits));
  }
}

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
      break;
    case KvType::kF16:
      StoreHalves(x, n, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) StoreBlock(x + i, out);
      break;
  }
}

void Attention(const AttentionArguments& a) {
  for (int64_t head = 0; head < a.group; ++head) {
    const float* q = a.q + head * a.head_dim;
    float* scores = a.scores + head * a.n_positions;
    for (int64_t position = 0; position < a.n_positions; ++position) {
      const std::byte* key = a.k + position * a.k_stride_bytes;
      float dot = 0;
      for (int64_t i = 0; i < a.head_dim; ++i) dot += q[i] * LoadKv(key, i, a.kv_type);
      scores[position] = dot * a.scale;
    }
    Softmax(scores, a.n_positions);

    float* out = a.out + head * a.v_head_dim;
    std::fill_n(out, a.v_head_dim, 0.0f);
    for (int64_t position = 0; position < a.n_positions; ++position) {
      const std::byte* value = a.v + position * a.v_stride_bytes;
      for (int64_t i = 0; i < a.v_head_dim; ++i) {
        out[i] += scores[position] * LoadKv(value, i, a.kv_type);
      }
    }
  }
}

}  // namespace portable
}  // namespace thaw
