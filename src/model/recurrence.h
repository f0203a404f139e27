// The shape of layers with a recurrent state, and what such layers do.
//
// A layer of this kind sends what it reads through a short convolution over the latest tokens, and
// most kinds then keep a state for each head: a matrix of keys x values (kernels/recurrence.h).
// Time mixing has a token shift instead: it mixes what it reads with what it read of the token
// before.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thaw {

enum class Recurrence {
  kNone,
  kShortConvolution,  // b x convolved, times c: no state beside the convolution's
  kMamba,             // one head; a factor of fading for each number of its state
  kMamba2,            // a factor for each head
  kDelta,             // gated delta rule, with a factor for each head
  kChannelDelta,      // the same with a factor for each key, and gates of low rank
  kTimeMix,           // delta rule with a factor of fading for each key, made of low rank (RWKV-7)
};

// What products of time mixing read: mixtures of a token and the one before, in the order in which
// files hold the shares of the latter.
enum class ShiftedInput { kQuery, kDecay, kKey, kValue, kRate, kGate };
inline constexpr int64_t kShiftedInputs = 6;

// Ranks of what time mixing makes by two products one after the other.
struct TimeMixRanks {
  int64_t decay = 0;  // of the factors of fading
  int64_t rate = 0;   // of the learning rates
  int64_t value = 0;  // of the share of the first layer's values
  int64_t gate = 0;

  int64_t most() const { return std::max({decay, rate, value, gate}); }
  int64_t sum() const { return decay + rate + value + gate; }
};

struct RecurrenceConfig {
  int64_t taps = 0;          // tokens that the convolution or a shift sees, its own the last
  int64_t inner = 0;         // width of what heads give, all together
  int64_t heads = 0;         // of values; a multiple of groups. 0: no state
  int64_t groups = 0;        // heads of keys and queries
  int64_t keys = 0;          // of a head
  int64_t rank = 0;          // of the projection to time steps of channels, and to gates
  int64_t convolved = 0;     // channels of the convolution, or of the shifts of a layer
  bool norms_steps = false;  // Mamba: time steps, keys and queries are normed without weights
  // Delta rule: the rows of queries, keys, values and gates of a key head stand together.
  bool is_interleaved = false;
  TimeMixRanks ranks = {};

  int64_t values() const { return heads == 0 ? 0 : inner / heads; }
  int64_t state_floats() const { return heads * keys * values(); }
  // Inputs of the convolution or the shifts that a sequence remembers.
  int64_t window_floats() const { return taps == 0 ? 0 : (taps - 1) * convolved; }
};

}  // namespace thaw
