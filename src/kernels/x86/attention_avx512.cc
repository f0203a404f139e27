// Attention over a KV cache in AVX-512. See avx512.h for what may be called here.
#include "kernels/attention_tile.h"
#include "kernels/x86/asks_ahead.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/vector_avx512.h"

namespace thaw::avx512 {
namespace {

struct AttentionVectors : Vectors {
  // 8 x 1 scores: one conversion for all rows of a group of 8, and enough chains to hide the
  // latency of an fma. 4 x 4 sums: whole rows of values in the order of memory; 8 x 2, which take
  // every other cache line first, came at three quarters of the rate.
  static constexpr int kKeyRows = 8;
  static constexpr int kValueRows = 4;
  static constexpr int kValueVectors = 4;
  // 6 x 4 sums, 4 vectors of the panel and a factor: 29 of 32 registers, 24 fma for 10 loads.
  static constexpr int kPanelRows = 6;
  static constexpr int kPanelVectors = 4;

  static constexpr int kPairRows = 6;
  static constexpr int kPairVectors = 4;

  using Ints = __m512i;
  static __m512i ZeroInts() { return _mm512_setzero_si512(); }
  static __m512i LoadPairs(const std::byte* from) { return _mm512_loadu_si512(from); }
  static __m512i WidenPairs(const std::byte* from) {
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static __m512i SetPair(const int16_t* from) {
    int32_t pair;
    __builtin_memcpy(&pair, from, sizeof(pair));
    return _mm512_set1_epi32(pair);
  }
  static __m512i AddProducts(__m512i sum, __m512i a, __m512i b) {
    sum = _mm512_dpwssd_epi32(sum, a, b);
    // Or GCC 12 copies sums, and keeps some in memory.
    asm("" : "+v"(sum));
    return sum;
  }
  // As integers: a NaN is above all others.
  static __m512 MaxOrNan(__m512 a, __m512 b) {
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static float LargestOrNan(__m512 v) {
    return __builtin_bit_cast(float, _mm512_reduce_max_epu32(_mm512_castps_si512(v)));
  }
  static __m512 ToFloats(__m512i v) { return _mm512_cvtepi32_ps(v); }
  static void StoreShorts(int16_t* to, __m512 a, __m512 b) {
    const __m256i first = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(a));
    const __m256i second = _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(b));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), first);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kLanes), second);
  }

  static int64_t AheadBytes(int64_t /*block_bytes*/) { return attention_tile::kLeadBytes; }
  static constexpr bool kAsksForShorts = true;
  static bool AsksInTurn() { return x86::kAsksInTurn; }
  static int64_t PairsAheadBytes(int64_t block_bytes) { return block_bytes; }
  static void PrefetchPairs(const std::byte* at) { asm volatile("prefetcht1 %0" ::"m"(*at)); }
  // GCC 12 leaves _mm_prefetch out of loops over integers.
  static void Prefetch(const std::byte* at) { asm volatile("prefetcht0 %0" ::"m"(*at)); }
};

}  // namespace

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx512
