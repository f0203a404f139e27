// Attention over a KV cache in AVX-512. See avx512.h for what may be called here.
#include "kernels/attention_tile.h"
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

  static __m512 LoadBytes(const std::byte* from) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
  }
  static __m512 BroadcastBF16(const std::byte* from) {
    int16_t bits;
    __builtin_memcpy(&bits, from, sizeof(bits));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_set1_epi16(bits), 16));
  }
  static int64_t AheadBytes(int64_t /*block_bytes*/) { return attention_tile::kLeadBytes; }
  static void Prefetch(const std::byte* at) {
    _mm_prefetch(reinterpret_cast<const char*>(at), _MM_HINT_T0);
  }
};

}  // namespace

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx512
