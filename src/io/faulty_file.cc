#include "io/faulty_file.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/check.h"

namespace thaw {

void ReadGate::Open() {
  const std::lock_guard lock(mutex_);
  is_open_ = true;
  changed_.notify_all();
}

void ReadGate::Pass() {
  std::unique_lock lock(mutex_);
  ++arrived_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return is_open_; });
}

void ReadGate::AwaitReaders(int count) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, count] { return arrived_ >= count; });
}

FaultyFile::FaultyFile(std::shared_ptr<const File> file, FileFaults faults)
    : file_(std::move(file)) {
  SetFaults(std::move(faults));
}

void FaultyFile::SetFaults(FileFaults faults) {
  THAW_CHECK(faults.most_bytes_per_read > 0);
  const std::lock_guard lock(faults_mutex_);
  faults_ = std::move(faults);
}

FileFaults FaultyFile::CurrentFaults() const {
  const std::lock_guard lock(faults_mutex_);
  return faults_;
}

Result<void> FaultyFile::CheckUnchanged() const {
  if (CurrentFaults().changed) {
    return Fail(ErrorCode::kCorrupt, "{}: the file has changed since it was opened", path());
  }
  return file_->CheckUnchanged();
}

Result<size_t> FaultyFile::ReadSomeAt(uint64_t offset, std::span<std::byte> out) const {
  ++read_count_;
  const FileFaults faults = CurrentFaults();
  if (faults.gate) faults.gate->Pass();
  if (faults.delay.count() > 0) std::this_thread::sleep_for(faults.delay);

  out = out.first(std::min(out.size(), faults.most_bytes_per_read));
  if (faults.truncated_to) {
    const uint64_t left = *faults.truncated_to - std::min(offset, *faults.truncated_to);
    out = out.first(static_cast<size_t>(std::min<uint64_t>(out.size(), left)));
  }
  if (faults.broken_byte && offset <= *faults.broken_byte &&
      out.size() > *faults.broken_byte - offset) {
    return Fail(ErrorCode::kIo, "{}: reading {} bytes at offset {} failed: Input/output error",
                path(), out.size(), offset);
  }

  THAW_ASSIGN(const size_t got, file_->ReadSomeAt(offset, out));
  bytes_read_ += got;
  uint64_t farthest = farthest_end_;
  while (farthest < offset + got && !farthest_end_.compare_exchange_weak(farthest, offset + got)) {
  }
  return got;
}

}  // namespace thaw
