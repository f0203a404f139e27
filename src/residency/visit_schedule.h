// Where forward passes are among the tiles, and what they will visit next.
//
// Time counts tiles: pass p visits tile t at p * tile_count + t. A pass may end early (a chunk of a
// prompt needs no logits); the pass after it is expected to visit the same tiles. Not thread safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace thaw {

class VisitSchedule {
 public:
  explicit VisitSchedule(int32_t tile_count)
      : tile_count_(static_cast<uint64_t>(std::max(1, tile_count))), end_(tile_count) {}

  // A pass over the tiles [0, end) begins.
  void BeginPass(int32_t end) {
    if (begun_) base_ += tile_count_;
    begun_ = true;
    end_ = end;
    now_ = base_;
    latest_ = base_;
    cursor_ = std::max(cursor_, now_);
  }

  // A visit of `tile` has begun. Threads visit in nearly ascending order.
  void Visit(int32_t tile) { VisitEarly(tile, tile + 1); }

  // The same, while tiles from `passed_end` on may still be visited after it.
  void VisitEarly(int32_t tile, int32_t passed_end) {
    now_ = std::max(now_, base_ + static_cast<uint64_t>(passed_end));
    latest_ = std::max(latest_, base_ + static_cast<uint64_t>(tile));
  }

  bool begun() const { return begun_; }
  uint64_t now() const { return now_; }
  // Of the farthest visit that has begun; of the pass's first tile before any has.
  uint64_t latest() const { return latest_; }

  // The tile at a time, and whether passes like this one visit it.
  int32_t TileAt(uint64_t time) const { return static_cast<int32_t>(time % tile_count_); }
  bool IsVisited(int32_t tile) const { return tile < end_; }

  // From now to the next visit of `tile`.
  uint64_t Distance(int32_t tile) const {
    const uint64_t phase = now_ % tile_count_;
    const auto at = static_cast<uint64_t>(tile);
    const uint64_t wait = at >= phase ? at - phase : at + tile_count_ - phase;
    return IsVisited(tile) ? wait : wait + tile_count_;
  }

  // The next time that a reader looks at; never behind now, at most one cycle ahead.
  uint64_t cursor() {
    cursor_ = std::max(cursor_, now_);
    return cursor_;
  }
  void AdvanceCursor() { ++cursor_; }
  // Where it stops: a pass over nothing has nothing ahead.
  uint64_t horizon() const { return end_ == 0 ? cursor_ : now_ + tile_count_; }

 private:
  uint64_t tile_count_;
  uint64_t base_ = 0;  // of this pass
  uint64_t now_ = 0;   // the next visit that has not begun
  uint64_t latest_ = 0;
  uint64_t cursor_ = 0;
  int32_t end_;
  bool begun_ = false;
};

}  // namespace thaw
