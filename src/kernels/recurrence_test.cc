// Steps of recurrent states of every kernel table, against double precision.
#include "kernels/recurrence.h"

#include <cmath>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

class RecurrenceKernels : public EachKernelTable {};

// Columns that fill vectors and their unrolled loops, or do not.
const int64_t kValues[] = {1, 3, 4, 7, 8, 16, 31, 32, 33, 64, 100, 128};

struct Numbers {
  std::vector<float> state, decay, key, value, query;
  std::vector<float> probe = {};
  std::vector<float> correction = {};
};

Numbers Draw(int64_t keys, int64_t values, bool fades_each, bool has_probe) {
  std::mt19937 random(static_cast<uint32_t>(keys * 1000 + values));
  Numbers n = {.state = RandomFloats(keys * values, random),
               .decay = RandomFloats(fades_each ? keys * values : keys, random),
               .key = RandomFloats(keys, random),
               .value = RandomFloats(values, random),
               .query = RandomFloats(keys, random)};
  if (has_probe) {
    n.probe = RandomFloats(keys, random);
    n.correction = RandomFloats(keys, random);
  }
  return n;
}

StateStep Step(const Numbers& n, int64_t keys, int64_t values, bool fades_each, float* after,
               float* out) {
  return {.before = n.state.data(),
          .after = after,
          .keys = keys,
          .values = values,
          .stride = values,
          .decay = n.decay.data(),
          .decay_stride = fades_each ? values : 0,
          .key = n.key.data(),
          .value = n.value.data(),
          .query = n.query.data(),
          .probe = n.probe.empty() ? nullptr : n.probe.data(),
          .correction = n.correction.empty() ? nullptr : n.correction.data(),
          .out = out};
}

TEST_P(RecurrenceKernels, FadeAddAndRead) {
  for (const int64_t keys : {1, 5, 64}) {
    for (const int64_t values : kValues) {
      for (const bool fades_each : {false, true}) {
        for (const bool has_probe : {false, true}) {
          const Numbers n = Draw(keys, values, fades_each, has_probe);
          std::vector<float> after(n.state.size());
          std::vector<float> out(n.value.size());
          table().step_state(Step(n, keys, values, fades_each, after.data(), out.data()));
          for (int64_t i = 0; i < values; ++i) {
            double probed = 0;
            double of_magnitudes = 0;  // what the rounding of `probed` is in proportion to
            double read = 0;
            for (int64_t k = 0; k < keys && has_probe; ++k) {
              const double product = double{n.probe[static_cast<size_t>(k)]} *
                                     n.state[static_cast<size_t>(k * values + i)];
              probed += product;
              of_magnitudes += std::abs(product);
            }
            for (int64_t k = 0; k < keys; ++k) {
              const auto key = static_cast<size_t>(k);
              const auto at = static_cast<size_t>(k * values + i);
              double x = double{n.decay[fades_each ? at : key]} * n.state[at] +
                         double{n.key[key]} * n.value[static_cast<size_t>(i)];
              if (has_probe) x += n.correction[key] * probed;
              double bound = 1e-6 * (1 + std::abs(x));
              if (has_probe) bound += 0x1p-23 * std::abs(n.correction[key]) * of_magnitudes;
              ASSERT_NEAR(after[at], x, bound) << keys << " " << values << " " << k << " " << i;
              read += n.query[key] * x;
            }
            ASSERT_NEAR(out[static_cast<size_t>(i)], read, 1e-6 * (50 + std::abs(read)))
                << keys << " " << values;
          }
        }
      }
    }
  }
}

TEST_P(RecurrenceKernels, InPlaceOrInRangesOfColumnsTheyGiveTheSameBits) {
  constexpr int64_t kKeys = 6;
  constexpr int64_t kWidth = 75;
  for (const bool fades_each : {false, true}) {
    for (const bool has_probe : {false, true}) {
      Numbers n = Draw(kKeys, kWidth, fades_each, has_probe);
      std::vector<float> after(n.state.size());
      std::vector<float> out(n.value.size());
      const StateStep whole = Step(n, kKeys, kWidth, fades_each, after.data(), out.data());
      table().step_state(whole);
      std::vector<float> in_place = n.state;
      std::vector<float> out_of_ranges(out.size());
      for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 37), {37, kWidth}}) {
        StateStep range = whole;
        range.before = range.after = in_place.data() + begin;
        range.values = end - begin;
        if (fades_each) range.decay += begin;
        range.value += begin;
        range.out = out_of_ranges.data() + begin;
        table().step_state(range);
      }
      EXPECT_EQ(in_place, after);
      EXPECT_EQ(out_of_ranges, out);
    }
  }
}

INSTANTIATE_FOR_KERNEL_TABLES(RecurrenceKernels, TablesByFunctions(&KernelTable::step_state));

}  // namespace
}  // namespace thaw
