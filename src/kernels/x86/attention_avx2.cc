// Attention over a KV cache in AVX2. See avx2.h for what may be called here.
#include "kernels/x86/avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// Query heads that share each load of a key or value: as many as leave the chain of fma over a
// head's numbers (or over positions) independent enough to hide its latency.
constexpr int64_t kTileHeads = 4;

template <KvType type>
constexpr int64_t kNumberBytes = type == KvType::kF32 ? 4 : 2;

template <KvType type>
__m256 LoadKv(const std::byte* p) {
  if constexpr (type == KvType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
  } else {
    return LoadHalves(p);
  }
}

// The first n < 8 numbers at p, the other lanes 0.
template <KvType type>
__m256 LoadFirstKv(const std::byte* p, int64_t n) {
  if constexpr (type == KvType::kF32) {
    return LoadFirst(reinterpret_cast<const float*>(p), n);
  } else {
    return _mm256_cvtph_ps(LoadFirst16(p, n));
  }
}

// The sums of the lanes of four vectors.
__m128 SumsOfFour(const __m256* v) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

// Scores of kHeads query heads from `head` on with every position.
template <KvType type, int kHeads>
void Score(const AttentionArguments& a, int64_t head) {
  const float* q = a.q + head * a.head_dim;
  float* scores = a.scores + head * a.n_positions;
  for (int64_t position = 0; position < a.n_positions; ++position) {
    const std::byte* key = a.k + position * a.k_stride * kNumberBytes<type>;
    __m256 total[kTileHeads] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                                _mm256_setzero_ps()};
    int64_t i = 0;
    for (; i + 8 <= a.head_dim; i += 8) {
      const __m256 k = LoadKv<type>(key + i * kNumberBytes<type>);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        total[h] = _mm256_fmadd_ps(_mm256_loadu_ps(q + h * a.head_dim + i), k, total[h]);
      }
    }
    if (i < a.head_dim) {
      const int64_t rest = a.head_dim - i;
      const __m256 k = LoadFirstKv<type>(key + i * kNumberBytes<type>, rest);
#pragma GCC unroll 4
      for (int h = 0; h < kHeads; ++h) {
        total[h] = _mm256_fmadd_ps(LoadFirst(q + h * a.head_dim + i, rest), k, total[h]);
      }
    }
    alignas(16) float sums[kTileHeads];
    _mm_store_ps(sums, _mm_mul_ps(SumsOfFour(total), _mm_set1_ps(a.scale)));
    for (int h = 0; h < kHeads; ++h) scores[h * a.n_positions + position] = sums[h];
  }
}

// out[i, i + 8 kVectors) of kHeads heads: values weighted by the scores, position after position.
template <KvType type, int kHeads, int kVectors>
void Weigh(const AttentionArguments& a, int64_t head, int64_t i) {
  const float* scores = a.scores + head * a.n_positions;
  const std::byte* value = a.v + i * kNumberBytes<type>;
  __m256 total[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int j = 0; j < kVectors; ++j) total[h][j] = _mm256_setzero_ps();
  }
  for (int64_t position = 0; position < a.n_positions; ++position) {
    __m256 v[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) v[j] = LoadKv<type>(value + 8 * j * kNumberBytes<type>);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      const __m256 score = _mm256_broadcast_ss(scores + h * a.n_positions + position);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) total[h][j] = _mm256_fmadd_ps(score, v[j], total[h][j]);
    }
    value += a.v_stride * kNumberBytes<type>;
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int j = 0; j < kVectors; ++j) {
      _mm256_storeu_ps(a.out + (head + h) * a.v_head_dim + i + 8 * j, total[h][j]);
    }
  }
}

// The last `n` < 8 numbers of one head, from i on.
template <KvType type>
void WeighRest(const AttentionArguments& a, int64_t head, int64_t i, int64_t n) {
  const float* scores = a.scores + head * a.n_positions;
  __m256 total = _mm256_setzero_ps();
  for (int64_t position = 0; position < a.n_positions; ++position) {
    const std::byte* value = a.v + (position * a.v_stride + i) * kNumberBytes<type>;
    total = _mm256_fmadd_ps(_mm256_set1_ps(scores[position]), LoadFirstKv<type>(value, n), total);
  }
  _mm256_maskstore_ps(a.out + head * a.v_head_dim + i, FirstLanes(n), total);
}

template <KvType type, int kHeads>
void AttendHeads(const AttentionArguments& a, int64_t head) {
  Score<type, kHeads>(a, head);
  for (int h = 0; h < kHeads; ++h) Softmax(a.scores + (head + h) * a.n_positions, a.n_positions);
  int64_t i = 0;
  for (; i + 16 <= a.v_head_dim; i += 16) Weigh<type, kHeads, 2>(a, head, i);
  for (; i + 8 <= a.v_head_dim; i += 8) Weigh<type, kHeads, 1>(a, head, i);
  if (i == a.v_head_dim) return;
  for (int h = 0; h < kHeads; ++h) WeighRest<type>(a, head + h, i, a.v_head_dim - i);
}

template <KvType type>
void AttendAll(const AttentionArguments& a) {
  for (int64_t head = 0; head < a.group; head += kTileHeads) {
    switch (a.group - head) {
      case 1:
        AttendHeads<type, 1>(a, head);
        break;
      case 2:
        AttendHeads<type, 2>(a, head);
        break;
      case 3:
        AttendHeads<type, 3>(a, head);
        break;
      default:
        AttendHeads<type, 4>(a, head);
        break;
    }
  }
}

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  if (type == KvType::kF32) {
    std::memcpy(out, x, static_cast<size_t>(n) * 4);
    return;
  }
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const __m128i halves = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 2 * i), halves);
  }
  if (i == n) return;
  alignas(16) std::byte buffer[16];
  _mm_store_si128(reinterpret_cast<__m128i*>(buffer),
                  _mm256_cvtps_ph(LoadFirst(x + i, n - i), _MM_FROUND_TO_NEAREST_INT));
  std::memcpy(out + 2 * i, buffer, static_cast<size_t>(n - i) * 2);
}

void Attention(const AttentionArguments& arguments) {
  if (arguments.kv_type == KvType::kF32) {
    AttendAll<KvType::kF32>(arguments);
  } else {
    AttendAll<KvType::kF16>(arguments);
  }
}

}  // namespace thaw::avx2
