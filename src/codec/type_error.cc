#include "codec/type_error.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "base/check.h"
#include "tensor/blocks.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// As a half; what is beyond them counts as the largest.
float AsHalf(float value) { return F16ToF32(F32ToF16(std::clamp(value, -65504.0F, 65504.0F))); }

// Less than the least scale that halves can hold, and far enough from 0 to divide by.
constexpr float kNothing = 1e-15F;

// To the nearest integer, ties to even; |value| must be below 2^22. Adding this number leaves no
// bits behind the point.
float Round(float value) {
  constexpr float kNoFraction = 0x1.8p23F;
  return (value + kNoFraction) - kNoFraction;
}

// The integers from kLeast to kMost.
template <int kLeast, int kMost>
struct Integers {
  static constexpr float kLowest = kLeast;
  static float Nearest(float value) {
    return Round(std::clamp(value, static_cast<float>(kLeast), static_cast<float>(kMost)));
  }
};

struct IQ4Levels {
  static constexpr float kLowest = kIQ4Values[0];
  static float Nearest(float value) {
    const auto above = std::ranges::lower_bound(kIQ4Values, value);
    if (above == kIQ4Values.begin()) return kIQ4Values.front();
    if (above == kIQ4Values.end()) return kIQ4Values.back();
    const float low = *(above - 1);
    return value - low < *above - value ? low : *above;
  }
};

// The number of largest magnitude, with its sign.
float SignedLargest(std::span<const float> x) {
  float largest = 0;
  for (const float v : x) {
    if (std::abs(v) > std::abs(largest)) largest = v;
  }
  return largest;
}

float Reciprocal(float scale) { return std::abs(scale) > kNothing ? 1 / scale : 0; }

// y = d * q of the nearest q, but rounded as if d had not been rounded to `half`.
template <typename Levels>
void RoundWith(std::span<const float> x, float d, float half, float* y) {
  const float reciprocal = Reciprocal(d);
  for (size_t i = 0; i < x.size(); ++i) y[i] = half * Levels::Nearest(x[i] * reciprocal);
}

// Q4_0, Q5_0: the largest weight takes the lowest integer, the one without a partner.
template <typename Levels>
void RoundSymmetric(std::span<const float> x, float* y) {
  const float d = SignedLargest(x) / Levels::kLowest;
  RoundWith<Levels>(x, d, AsHalf(d), y);
}

void RoundQ8_0(std::span<const float> x, float* y) {
  const float d = std::abs(SignedLargest(x)) / 127;
  RoundWith<Integers<-127, 127>>(x, d, AsHalf(d), y);
}

// Q4_1, Q5_1: integers from 0 for the least weight to kMost for the greatest.
template <int kMost>
void RoundFromLeast(std::span<const float> x, float* y) {
  const auto [least, greatest] = std::ranges::minmax(x);
  const float d = (greatest - least) / kMost;
  const float reciprocal = Reciprocal(d);
  for (size_t i = 0; i < x.size(); ++i) {
    y[i] = AsHalf(d) * Integers<0, kMost>::Nearest((x[i] - least) * reciprocal) + AsHalf(least);
  }
}

// Sums over a group of x^2 x q and x^2 q^2, from which follow the scale d of the least sum of
// x^2 (x - d q)^2 and by how much it is less than that of d = 0.
struct ScaleSums {
  double product = 0;
  double square = 0;

  void Add(float x, double q, double times = 1) {
    const double weight = times * x * x;
    product += weight * x * q;
    square += weight * q * q;
  }
  double scale() const { return square > 0 ? product / square : 0; }
  double gain() const { return scale() * product; }
};

// Which scales of a group are tried: those by which the largest weight becomes the lowest level
// plus an offset, count of them on either side of 0; and the one by which it becomes minus the
// lowest.
struct Offsets {
  float most;
  int count;
  bool has_reversed;
};

// The best of these scales of a group, each fitted to the levels that it rounds to.
template <typename Levels>
float FitScale(std::span<const float> x, Offsets offsets) {
  const float largest = SignedLargest(x);
  if (std::abs(largest) < kNothing) return 0;
  ScaleSums best;
  const auto consider = [&](float reciprocal) {
    ScaleSums sums;
    for (const float v : x) sums.Add(v, Levels::Nearest(v * reciprocal));
    if (sums.gain() > best.gain()) best = sums;
  };
  if (offsets.has_reversed) consider(-Levels::kLowest / largest);
  for (int i = -offsets.count; i <= offsets.count; ++i) {
    const float offset = offsets.most * static_cast<float>(i) / static_cast<float>(offsets.count);
    consider((Levels::kLowest + offset) / largest);
  }
  return static_cast<float>(best.scale());
}

