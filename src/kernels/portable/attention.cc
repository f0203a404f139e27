#include "kernels/attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/portable/portable.h"
#include "tensor/half.h"

namespace thaw {

int64_t KvTypeBytes(KvType type) { return type == KvType::kF32 ? 4 : 2; }

namespace portable {
namespace {

float LoadKv(const std::byte* row, int64_t i, KvType type) {
  if (type == KvType::kF32) {
    float value;
    std::memcpy(&value, row + i * int64_t{sizeof(value)}, sizeof(value));
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, row + i * int64_t{sizeof(bits)}, sizeof(bits));
  return F16ToF32(bits);
}

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  if (type == KvType::kF32) {
    std::memcpy(out, x, static_cast<size_t>(n) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = F32ToF16(x[i]);
    std::memcpy(out + i * int64_t{sizeof(bits)}, &bits, sizeof(bits));
  }
}

void Attention(const AttentionArguments& a) {
  const int64_t k_row_bytes = a.k_stride * KvTypeBytes(a.kv_type);
  const int64_t v_row_bytes = a.v_stride * KvTypeBytes(a.kv_type);
  for (int64_t head = 0; head < a.group; ++head) {
    const float* q = a.q + head * a.head_dim;
    float* scores = a.scores + head * a.n_positions;
    for (int64_t position = 0; position < a.n_positions; ++position) {
      const std::byte* key = a.k + position * k_row_bytes;
      float dot = 0;
      for (int64_t i = 0; i < a.head_dim; ++i) dot += q[i] * LoadKv(key, i, a.kv_type);
      scores[position] = dot * a.scale;
    }
    Softmax(scores, a.n_positions);

    float* out = a.out + head * a.v_head_dim;
    std::fill_n(out, a.v_head_dim, 0.0f);
    for (int64_t position = 0; position < a.n_positions; ++position) {
      const std::byte* value = a.v + position * v_row_bytes;
      for (int64_t i = 0; i < a.v_head_dim; ++i) {
        out[i] += scores[position] * LoadKv(value, i, a.kv_type);
      }
    }
  }
}

}  // namespace portable
}  // namespace thaw
