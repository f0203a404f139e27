// Weights as frozen tensors hold them, made up for tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "codec/frozen_format.h"
#include "codec/stream_encoder.h"
#include "tensor/half.h"

namespace thaw {

// Rows of the kind ecq.
struct EcqRows {
  int64_t rows = 0;
  int64_t cols = 0;
  std::vector<int8_t> q;
  std::vector<uint16_t> scales;
  std::vector<BlockShift> shifts;

  // As blocks of Q8_0, row after row.
  std::vector<std::byte> AsQ8_0() const {
    std::vector<std::byte> out;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t block = 0; block < cols / 32; ++block) {
        float scale = F16ToF32(scales[static_cast<size_t>(row)]);
        for (const BlockShift& s : shifts) {
          if (s.row == row && s.block == block) scale = std::ldexp(scale, s.shift);
        }
        const uint16_t d = F32ToF16(scale);
        out.push_back(static_cast<std::byte>(d));
        out.push_back(static_cast<std::byte>(d >> 8));
        for (int64_t i = 0; i < 32; ++i) {
          out.push_back(
              static_cast<std::byte>(q[static_cast<size_t>(row * cols + 32 * block + i)]));
        }
      }
    }
    return out;
  }

  // What AppendEcqStream writes.
  std::vector<std::byte> Stream() const {
    std::vector<std::byte> out;
    AppendEcqStream(rows, cols, q, scales, shifts, out);
    return out;
  }
};

// Integers that keep to the trellis, with m by a normal distribution of that deviation; one of
// `tails` in 1000 lies anywhere in the range of m.
inline EcqRows RandomEcqRows(int64_t rows, int64_t cols, double deviation, int tails = 0,
                             uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, deviation);
  EcqRows made{.rows = rows, .cols = cols, .q = {}, .scales = {}, .shifts = {}};
  std::vector<int8_t> numbers(static_cast<size_t>(rows * cols));
  for (int64_t row = 0; row < rows; ++row) {
    made.scales.push_back(static_cast<uint16_t>(0x1000 + random() % 0x1000));
    if (random() % 4 == 0) {
      made.shifts.push_back(
          {row, static_cast<int64_t>(random()) % (cols / 32), static_cast<int>(1 + random() % 3)});
    }
    for (int64_t col = 0; col < cols; ++col) {
      auto m = static_cast<int>(std::lround(normal(random)));
      if (static_cast<int>(random() % 1000) < tails) m = static_cast<int>(random() % 128) - 64;
      numbers[static_cast<size_t>(row * cols + col)] = static_cast<int8_t>(std::clamp(m, -64, 63));
    }
  }
  made.q = TrellisIntegers(rows, cols, numbers);
  return made;
}

// bfloat16 numbers by a normal distribution; one of `tails` in 1000 is any finite one.
inline std::vector<uint16_t> RandomBf16(int64_t count, int tails = 0, uint32_t seed = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.02F);
  std::vector<uint16_t> made;
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits = F32ToBF16(normal(random));
    if (static_cast<int>(random() % 1000) < tails) bits = static_cast<uint16_t>(random() & 0xff7f);
    made.push_back(bits);
  }
  return made;
}

}  // namespace thaw