// The same from the scale by which the largest weight becomes the lowest level: each weight in turn
// takes the level nearest to it by the scale that fits all others, where that fits better.
template <typename Levels>
float FitScaleByTurns(std::span<const float> x) {
  constexpr int kTurns = 5;
  const float largest = SignedLargest(x);
  if (std::abs(largest) < kNothing) return 0;
  std::array<float, 16> q;
  ScaleSums sums;
  for (size_t i = 0; i < x.size(); ++i) {
    q[i] = Levels::Nearest(x[i] * (Levels::kLowest / largest));
    sums.Add(x[i], q[i]);
  }
  bool has_changed = true;
  for (int turn = 0; turn < kTurns && has_changed; ++turn) {
    has_changed = false;
    for (size_t i = 0; i < x.size(); ++i) {
      ScaleSums moved = sums;
      moved.Add(x[i], q[i], -1);
      if (moved.product <= 0) continue;
      const float nearest =
          Levels::Nearest(static_cast<float>(x[i] * moved.square / moved.product));
      moved.Add(x[i], nearest);
      if (nearest == q[i] || moved.gain() <= sums.gain()) continue;
      q[i] = nearest;
      sums = moved;
      has_changed = true;
    }
  }
  return static_cast<float>(sums.scale());
}

constexpr Offsets kIQ4Offsets = {.most = 7, .count = 7, .has_reversed = true};

void RoundIQ4_NL(std::span<const float> x, float* y) {
  const float d = FitScale<IQ4Levels>(x, kIQ4Offsets);
  RoundWith<IQ4Levels>(x, d, AsHalf(d), y);
}

constexpr size_t kBlock = 256;

// Q3_K, Q6_K, IQ4_XS: groups have a scale each, which `fit` finds, stored as an integer of
// `ScaleIntegers` times that of the block; that of the largest group is the lowest one.
template <typename Levels, typename ScaleIntegers, size_t kGroup, typename Fit>
void RoundScaledGroups(const Fit& fit, std::span<const float> x, float* y) {
  constexpr size_t kGroups = kBlock / kGroup;
  std::array<float, kGroups> scales;
  for (size_t g = 0; g < kGroups; ++g) scales[g] = fit(x.subspan(g * kGroup, kGroup));
  const float d = SignedLargest(scales) / ScaleIntegers::kLowest;
  const float reciprocal = Reciprocal(d);
  for (size_t g = 0; g < kGroups; ++g) {
    const float scale = AsHalf(d) * ScaleIntegers::Nearest(scales[g] * reciprocal);
    RoundWith<Levels>(x.subspan(g * kGroup, kGroup), scale, scale, y + g * kGroup);
  }
}

void RoundQ3_K(std::span<const float> x, float* y) {
  using Levels = Integers<-4, 3>;
  RoundScaledGroups<Levels, Integers<-32, 31>, 16>(FitScaleByTurns<Levels>, x, y);
}

void RoundQ6_K(std::span<const float> x, float* y) {
  using Levels = Integers<-32, 31>;
  static constexpr Offsets kOffsets = {.most = 0.9F, .count = 9, .has_reversed = false};
  const auto fit = [](std::span<const float> group) { return FitScale<Levels>(group, kOffsets); };
  RoundScaledGroups<Levels, Integers<-128, 127>, 16>(fit, x, y);
}

void RoundIQ4_XS(std::span<const float> x, float* y) {
  const auto fit = [](std::span<const float> group) {
    return FitScale<IQ4Levels>(group, kIQ4Offsets);
  };
  RoundScaledGroups<IQ4Levels, Integers<-32, 31>, 32>(fit, x, y);
}

// v = scale * q - minimum
struct Affine {
  float scale = 0;
  float minimum = 0;  // not negative
};

// How the scale and minimum of a group are looked for: with integers 0 to `most`, where the range
// from the least weight (later from what fits best so far) to the greatest makes most + first,
// most + first + 0.1, ... of them.
struct AffineSearch {
  int most;
  float first;
  int count;
  bool has_absolute_errors;  // minimises weighted |error|, otherwise error^2
};

