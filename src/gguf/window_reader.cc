#include "gguf/window_reader.h"

#include <algorithm>

namespace thaw {

WindowReader::WindowReader(const File& file, uint64_t position, std::string subject)
    : file_(file),
      subject_(std::move(subject)),
      position_(std::min(position, file.size())),
      window_(static_cast<size_t>(std::min<uint64_t>(kWindowBytes, file.size()))) {}

Result<void> WindowReader::CheckThere(uint64_t byte_count, const char* what) const {
  if (byte_count <= remaining()) return {};
  return Refuse(ErrorCode::kCorrupt, "{} needs {} bytes at offset {}, the file ends at {}", what,
                byte_count, position_, file_.size());
}

Result<void> WindowReader::MoveWindow(size_t byte_count, const char* what) {
  THAW_TRY(CheckThere(byte_count, what));
  const auto wanted = static_cast<size_t>(std::min<uint64_t>(window_.size(), remaining()));
  window_offset_ = position_;
  window_filled_ = 0;
  while (window_filled_ < byte_count) {
    const auto rest = std::span(window_).subspan(window_filled_, wanted - window_filled_);
    auto got = file_.ReadSomeAt(window_offset_ + window_filled_, rest);
    if (!got) {
      got.error().message += fmt::format(" (while reading {})", subject_);
      return Fail(std::move(got).error());
    }
    if (*got == 0) {
      return Refuse(ErrorCode::kCorrupt,
                    "{} needs {} bytes at offset {}, but the file has shrunk: {} are there", what,
                    byte_count, window_offset_, window_filled_);
    }
    window_filled_ += *got;
  }
  return {};
}

Result<std::string> WindowReader::ReadString(uint64_t max_bytes, const char* what) {
  const uint64_t length_offset = position_;
  THAW_ASSIGN(const uint64_t length, ReadNumber<uint64_t>(what));
  THAW_TRY(CheckThere(length, what));
  if (length > max_bytes) {
    return Refuse(ErrorCode::kCorrupt, "{} at offset {} is {} bytes long, at most {} are allowed",
                  what, length_offset, length, max_bytes);
  }
  std::string text(static_cast<size_t>(length), '\0');
  for (size_t done = 0; done < text.size();) {
    const size_t piece = std::min(text.size() - done, window_.size());
    if (!IsInWindow(piece)) THAW_TRY(MoveWindow(piece, what));
    std::memcpy(text.data() + done, TakeFromWindow(piece), piece);
    done += piece;
  }
  return text;
}

Result<void> WindowReader::Skip(uint64_t byte_count, const char* what) {
  THAW_TRY(CheckThere(byte_count, what));
  position_ += byte_count;
  return {};
}

}  // namespace thaw
