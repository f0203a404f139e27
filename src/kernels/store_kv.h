// KernelTable::store_kv for the vectors V (kernels/attention_tile.h) and the Blocks
// (kernels/quantize_tokens.h) of an instruction set, with the bits of portable/attention.cc.
//
// In an anonymous namespace, for the reason given in packed_formats.h.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/attention.h"
#include "kernels/bf16.h"
#include "kernels/vector_math.h"

namespace thaw {
namespace {

constexpr uint16_t kBF16NaN = 0x7fc0;

template <typename Blocks>
void StoreKvBlock(const float* x, std::byte* out) {
  // As in portable/attention.cc, where it is derived.
  constexpr float kSmallestAmax = 0x1p-119f;
  const typename Blocks::Step steps[1] = {Blocks::Load(x)};
  const float amax = Blocks::LargestMagnitude(steps);
  uint16_t scale = 0;
  int8_t quants[kKvBlock] = {};
  if (amax - amax != 0) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = RoundToBF16(amax / 127.0f);
    int32_t sums[2];
    Blocks::Quantize(steps, 1.0f / std::bit_cast<float>(uint32_t{scale} << 16), quants, sums);
  }
  std::memcpy(out, &scale, sizeof(scale));
  std::memcpy(out + sizeof(scale), quants, sizeof(quants));
}

template <typename V>
void StoreKvShorts(const float* x, int64_t n, std::byte* out) {
  constexpr float kSmallestAmax = 0x1p-111f;
  typename V::Type most = V::Zero();
  for (int64_t i = 0; i < n; i += V::kLanes) most = V::MaxOrNan(most, V::Abs(V::Load(x + i)));
  const float amax = V::LargestOrNan(most);
  uint16_t scale = 0;
  float inverse = 0;
  if (amax - amax != 0) {
    scale = kBF16NaN;
  } else if (amax >= kSmallestAmax) {
    scale = static_cast<uint16_t>((std::bit_cast<uint32_t>(amax / 32767.0f) + 0xffff) >> 16);
    inverse = 1.0f / std::bit_cast<float>(uint32_t{scale} << 16);
  }
  std::memcpy(out, &scale, sizeof(scale));
  for (int64_t i = 0; i < n; i += 2 * V::kLanes) {
    int16_t numbers[2 * V::kLanes] = {};
    if (inverse != 0) {
      V::StoreShorts(numbers, V::Mul(V::Set(inverse), V::Load(x + i)),
                     V::Mul(V::Set(inverse), V::Load(x + i + V::kLanes)));
    }
    std::memcpy(out + sizeof(scale) + 2 * i, numbers, sizeof(numbers));
  }
}

template <typename V>
void StoreKvF16(const float* x, int64_t n, std::byte* out) {
  int64_t i = 0;
  for (; i + V::kLanes <= n; i += V::kLanes) V::StoreF16(out + 2 * i, V::Load(x + i));
  if (i == n) return;
  std::byte buffer[2 * V::kLanes];
  V::StoreF16(buffer, V::LoadFirst(x + i, n - i));
  std::memcpy(out + 2 * i, buffer, static_cast<size_t>(n - i) * 2);
}

inline void StoreKvBF16(const float* x, int64_t n, std::byte* out) {
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t bits = RoundToBF16(x[i]);
    std::memcpy(out + 2 * i, &bits, sizeof(bits));
  }
}

template <typename V, typename Blocks>
void StoreKvRow(const float* x, int64_t n, KvType type, std::byte* out) {
  switch (type) {
    case KvType::kF32:
      std::memcpy(out, x, static_cast<size_t>(n) * 4);
      break;
    case KvType::kF16:
      StoreKvF16<V>(x, n, out);
      break;
    case KvType::kBF16:
      StoreKvBF16(x, n, out);
      break;
    case KvType::kQ8_0:
      for (int64_t i = 0; i < n; i += kKvBlock, out += kKvBlockBytes) {
        StoreKvBlock<Blocks>(x + i, out);
      }
      break;
    case KvType::kI16:
      StoreKvShorts<V>(x, n, out);
      break;
  }
}

}  // namespace
}  // namespace thaw
