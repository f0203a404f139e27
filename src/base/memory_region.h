// A reserved range of addresses, backed by memory as it is first touched and given back on demand.
//
// Reserving costs no memory, so a region may be as large as it could ever have to be (slots for all
// weights of a model); what counts against a budget is what has been touched and not released. The
// range begins on a huge page and asks for huge pages: direct reads into 4 KiB pages reach a third
// of the disk's rate, and giving 500 MiB back takes 30 ms instead of 1.4.
//
// Owns the range, move-only. Any thread may touch the memory and release parts of it; what one
// thread releases, no other may be using. First touch costs about 0.1 ms a huge page.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace thaw {

// Of x86-64, and of ARM with 4 KiB pages.
inline constexpr size_t kHugePageBytes = size_t{2} << 20;

class MemoryRegion {
 public:
  // A region of no bytes.
  MemoryRegion() = default;
  ~MemoryRegion();
  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;

  // `bytes` of zeroes. kResourceExhausted when the system has no such range of addresses; `purpose`
  // names the region in that message ("the weights").
  static Result<MemoryRegion> Reserve(size_t bytes, std::string_view purpose);

  // A multiple of kHugePageBytes.
  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives the memory of the whole pages within [offset, offset + bytes) back to the system; their
  // contents are lost, and reading them finds zeroes. The pages that the range covers only in part
  // stay as they are. A memory cgroup goes on being charged for a huge page until all of it has
  // been released: where the charge must fall, give multiples of kHugePageBytes.
  void Release(size_t offset, size_t bytes);

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace thaw
