// Makes the values of one rendering, and counts what it uses against its RenderLimits.
//
// Owns every Object, which therefore lives until the rendering ends: nothing needs a cycle
// collector. One Heap per rendering, used by one thread. Costs: memory of freed values is not given
// back to the limit, so total_bytes bounds all that was ever made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "chat/render_limits.h"
#include "chat/value.h"

namespace thaw::jinja {

// Levels of lists and dicts inside each other. Printing, comparing and freeing a value recurse once
// a level; JSON schemas of tools stay below 20.
inline constexpr int kMaxValueDepth = 100;

// Evaluations inside evaluations: statements, expressions, macro calls, filters that call filters.
// Real templates stay below 60. A level takes at most 6 KiB of stack with sanitizers on, so that
// 500 levels fit well into the 8 MiB that Linux gives a thread.
inline constexpr int kMaxEvaluationDepth = 500;

// Bytes scanned or copied for one work unit: an evaluated node takes some 50 ns, in which the
// slowest scans, those that look at every character, do 16 bytes.
inline constexpr uint64_t kBytesPerWorkUnit = 16;

class Heap {
 public:
  explicit Heap(const RenderLimits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  const RenderLimits& limits() const { return limits_; }

  // Counts `units` of work; kResourceExhausted once the limit is passed.
  Result<void> Work(uint64_t units);
  // Counts the work of reading `bytes` once.
  Result<void> Scan(uint64_t bytes) { return Work(bytes / kBytesPerWorkUnit + 1); }
  // Asks, before anything of that size is built, whether one value may have `bytes`.
  Result<void> Check(uint64_t bytes) const;

  Result<Value> MakeString(std::string text);
  Result<Value> MakeList(Values items, ListKind list_kind = ListKind::kList);
  // Fails where a key is not hashable.
  Result<Value> MakeDict(std::vector<Dict::Entry> entries);

  template <typename T, typename... Args>
  Result<T*> MakeObject(Args&&... args) {
    THAW_TRY(Claim(sizeof(T)));
    auto owned = std::make_unique<T>(std::forward<Args>(args)...);
    T* const object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  // Counts `bytes` that a value or object holds.
  Result<void> Claim(uint64_t bytes);

 private:
  friend class DepthGuard;

  RenderLimits limits_;
  uint64_t work_done_ = 0;
  uint64_t bytes_made_ = 0;
  int evaluation_depth_ = 0;
  std::vector<std::unique_ptr<Object>> objects_;
};

// One level of evaluation while it lives; evaluation may go on only where ok().
class DepthGuard {
 public:
  explicit DepthGuard(Heap& heap) : heap_(heap) { ++heap_.evaluation_depth_; }
  ~DepthGuard() { --heap_.evaluation_depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;

  Result<void> ok() const;

 private:
  Heap& heap_;
};

}  // namespace thaw::jinja
