// Functions of vectors of floats of any width, and what a class of vector operations, V, has for
// them and for the kernels that are written once for all instruction sets:
//
//   Type, kLanes (4, 8 or 16)         a vector of floats, and how many it has
//   Zero, Set, Load, Store            at any alignment
//   LoadFirst(p, n)                   n < kLanes numbers, the other lanes 0; nothing behind is read
//   StoreFirst(p, v, n)               the first n < kLanes lanes; nothing behind is written
//   KeepFirst(n, v, other)            the first n lanes of v, all from kLanes on, others of `other`
//   Add, Sub, Mul, Div, Negate, Abs   of lanes
//   Round                             to whole numbers, half to even
//   Fma(a, b, c), Fms, Fnma           a b + c, a b - c and c - a b, in one rounding
//   Min(a, b), Max(a, b)              NaN where b is NaN
//   WherePositive(x, a, b)            a where x > 0, else b
//   Scale(x, n)                       x 2^n for whole numbers n, where that is a normal number
//   SumOfLanes, LargestLane           halves are added first, then quarters, and so on
//   SquareRoot                        of a float
//   LoadPairs(p, first, second)       p[2i] and p[2i + 1]; StorePairs the same
//   LoadF16, LoadBF16, StoreF16       numbers of 16 bits, at any alignment
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <cstddef>

namespace thaw {
namespace {

// coefficients[0] x^(n - 1) + ... + coefficients[n - 1], a chain of fma.
template <typename V, int n>
typename V::Type Polynomial(typename V::Type x, const float (&coefficients)[n]) {
  typename V::Type sum = V::Set(coefficients[0]);
#pragma GCC unroll 8
  for (int i = 1; i < n; ++i) sum = V::Fma(sum, x, V::Set(coefficients[i]));
  return sum;
}

// e^x with a relative error below 1e-7 for x in [-87, 88]; beyond, as if x were the nearest end;
// NaN for NaN. x = n ln 2 + r, |r| <= ln 2 / 2, e^x = 2^n e^r. Taylor's series to r^7 leaves
// (ln 2 / 2)^8 / 8! = 5e-9; the rest of the error is rounding. ln 2 is split so that n times its
// upper part (9 bits shorter than a float) is exact.
template <typename V>
typename V::Type Exp(typename V::Type x) {
  x = V::Min(V::Set(88.0f), V::Max(V::Set(-87.0f), x));
  const typename V::Type n = V::Round(V::Mul(x, V::Set(0x1.715476p+0f)));
  typename V::Type r = V::Fnma(n, V::Set(0x1.62e4p-1f), x);
  r = V::Fnma(n, V::Set(0x1.7f7d1cp-20f), r);
  return V::Scale(Polynomial<V>(r, {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6,
                                    1.0f / 2, 1.0f, 1.0f}),
                  n);
}

// 2^x for x <= 0 with a relative error below 1e-7; below -126, the smallest normal number, as if x
// were that; NaN for NaN. x = n + r, |r| <= 1/2, exactly; 2^r = e^(r ln 2) by Taylor's series to
// r^7 as above, 1 at 0.
template <typename V>
typename V::Type Exp2(typename V::Type x) {
  x = V::Max(V::Set(-126.0f), x);
  const typename V::Type n = V::Round(x);
  return V::Scale(Polynomial<V>(V::Sub(x, n),
                                {0x1.ffcbfcp-17f, 0x1.430912p-13f, 0x1.5d87fep-10f, 0x1.3b2ab6p-7f,
                                 0x1.c6b08ep-5f, 0x1.ebfbep-3f, 0x1.62e43p-1f, 1.0f}),
                  n);
}

// The first n lanes of what lies at p, or all from kLanes on.
template <typename V>
typename V::Type LoadUpTo(const float* p, int64_t n) {
  return n < V::kLanes ? V::LoadFirst(p, n) : V::Load(p);
}

}  // namespace
}  // namespace thaw
