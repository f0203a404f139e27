// What the recurrent layers of one sequence remember: for each, the latest inputs of its
// convolution or of its token shifts, and the states of its heads.
//
// Unlike keys and values, a state cannot go back: it holds the sum of all positions. So a pass
// writes a copy of its own, which counts when the pass is done, and the state before the last pass
// of several tokens is kept: a sequence can go back there. Three states are held in all, in one
// block of memory taken at creation. Owned by the sequence's KV cache; not thread safe, but
// different parts of a layer may be written at once.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "model/config.h"

namespace thaw {

class RecurrentState {
 public:
  RecurrentState() = default;  // of a model without recurrent layers

  // kResourceExhausted when the system has no memory for it.
  static Result<RecurrentState> Create(const ModelConfig& config);

  // Bytes that Create takes, and bytes of one state.
  static uint64_t Bytes(const ModelConfig& config);
  static uint64_t BytesOfOne(const ModelConfig& config);

  // The state of a layer, [window_floats], then [heads, keys, values]: after the positions held,
  // and where a pass writes the one after its own.
  const float* Before(int64_t layer) const;
  float* After(int64_t layer);

  // The pass from position `begin` to `end` has written the state of every layer.
  void Extend(int64_t begin, int64_t end);
  // Goes back from `from` to the latest state at or before `length`; returns its position.
  int64_t GoBack(int64_t from, int64_t length);

 private:
  static constexpr int kStates = 3;
  float* Of(int state, int64_t layer);

  std::vector<int64_t> offsets_;  // of each layer, in floats
  int64_t floats_ = 0;            // of one state
  int current_ = 0;
  int next_ = 1;
  int kept_ = 2;
  int64_t kept_at_ = 0;  // the position of the kept state; 0: none
  AlignedBuffer memory_;
};

}  // namespace thaw
