#include "model/recurrent_state.h"

#include <algorithm>
#include <utility>

namespace thaw {
namespace {

// Every layer's state begins on a cache line.
int64_t FloatsOfLayer(const ModelConfig& config, const LayerConfig& layer) {
  if (!layer.recurs) return 0;
  const RecurrenceConfig& of = config.recurrence;
  return (of.window_floats() + of.state_floats() + 15) / 16 * 16;
}

}  // namespace

uint64_t RecurrentState::BytesOfOne(const ModelConfig& config) {
  int64_t floats = 0;
  for (const LayerConfig& layer : config.layers) floats += FloatsOfLayer(config, layer);
  return static_cast<uint64_t>(floats) * sizeof(float);
}

uint64_t RecurrentState::Bytes(const ModelConfig& config) { return kStates * BytesOfOne(config); }

Result<RecurrentState> RecurrentState::Create(const ModelConfig& config) {
  RecurrentState state;
  for (const LayerConfig& layer : config.layers) {
    state.offsets_.push_back(state.floats_);
    state.floats_ += FloatsOfLayer(config, layer);
  }
  if (state.floats_ == 0) return state;
  THAW_ASSIGN(state.memory_, AlignedBuffer::Allocate(Bytes(config), "the states of a sequence"));
  std::fill_n(state.Of(state.current_, 0), state.floats_, 0.0F);  // that of no positions
  return state;
}

float* RecurrentState::Of(int state, int64_t layer) {
  return reinterpret_cast<float*>(memory_.data()) + state * floats_ +
         offsets_[static_cast<size_t>(layer)];
}

const float* RecurrentState::Before(int64_t layer) const {
  return const_cast<RecurrentState*>(this)->Of(current_, layer);
}

float* RecurrentState::After(int64_t layer) { return Of(next_, layer); }

void RecurrentState::Extend(int64_t begin, int64_t end) {
  if (floats_ == 0 || begin == end) return;
  std::swap(current_, next_);
  if (end - begin == 1) return;
  // What was before is kept, and the one kept so far is written next.
  std::swap(next_, kept_);
  kept_at_ = begin;
}

int64_t RecurrentState::GoBack(int64_t from, int64_t length) {
  if (floats_ == 0 || length == from) return length;
  if (kept_at_ > 0 && kept_at_ <= length) {
    std::swap(current_, kept_);
    return std::exchange(kept_at_, 0);
  }
  kept_at_ = 0;
  std::fill_n(Of(current_, 0), floats_, 0.0F);
  return 0;
}

}  // namespace thaw
