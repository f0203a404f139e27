// The shape of layers with a recurrent state, and what such layers do.
//
// A layer of this kind sends what it reads through a short convolution over the latest tokens, and
// most kinds then keep a state for each head: a matrix of keys x values (kernels/recurrence.h).
#pragma once

#include <cstdint>

namespace thaw {

enum class Recurrence {
  kNone,
  kShortConvolution,  // b x convolved, times c: no state beside the convolution's
  kMamba,             // one head; a factor of fading for each number of its state
  kMamba2,            // a factor for each head
  kDelta,             // gated delta rule
};

struct RecurrenceConfig {
  int64_t taps = 0;          // tokens that the convolution sees, its own the last
  int64_t inner = 0;         // width of what heads give, all together
  int64_t heads = 0;         // of values; a multiple of groups. 0: no state
  int64_t groups = 0;        // heads of keys and queries
  int64_t keys = 0;          // of a head
  int64_t rank = 0;          // of the projection to Mamba's time steps
  int64_t convolved = 0;     // channels of the convolution
  bool norms_steps = false;  // Mamba: time steps, keys and queries are normed without weights
  // Delta rule: the rows of queries, keys, values and gates of a key head stand together.
  bool is_interleaved = false;

  int64_t values() const { return heads == 0 ? 0 : inner / heads; }
  int64_t state_floats() const { return heads * keys * values(); }
  // Inputs of the convolution that a sequence remembers.
  int64_t window_floats() const { return taps == 0 ? 0 : (taps - 1) * convolved; }
};

}  // namespace thaw
