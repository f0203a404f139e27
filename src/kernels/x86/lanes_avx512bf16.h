// Sixteen rows at a time in AVX-512 with products of bfloat16: the vectors that
// kernels/rounded_products.h is written in. For *_avx512bf16.cc files alone; `static`, for the
// reason given in vector_avx2.h.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

struct Bf16Vectors16 : Vectors16 {
  THAW_INLINE Floats AddPair(Floats sum, Ints w, const uint16_t* pair) {
    int32_t both;
    std::memcpy(&both, pair, sizeof(both));
    // Not by its intrinsic, whose vectors have a type that Clang 16 crashes on.
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(w), "v"(Broadcast(both)));
    return sum;
  }
};

}  // namespace
}  // namespace thaw
