// A File that fails as disks do: puts chosen faults before the reads of another File, for tests.
//
// Has no direct access, so that no read gets around the faults. Also counts what is read, so that a
// test can show what was not. Thread safe, like every File; the counters are exact when no read is
// under way.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>

#include "io/file.h"

namespace thaw {

// Holds reads up until it is opened, and tells how many it holds.
class ReadGate {
 public:
  // Lets all through, those to come too.
  void Open();
  // Blocks while the gate is closed.
  void Pass();
  // Blocks until at least `count` readers stand before the gate or have passed it.
  void AwaitReaders(int count);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = false;
  int arrived_ = 0;
};

struct FileFaults {
  // A read that would give this byte fails as a broken disk block does (EIO); reads that stop short
  // of it succeed.
  std::optional<uint64_t> broken_byte = std::nullopt;
  // The file has shrunk: size() still says what it was, reads find the end here.
  std::optional<uint64_t> truncated_to = std::nullopt;
  // No read gives more than this, as when signals arrive; at least 1.
  size_t most_bytes_per_read = std::numeric_limits<size_t>::max();
  // Every read takes this long.
  std::chrono::microseconds delay = std::chrono::microseconds(0);
  // CheckUnchanged finds that the file was written to.
  bool changed = false;
  // Reads stall here until it is opened.
  std::shared_ptr<ReadGate> gate = nullptr;
};

class FaultyFile final : public File {
 public:
  FaultyFile(std::shared_ptr<const File> file, FileFaults faults);

  // From the next read on. Reads under way keep the faults that they began with.
  void SetFaults(FileFaults faults);

  const std::string& path() const override { return file_->path(); }
  uint64_t size() const override { return file_->size(); }
  Result<size_t> ReadSomeAt(uint64_t offset, std::span<std::byte> out) const override;
  bool IsCached(uint64_t offset, uint64_t bytes) const override {
    return file_->IsCached(offset, bytes);
  }
  Result<void> CheckUnchanged() const override;

  uint64_t read_count() const { return read_count_; }
  uint64_t bytes_read() const { return bytes_read_; }
  // The end of the farthest byte that a read gave.
  uint64_t farthest_end() const { return farthest_end_; }

 private:
  FileFaults CurrentFaults() const;

  std::shared_ptr<const File> file_;
  mutable std::mutex faults_mutex_;
  FileFaults faults_;
  mutable std::atomic<uint64_t> read_count_ = 0;
  mutable std::atomic<uint64_t> bytes_read_ = 0;
  mutable std::atomic<uint64_t> farthest_end_ = 0;
};

}  // namespace thaw
