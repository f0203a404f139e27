// Random weights of any element type that can be multiplied, as finite numbers around zero.
//
// In a quantized block any bits are valid but those of its scales (tensor/blocks.h), so a block is
// random bytes whose scales are then set. The scales of a type are drawn from 256 equally likely
// values around the one that gives weights the stated deviation, half of them negative where the
// type has a sign for them:
//
//   one F16 `d`               from 0.5 to 1.5 times that value; smaller group scales stay random
//   F16 `d` and `m` or `dmin` d as above, the other a fixed multiple, which makes the mean zero
//   E8M0 and UE4M3 codes      the code nearest to 0.5 to 1.5 times that value, positive
//   the four nibbles of IQ1_M as one F16 `d`
//
// The same type, deviation, seed and sequence of Fill sizes give the same bytes on every machine.
// One thread at a time. Costs: making one decodes 64 blocks, Fill runs at GB/s.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/frozen_format.h"
#include "sampling/split_mix.h"
#include "tensor/element_type.h"

namespace thaw {

class RandomWeights {
 public:
  // CanMultiply(type) must hold (kernels/kernel_table.h). The weights will have a standard
  // deviation within 15 % of `deviation` where the type's scales are fine enough: UE4M3 goes in
  // steps of 2^-9 and never below one of them here.
  RandomWeights(ElementType type, double deviation, uint64_t seed);

  // Fills whole blocks, at any alignment.
  void Fill(std::span<std::byte> blocks);

 private:
  void FillFloats(std::span<std::byte> elements);

  ElementType type_;
  double deviation_;
  SplitMix64 random_;

  // What a scale field that holds the random byte i becomes; `minima_` for the second field.
  using ScaleCodes = std::array<uint16_t, 256>;
  ScaleCodes scales_ = {};
  ScaleCodes minima_ = {};
};

// A stream of a frozen tile (docs/format.md): weights of the kind, about normally distributed. Of
// ecq some 3.9 bits each.
std::vector<std::byte> RandomFrozenStream(FrozenKind kind, int64_t rows, int64_t cols,
                                          uint64_t seed);

}  // namespace thaw
