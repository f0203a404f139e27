// One step of a recurrent state: what a layer with a memory of fixed size does with one token.
//
// The state S is a matrix of float32, [keys, values]. A token fades it, adds to it and reads it:
//
//   r   = probe S                                     (where there is a probe)
//   S   = decay S + key (x) value + correction (x) r  (r only with a probe)
//   out = query S
//
// decay stands for one factor a key, or for one of each number of S. Linear attention and state
// spaces (Mamba) are this without a probe. The delta rule, which replaces what the state holds
// under a key, is this with probe = decay key, correction = -beta key and value = beta v.
//
// The caller owns everything. Sums run over keys in ascending order, whatever the range of values:
// ranges of columns may be computed apart from each other, with the same bits.
#pragma once

#include <cstdint>

namespace thaw {

struct StateStep {
  const float* before = nullptr;  // [keys] of rows, `stride` numbers apart
  float* after = nullptr;         // likewise; may be `before`
  int64_t keys = 0;
  int64_t values = 0;
  int64_t stride = 0;
  const float* decay = nullptr;       // [keys], or rows like those of S
  int64_t decay_stride = 0;           // 0: one factor a key
  const float* key = nullptr;         // [keys]
  const float* value = nullptr;       // [values]
  const float* query = nullptr;       // [keys]
  const float* probe = nullptr;       // [keys], or none
  const float* correction = nullptr;  // [keys] with a probe
  float* out = nullptr;               // [values]
};

}  // namespace thaw
