// Reads a file from front to back through a window of 64 KiB: numbers, strings, and jumps over what
// is not wanted, without a system call for each.
//
// Knows what it is reading (the subject), so that every error says: file, subject, offset, what is
// needed, what is there. No number taken from the file leads to an allocation before that many
// bytes are known to be there. For one thread; the file must outlive it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "io/file.h"

namespace thaw {

class WindowReader {
 public:
  // One read of 64 KiB holds the directory of a small model; larger windows do not read the
  // vocabularies of large ones measurably sooner, and would touch more of the tensor data behind.
  static constexpr size_t kWindowBytes = 64 << 10;

  // Starts at `position`. `subject` is what errors name until SetSubject: "the header".
  WindowReader(const File& file, uint64_t position, std::string subject);

  void SetSubject(std::string subject) { subject_ = std::move(subject); }

  uint64_t position() const { return position_; }
  uint64_t remaining() const { return file_.size() - position_; }

  // One little-endian number; `what` names it in errors: "its length".
  template <typename T>
  Result<T> ReadNumber(const char* what) {
    if (!IsInWindow(sizeof(T))) THAW_TRY(MoveWindow(sizeof(T), what));
    T value;
    std::memcpy(&value, TakeFromWindow(sizeof(T)), sizeof(T));
    return value;
  }

  // A length of 8 bytes and that many characters; kCorrupt above `max_bytes`.
  Result<std::string> ReadString(uint64_t max_bytes, const char* what);

  // Moves on without reading; the bytes must be there.
  Result<void> Skip(uint64_t byte_count, const char* what);

  // An error about the subject: "FILE: SUBJECT: ...".
  template <typename... Args>
  tl::unexpected<Error> Refuse(ErrorCode code, fmt::format_string<Args...> format,
                               Args&&... args) const {
    return Fail(code, "{}: {}: {}", file_.path(), subject_,
                fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  static_assert(std::endian::native == std::endian::little, "numbers are copied as they stand");

  // Whether the next `byte_count` <= kWindowBytes bytes are in memory.
  bool IsInWindow(size_t byte_count) const {
    return position_ - window_offset_ + byte_count <= window_filled_;
  }
  // Moves past them; they stay valid until the window moves.
  const std::byte* TakeFromWindow(size_t byte_count) {
    const std::byte* bytes = window_.data() + (position_ - window_offset_);
    position_ += byte_count;
    return bytes;
  }
  // Moves the window to the position and reads until it holds `byte_count` bytes.
  Result<void> MoveWindow(size_t byte_count, const char* what);
  Result<void> CheckThere(uint64_t byte_count, const char* what) const;

  const File& file_;
  std::string subject_;
  uint64_t position_;
  std::vector<std::byte> window_;
  uint64_t window_offset_ = 0;  // in the file, never behind the position
  size_t window_filled_ = 0;    // bytes of the window that were read
};

}  // namespace thaw
