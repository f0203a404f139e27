// An owned block of memory at a stated alignment. Move-only.
//
// Blocks of 2 MiB and more are aligned to 2 MiB and ask the system for huge pages: reading weights
// through 4 KiB pages costs a few percent of memory rate and two thirds of direct-I/O rate.
#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"

namespace thaw {

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  ~AlignedBuffer();
  AlignedBuffer(AlignedBuffer&& other) noexcept;
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept;

  // `size` bytes, contents unspecified. kResourceExhausted when the system has none; `purpose`
  // names the buffer in that message ("weights of blk.3.ffn_up"). `alignment` is a power of two.
  static Result<AlignedBuffer> Allocate(size_t size, std::string_view purpose,
                                        size_t alignment = 64);

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  std::span<std::byte> bytes() { return {data_, size_}; }
  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace thaw
