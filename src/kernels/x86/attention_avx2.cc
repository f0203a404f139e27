// Attention over a KV cache in AVX2. See avx2.h for what may be called here.
#include "kernels/attention_tile.h"
#include "kernels/store_kv.h"
#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/avx2.h"
#include "kernels/x86/int8_block_avx2.h"
#include "kernels/x86/vector_avx2.h"

namespace thaw::avx2 {
namespace {

struct AttentionVectors : Vectors {
  // 4 x 2 sums: enough chains to hide the latency of an fma.
  static constexpr int kKeyRows = 4;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 2;
  // 6 x 2 sums, 2 vectors of the panel and a factor: 15 of 16 registers, 12 fma for 8 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 2;

  // 4 x 2 sums: GCC 12 keeps 6 x 2 of integers in memory.
  static constexpr int kPairRows = 4;
  static constexpr int kPairVectors = 2;

  using Ints = __m256i;
  static __m256i ZeroInts() { return _mm256_setzero_si256(); }
  static __m256i WidenPairs(const std::byte* from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static __m256i LoadPairs(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  }
  static __m256i SetPair(const int16_t* from) {
    int32_t pair;
    std::memcpy(&pair, from, sizeof(pair));
    return _mm256_set1_epi32(pair);
  }
  static __m256i AddProducts(__m256i sum, __m256i a, __m256i b) {
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(a, b));
    // Or GCC 12 computes all products first, and has no registers left for the sums.
    asm("" : "+x"(sum));
    return sum;
  }
  // As integers: a NaN is above all others.
  static __m256 MaxOrNan(__m256 a, __m256 b) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static float LargestOrNan(__m256 v) {
    const __m256 of_halves = MaxOrNan(v, _mm256_permute2f128_ps(v, v, 1));
    const __m256 of_quarters = MaxOrNan(of_halves, _mm256_permute_ps(of_halves, 0x4e));
    return _mm256_cvtss_f32(MaxOrNan(of_quarters, _mm256_permute_ps(of_quarters, 0xb1)));
  }
  static __m256 ToFloats(__m256i v) { return _mm256_cvtepi32_ps(v); }
  static void StoreShorts(int16_t* to, __m256 a, __m256 b) {
    // 4 of a, 4 of b, then the others.
    const __m256i halves = _mm256_packs_epi32(_mm256_cvtps_epi32(a), _mm256_cvtps_epi32(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permute4x64_epi64(halves, 0xd8));
  }

  // Where the processor's prefetchers do not run ahead, the next block: it comes while this one is
  // multiplied, the first time as it comes and then out of a cache.
  static int64_t AheadBytes(int64_t block_bytes) {
    return x86::kAsksAheadIntoL2 ? block_bytes : attention_tile::kLeadBytes;
  }
  // GCC 12 leaves _mm_prefetch out of loops over integers.
  static void Prefetch(const std::byte* at) {
    if (x86::kAsksAheadIntoL2) {
      asm volatile("prefetcht1 %0" ::"m"(*at));
    } else {
      asm volatile("prefetcht0 %0" ::"m"(*at));
    }
  }
  static constexpr bool kAsksForShorts = false;
  static bool AsksInTurn() { return x86::kAsksInTurn; }
  static int64_t PairsAheadBytes(int64_t block_bytes) { return AheadBytes(block_bytes); }
  static void PrefetchPairs(const std::byte* at) { Prefetch(at); }
};

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  StoreKvRow<AttentionVectors, Blocks>(x, n, type, out);
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx2
