// One visit of a tile that several threads work on: whoever comes first pins it, whoever is done
// last lets it go, so that a tile is visited once in a pass however its rows are split.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "residency/weight_cache.h"

namespace thaw {

// On a line of its own: most tiles are one thread's alone.
class alignas(64) SharedPin {
 public:
  // Before any thread comes; `parts` calls of Enter and Leave each will follow.
  void Start(int32_t tile, int32_t parts) {
    tile_ = tile;
    parts_left_.store(parts, std::memory_order_relaxed);
    phase_.store(Phase::kUntouched, std::memory_order_relaxed);
  }

  // The tile's rows; nothing, for everybody, when it could not be read. `on_error` gets the error,
  // from the one thread that tried.
  template <typename OnError>
  const std::byte* Enter(WeightCache& cache, OnError on_error) {
    Phase phase = phase_.load(std::memory_order_acquire);
    if (phase == Phase::kUntouched &&
        phase_.compare_exchange_strong(phase, Phase::kPinning, std::memory_order_acquire)) {
      auto pinned = cache.Pin(tile_);
      if (pinned) {
        handle_ = *std::move(pinned);
      } else {
        on_error(std::move(pinned).error());
      }
      phase = handle_.data().empty() ? Phase::kFailed : Phase::kPinned;
      // Sequentially consistent: notify_all looks whether anybody waits, and must not do so before
      // the phase can be seen. With a release a waiter slept on in one of some 20 million visits.
      phase_.store(phase, std::memory_order_seq_cst);
      phase_.notify_all();
    }
    while (phase == Phase::kPinning) {
      phase_.wait(Phase::kPinning, std::memory_order_acquire);
      phase = phase_.load(std::memory_order_acquire);
    }
    return phase == Phase::kPinned ? handle_.data().data() : nullptr;
  }

  void Leave() {
    if (parts_left_.fetch_sub(1, std::memory_order_acq_rel) == 1) handle_ = PinnedTile();
  }

 private:
  enum class Phase : int32_t { kUntouched, kPinning, kPinned, kFailed };

  int32_t tile_ = 0;
  std::atomic<int32_t> parts_left_{0};
  std::atomic<Phase> phase_{Phase::kUntouched};
  PinnedTile handle_;
};

}  // namespace thaw