struct WeightedErrors {
  std::span<const float> x;
  std::span<const float> weights;
  const AffineSearch& search;

  double Of(std::span<const float> q, double scale, double least) const {
    double sum = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double error = scale * q[i] + least - x[i];
      sum += weights[i] * (search.has_absolute_errors ? std::abs(error) : error * error);
    }
    return sum;
  }

  // The line that fits best to these integers; false where they are all the same.
  bool Fit(std::span<const float> q, double& scale, double& least) const {
    double w = 0;
    double wx = 0;
    double wq = 0;
    double wqq = 0;
    double wqx = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double weight = weights[i];
      w += weight;
      wx += weight * x[i];
      wq += weight * q[i];
      wqq += weight * q[i] * q[i];
      wqx += weight * q[i] * x[i];
    }
    const double determinant = w * wqq - wq * wq;
    if (determinant <= 0) return false;
    scale = (w * wqx - wx * wq) / determinant;
    least = (wqq * wx - wq * wqx) / determinant;
    if (least > 0) {
      least = 0;
      scale = wqx / wqq;
    }
    return true;
  }
};

Affine FitAffine(std::span<const float> x, std::span<const float> weights,
                 const AffineSearch& search) {
  const auto bounds = std::ranges::minmax(x);
  Affine best{.scale = 0, .minimum = std::max(-bounds.min, 0.0F)};
  const WeightedErrors errors{.x = x, .weights = weights, .search = search};
  std::array<float, 32> integers;
  const std::span<float> q(integers.data(), x.size());
  const auto most = static_cast<float>(search.most);
  const auto round = [&](float levels) {
    const float reciprocal = levels / (bounds.max + best.minimum);
    for (size_t i = 0; i < x.size(); ++i) {
      q[i] = Round(std::clamp((x[i] + best.minimum) * reciprocal, 0.0F, most));
    }
  };
  if (bounds.max + best.minimum <= kNothing) return best;
  round(most);
  best.scale = (bounds.max + best.minimum) / most;
  double least_error = errors.Of(q, best.scale, -best.minimum);
  for (int i = 0; i < search.count && bounds.max + best.minimum > kNothing; ++i) {
    round(most + search.first + 0.1F * static_cast<float>(i));
    double scale = 0;
    double least = 0;
    if (!errors.Fit(q, scale, least)) continue;
    const double error = errors.Of(q, scale, least);
    if (error >= least_error) continue;
    least_error = error;
    best = {.scale = static_cast<float>(scale), .minimum = static_cast<float>(-least)};
  }
  return best;
}

// What the error of a weight counts in its group: its magnitude, and in groups of 32 the root mean
// square of all too.
template <size_t kGroup>
std::array<float, kGroup> AffineWeights(std::span<const float> x) {
  double square = 0;
  for (const float v : x) square += static_cast<double>(v) * v;
  const float base = kGroup == 32 ? static_cast<float>(std::sqrt(square / kGroup)) : 0;
  std::array<float, kGroup> weights;
  for (size_t i = 0; i < kGroup; ++i) weights[i] = base + std::abs(x[i]);
  return weights;
}

// Q2_K, Q4_K, Q5_K: groups have a scale and a minimum, integers from 0 to kMostScale times those of
// the block.
template <int kMost, int kMostScale, size_t kGroup>
void RoundAffineGroups(const AffineSearch& search, std::span<const float> x, float* y) {
  constexpr size_t kGroups = kBlock / kGroup;
  std::array<Affine, kGroups> groups;
  float scale = 0;
  float minimum = 0;
  for (size_t g = 0; g < kGroups; ++g) {
    const auto of_group = x.subspan(g * kGroup, kGroup);
    groups[g] = FitAffine(of_group, AffineWeights<kGroup>(of_group), search);
    scale = std::max(scale, groups[g].scale);
    minimum = std::max(minimum, groups[g].minimum);
  }
  using Scales = Integers<0, kMostScale>;
  const auto as_stored = [](float value, float largest) {
    return AsHalf(largest / kMostScale) *
           Scales::Nearest(value * (kMostScale * Reciprocal(largest)));
  };
  for (size_t g = 0; g < kGroups; ++g) {
    const float d = as_stored(groups[g].scale, scale);
    const float m = as_stored(groups[g].minimum, minimum);
    const float reciprocal = Reciprocal(d);
    for (size_t i = g * kGroup; i < (g + 1) * kGroup; ++i) {
      y[i] = d * Integers<0, kMost>::Nearest((x[i] + m) * reciprocal) - m;
    }
  }
}

