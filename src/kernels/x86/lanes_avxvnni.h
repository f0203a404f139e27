// Eight rows at a time in AVX2 with the dot products of AVX-VNNI: the vectors of lanes_avx2.h,
// whose bits they give. For *_avxvnni.cc files, and for tests that put another instruction in its
// place.
#pragma once

#include "kernels/x86/lanes_avx2.h"
#include "kernels/x86/vnni_lanes.h"

namespace thaw {
namespace {

// Instruction::AddFour as vnni_lanes.h has it.
template <typename Instruction>
struct Vectors8Vnni : Lanes8 {
  static constexpr bool kScalesHalves = false;
  // Ten sums of integers, two vectors of weights, one of activations and what is in flight fill the
  // 16 registers; the sums of floats lie in memory.
  static constexpr int kTileTokens = 5;
  static constexpr int kWholeTileTokens = 5;

  THAW_INLINE Ints AddFour(Ints sum, Ints w, Ints a) { return Instruction::AddFour(sum, w, a); }
  THAW_INLINE Ints AddFourOf(Ints sum, Ints w, const int8_t* a) {
    return AddFour(sum, w, BroadcastFour(a));
  }
  THAW_INLINE Ints AddTwoProducts(Ints sum, const Ints (&w)[2], const Ints (&a)[2]) {
    return AddFour(AddFour(sum, w[0], a[0]), w[1], a[1]);
  }
};

template <typename Instruction>
using Lanes8Vnni = VnniLanes<Vectors8Vnni<Instruction>>;

}  // namespace
}  // namespace thaw
