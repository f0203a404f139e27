// Attention over a KV cache in AVX2. See avx2.h for what may be called here.
#include "kernels/attention_tile.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

// The operations that attention_tile.h asks for, on 8 floats.
struct Vectors {
  using Type = __m256;
  static constexpr int64_t kLanes = 8;

  // 4 x 2 sums: enough chains to hide the latency of an fma.
  static constexpr int kKeyRows = 4;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 2;
  // 6 x 2 sums, 2 vectors of the panel and a factor: 15 of 16 registers, 12 fma for 8 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 2;

  static __m256 Zero() { return _mm256_setzero_ps(); }
  static __m256 Set(float x) { return _mm256_set1_ps(x); }
  static __m256 Load(const float* from) { return _mm256_loadu_ps(from); }
  static void Store(float* to, __m256 v) { _mm256_storeu_ps(to, v); }
  static __m256 Add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
  static __m256 Sub(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
  static __m256 Mul(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
  static __m256 Div(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
  static __m256 Fma(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
  static __m256 Max(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
  static __m256 Exp2(__m256 x) { return avx2::Exp2(x); }

  static __m256 LoadFirst(const float* from, int64_t n) { return avx2::LoadFirst(from, n); }
  // The first n lanes of v, the others of `other`.
  static __m256 KeepFirst(int64_t n, __m256 v, __m256 other) {
    return _mm256_blendv_ps(other, v, _mm256_castsi256_ps(FirstLanes(n)));
  }
  static float SumOfLanes(__m256 v) { return avx2::SumOfLanes(v); }
  static float LargestLane(__m256 v) {
    __m128 largest = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    largest = _mm_max_ps(largest, _mm_movehl_ps(largest, largest));
    return _mm_cvtss_f32(_mm_max_ss(largest, _mm_shuffle_ps(largest, largest, 1)));
  }

  template <KvType type>
  static __m256 Widen(__m128i halves) {
    if constexpr (type == KvType::kF16) {
      return _mm256_cvtph_ps(halves);
    } else {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
    }
  }
  template <KvType type>
  static __m256 LoadHalves(const std::byte* from) {
    return Widen<type>(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  template <KvType type>
  static __m256 LoadFirstHalves(const std::byte* from, int64_t n) {
    return Widen<type>(LoadFirst16(from, n));
  }
  static __m256 LoadScales(const std::byte* from) { return LoadHalves<KvType::kBF16>(from); }
  static __m256 LoadBytes(const std::byte* from) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static __m256 BroadcastScale(const std::byte* from) {
    int16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_set1_epi16(bits), 16));
  }
  static void Prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }
};

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
  const float amax = LargestMagnitude(&block, 1);
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

// To the nearest, ties to even, of any number; a NaN stays one and becomes quiet.
void StoreBrainHalves(const float* x, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, x + i, sizeof(bits));
    const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const auto half = static_cast<uint16_t>(is_nan ? bits >> 16 | 0x0040 : rounded >> 16);
    std::memcpy(out + 2 * i, &half, sizeof(half));
  }
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
    case KvType::kBF16:
      StoreBrainHalves(x, n, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) StoreBlock(x + i, out);
      break;
  }
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<Vectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx2
