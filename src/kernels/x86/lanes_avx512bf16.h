// Sixteen rows at a time in AVX-512 with products of bfloat16: the vectors that
// kernels/rounded_products.h is written in. For *_avx512bf16.cc files alone; `static`, for the
// reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

struct Bf16Vectors16 : Vectors16 {
  THAW_INLINE Floats AddPair(Floats sum, Ints w, const uint16_t* pair) {
    int32_t both;
    std::memcpy(&both, pair, sizeof(both));
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(w),
                            reinterpret_cast<__m512bh>(Broadcast(both)));
  }
};

}  // namespace
}  // namespace thaw
