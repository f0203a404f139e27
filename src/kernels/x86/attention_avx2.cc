// Attention over a KV cache in AVX2. See avx2.h for what may be called here.
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// Query heads that share each load of a key or value: as many as leave the chain of fma over a
// head's numbers (or over positions) independent enough to hide its latency.
constexpr int64_t kTileHeads = 4;

// Rows are read in blocks of 32 numbers whatever their type; what is left of the float types is
// read in vectors of 8 and a part of one.
template <KvType type>
constexpr int64_t kBlockBytes = kKvBlockBytes;
template <>
constexpr int64_t kBlockBytes<KvType::kF32> = kKvBlock * 4;
template <>
constexpr int64_t kBlockBytes<KvType::kF16> = kKvBlock * 2;

// Numbers [i, i + 8) of the 32 of a block.
template <KvType type>
__m256 LoadKv(const std::byte* block, int64_t i) {
  if constexpr (type == KvType::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(block) + i);
  } else if constexpr (type == KvType::kF16) {
    return LoadHalves(block + 2 * i);
  } else {
    int16_t scale_bits;
    std::memcpy(&scale_bits, block, sizeof(scale_bits));
    const __m256 scale = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_set1_epi16(scale_bits), 16));
    const __m128i quants = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(block + 2 + i));
    return _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(quants)));
  }
}

// The first n < 8 of those numbers, the other lanes 0.
template <KvType type>
__m256 LoadFirstKv(const std::byte* block, int64_t i, int64_t n) {
  if constexpr (type == KvType::kF32) {
    return LoadFirst(reinterpret_cast<const float*>(block) + i, n);
  } else {
    return _mm256_cvtph_ps(LoadFirst16(block + 2 * i, n));
  }
}

// The sums of the lanes of four vectors.
__m128 SumsOfFour(const __m256* v) {
  const __m256 sums = _mm256_hadd_ps(_mm256_hadd_ps(v[0], v[1]), _mm256_hadd_ps(v[2], v[3]));
  return _mm_add_ps(_mm256_castps256_ps128(sums), _mm256_extractf128_ps(sums, 1));
}

// Adds the products of the numbers from i on, fewer than 32, which are the first of `block`.
template <KvType type, int kHeads>
void ScoreRest(const AttentionArguments& a, const float* q, int64_t i, const std::byte* block,
               __m256* total) {
  for (int64_t j = 0; i + j < a.head_dim; j += 8) {
    const int64_t rest = a.head_dim - i - j;
    const __m256 k = rest < 8 ? LoadFirstKv<type>(block, j, rest) : LoadKv<type>(block, j);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      const float* numbers = q + h * a.head_dim + i + j;
      const __m256 v = rest < 8 ? LoadFirst(numbers, rest) : _mm256_loadu_ps(numbers);
      total[h] = _mm256_fmadd_ps(v, k, total[h]);
    }
  }
}

// Scores of kHeads query heads from `head` on with every position.
template <KvType type, int kHeads>
void Score(const AttentionArguments& a, int64_t head) {
  const float* q = a.q + head * a.head_dim;
  float* scores = a.scores + head * a.n_positions;
  for (int64_t position = 0; position < a.n_positions; ++position) {
    const std::byte* block = a.k + position * a.k_stride_bytes;
    __m256 total[kTileHeads] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(),
                                _mm256_setzero_ps()};
    int64_t i = 0;
    for (; i + kKvBlock <= a.head_dim; i += kKvBlock, block += kBlockBytes<type>) {
#pragma GCC unroll 4
      for (int64_t j = 0; j < kKvBlock; j += 8) {
        const __m256 k = LoadKv<type>(block, j);
#pragma GCC unroll 4
        for (int h = 0; h < kHeads; ++h) {
          total[h] = _mm256_fmadd_ps(_mm256_loadu_ps(q + h * a.head_dim + i + j), k, total[h]);
        }
      }
    }
    if constexpr (type != KvType::kQ8_0) ScoreRest<type, kHeads>(a, q, i, block, total);
    alignas(16) float sums[kTileHeads];
    _mm_store_ps(sums, _mm_mul_ps(SumsOfFour(total), _mm_set1_ps(a.scale)));
    for (int h = 0; h < kHeads; ++h) scores[h * a.n_positions + position] = sums[h];
  }
}

// out[i, i + 8 kVectors) of kHeads heads: values weighted by the scores, position after position.
template <KvType type, int kHeads, int kVectors>
void Weigh(const AttentionArguments& a, int64_t head, int64_t i) {
  const float* scores = a.scores + head * a.n_positions;
  const std::byte* block = a.v + i / kKvBlock * kBlockBytes<type>;
  const int64_t first = i % kKvBlock;
  __m256 total[kHeads][kVectors];
  for (int h = 0; h < kHeads; ++h) {
    for (int j = 0; j < kVectors; ++j) total[h][j] = _mm256_setzero_ps();
  }
  for (int64_t position = 0; position < a.n_positions; ++position) {
    __m256 v[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) v[j] = LoadKv<type>(block, first + 8 * j);
#pragma GCC unroll 4
    for (int h = 0; h < kHeads; ++h) {
      const __m256 score = _mm256_broadcast_ss(scores + h * a.n_positions + position);
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) total[h][j] = _mm256_fmadd_ps(score, v[j], total[h][j]);
    }
    block += a.v_stride_bytes;
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
  const std::byte* block = a.v + i / kKvBlock * kBlockBytes<type>;
  const int64_t first = i % kKvBlock;
  __m256 total = _mm256_setzero_ps();
  for (int64_t position = 0; position < a.n_positions; ++position) {
    const __m256 v = LoadFirstKv<type>(block, first, n);
    total = _mm256_fmadd_ps(_mm256_set1_ps(scores[position]), v, total);
    block += a.v_stride_bytes;
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
  if constexpr (type != KvType::kQ8_0) {
    if (i == a.v_head_dim) return;
    for (int h = 0; h < kHeads; ++h) WeighRest<type>(a, head + h, i, a.v_head_dim - i);
  }
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

// As in portable/attention.cc, where it is derived.
constexpr float kSmallestAmax = 0x1p-119f;

constexpr uint16_t kBF16NaN = 0x7fc0;

// To the nearest, ties to even; for positive normal numbers.
uint16_t RoundToBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float WidenBF16(uint16_t half) {
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

void StoreBlock(const float* x, std::byte* out) {
  const FloatBlock block = LoadBlock(x);
  const float amax = LargestMagnitude(block);
  uint16_t scale = 0;
  __m256i quants = _mm256_setzero_si256();
  if (!(amax <= kLargestFinite)) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = RoundToBF16(amax / 127.0f);
    quants = PackToBytes(RoundProducts(block, 1.0f / WidenBF16(scale)));
  }
  std::memcpy(out, &scale, sizeof(scale));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + sizeof(scale)), quants);
}

void StoreHalves(const float* x, int64_t n, std::byte* out) {
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

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * 4);
      break;
    case KvType::kF16:
      StoreHalves(x, n, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) StoreBlock(x + i, out);
      break;
  }
}

void Attention(const AttentionArguments& arguments) {
  switch (arguments.kv_type) {
    case KvType::kF32:
      return AttendAll<KvType::kF32>(arguments);
    case KvType::kF16:
      return AttendAll<KvType::kF16>(arguments);
    case KvType::kQ8_0:
      return AttendAll<KvType::kQ8_0>(arguments);
  }
}

}  // namespace thaw::avx2
