// Hands out extents, runs of bytes, of an address range [0, limit).
//
// Knows offsets only, no memory. Lowest free offset first, so that what is given first lies
// lowest and the top of the range is free first. The limit can move while extents lie above it:
// they stay valid until they are freed. Not thread safe. Costs: linear in the number of extents
// above the lowest hole.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace thaw {

class ExtentAllocator {
 public:
  explicit ExtentAllocator(uint64_t limit) : limit_(limit) {}

  // The offset of `bytes` > 0 free bytes below the limit; nothing where there is no such hole.
  std::optional<uint64_t> Allocate(uint64_t bytes);

  // Gives back what Allocate gave.
  void Free(uint64_t offset);

  void SetLimit(uint64_t limit) { limit_ = limit; }
  uint64_t limit() const { return limit_; }
  uint64_t used_bytes() const { return used_bytes_; }

  struct Run {
    uint64_t begin;
    uint64_t end;
  };
  // What is free of [begin, end), ascending.
  std::vector<Run> FreeRuns(uint64_t begin, uint64_t end) const;

  // Where the highest extent ends; 0 without one.
  uint64_t end() const;

 private:
  uint64_t limit_;
  uint64_t used_bytes_ = 0;
  uint64_t full_below_ = 0;               // no byte below it is free
  std::map<uint64_t, uint64_t> extents_;  // offset -> bytes
};

}  // namespace thaw