void RoundQ2_K(std::span<const float> x, float* y) {
  RoundAffineGroups<3, 15, 16>(
      {.most = 3, .first = -0.5F, .count = 16, .has_absolute_errors = true}, x, y);
}

void RoundQ4_K(std::span<const float> x, float* y) {
  RoundAffineGroups<15, 63, 32>(
      {.most = 15, .first = -1, .count = 21, .has_absolute_errors = false}, x, y);
}

void RoundQ5_K(std::span<const float> x, float* y) {
  RoundAffineGroups<31, 63, 32>(
      {.most = 31, .first = -0.5F, .count = 16, .has_absolute_errors = false}, x, y);
}

// How a block of a type is quantized and decoded again.
struct Rounding {
  ElementType type;
  ElementType for_other_columns;
  void (*round)(std::span<const float> x, float* y);
};

using enum ElementType;
constexpr Rounding kRoundings[] = {
    {kQ4_0, kQ4_0, RoundSymmetric<Integers<-8, 7>>},
    {kQ4_1, kQ4_1, RoundFromLeast<15>},
    {kQ5_0, kQ5_0, RoundSymmetric<Integers<-16, 15>>},
    {kQ5_1, kQ5_1, RoundFromLeast<31>},
    {kQ8_0, kQ8_0, RoundQ8_0},
    {kQ2_K, kQ4_0, RoundQ2_K},
    {kQ3_K, kQ4_0, RoundQ3_K},
    {kQ4_K, kQ5_0, RoundQ4_K},
    {kQ5_K, kQ5_1, RoundQ5_K},
    {kQ6_K, kQ8_0, RoundQ6_K},
    {kIQ4_NL, kIQ4_NL, RoundIQ4_NL},
    {kIQ4_XS, kIQ4_NL, RoundIQ4_XS},
};

const Rounding* FindRounding(ElementType type) {
  const auto* const found = std::ranges::find(kRoundings, type, &Rounding::type);
  return found == std::end(kRoundings) ? nullptr : found;
}

}  // namespace

std::span<const ElementType> TypesWithError() {
  static constexpr auto kTypes = [] {
    std::array<ElementType, std::size(kRoundings)> types = {};
    std::ranges::transform(kRoundings, types.begin(), &Rounding::type);
    return types;
  }();
  return kTypes;
}

ElementType TypeForColumns(ElementType type, int64_t cols) {
  const Rounding* rounding = FindRounding(type);
  if (rounding == nullptr || cols % Info(type).block_elements == 0) return type;
  return rounding->for_other_columns;
}

Result<double> TypeRelativeRmse(ElementType type, int64_t cols, std::span<const float> rows,
                                std::span<const float> column_weights) {
  THAW_CHECK(cols > 0 && cols % 32 == 0 && std::ssize(rows) % cols == 0);
  THAW_CHECK(column_weights.empty() || std::ssize(column_weights) == cols);
  const Rounding* rounding = FindRounding(TypeForColumns(type, cols));
  if (rounding == nullptr) {
    std::string names;
    for (const Rounding& known : kRoundings) {
      names += fmt::format("{}{}", names.empty() ? "" : ", ", Info(known.type).name);
    }
    return Fail(ErrorCode::kUnsupported, "the error of type {} is not known, only of {}",
                Info(type).name, names);
  }
  const auto block = static_cast<size_t>(Info(rounding->type).block_elements);
  // What is beyond halves is cut off anyway; so far away sums of weights stay finite.
  static constexpr float kLargest = 1e30F;
  std::vector<float> cut(block);
  std::vector<float> decoded(block);
  double error = 0;
  double energy = 0;
  for (size_t begin = 0; begin < rows.size(); begin += block) {
    const auto x = rows.subspan(begin, block);
    std::ranges::transform(x, cut.begin(),
                           [](float v) { return std::clamp(v, -kLargest, kLargest); });
    rounding->round(cut, decoded.data());
    const size_t col = begin % static_cast<size_t>(cols);
    for (size_t i = 0; i < block; ++i) {
      const double weight = column_weights.empty() ? 1 : column_weights[col + i];
      const double difference = static_cast<double>(x[i]) - decoded[i];
      error += weight * difference * difference;
      energy += weight * x[i] * x[i];
    }
  }
  return energy > 0 ? std::sqrt(error / energy) : 0;
}

}  // namespace thaw
