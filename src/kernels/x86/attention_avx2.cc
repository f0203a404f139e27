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

  static __m256 LoadBytes(const std::byte* from) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
  }
  static __m256 BroadcastBF16(const std::byte* from) {
    int16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_set1_epi16(bits), 16));
  }
  // Where the processor's prefetchers do not run ahead, the next block: it comes while this one is
  // multiplied, the first time as it comes and then out of a cache.
  static int64_t AheadBytes(int64_t block_bytes) {
    return x86::kAsksAheadIntoL2 ? block_bytes : attention_tile::kLeadBytes;
  }
  static void Prefetch(const std::byte* at) {
    const char* line = reinterpret_cast<const char*>(at);
    if (x86::kAsksAheadIntoL2) {
      _mm_prefetch(line, _MM_HINT_T1);
    } else {
      _mm_prefetch(line, _MM_HINT_T0);
    }
  }
};

}  // namespace

void StoreKv(const float* x, int64_t n, KvType type, std::byte* out) {
  StoreKvRow<Vectors, Blocks>(x, n, type, out);
}

void AttendSpan(const AttentionArguments& arguments, int64_t span, float* states,
                std::byte* scratch) {
  attention_tile::AttendSpan<AttentionVectors>(arguments, span, states, scratch);
}

}  // namespace thaw::avx2
