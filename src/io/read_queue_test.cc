#include "io/read_queue.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "base/aligned_buffer.h"
#include "io/faulty_file.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

// Bytes of which no two stretches are alike.
std::string Pattern(size_t bytes) {
  std::mt19937_64 random(bytes);
  std::string text(bytes, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Brings a file to disk and out of the page cache.
void Evict(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::fsync(descriptor), 0);
  ASSERT_EQ(::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED), 0);
  ::close(descriptor);
}

// A request with a buffer of its own.
struct OwnedRead {
  OwnedRead(const File& file, uint64_t offset, uint64_t bytes, uint64_t tag = 0)
      : alignment(ReadAlignment(file)),
        buffer(*AlignedBuffer::Allocate(ReadSpan(offset, bytes, alignment), "a test", alignment)),
        request{&file, offset, bytes, buffer.data(), tag} {
    std::fill_n(buffer.data(), buffer.size(), std::byte{0xEE});
  }

  std::string_view payload() const {
    return {reinterpret_cast<const char*>(buffer.data()) + request.offset % alignment,
            request.bytes};
  }

  uint64_t alignment;
  AlignedBuffer buffer;
  ReadRequest request;
};

std::shared_ptr<const File> Opened(const std::string& path) {
  auto file = OpenFile(path);
  EXPECT_TRUE(file) << file.error().message;
  return *file;
}

TEST(ReadSpan, CoversThePayloadInWholeBlocks) {
  EXPECT_EQ(ReadSpan(0, 512, 512), 512u);
  EXPECT_EQ(ReadSpan(0, 513, 512), 1024u);
  EXPECT_EQ(ReadSpan(511, 1, 512), 512u);
  EXPECT_EQ(ReadSpan(511, 2, 512), 1024u);
  EXPECT_EQ(ReadSpan(4096, 0, 512), 0u);
}

TEST(ReadAlignment, IsACacheLineWithoutDirectAccess) {
  EXPECT_EQ(ReadAlignment(MemoryFile("m.bin", "0123")), 64u);
}

// Every queue gives the same bytes and the same errors.
enum class QueueKind { kUring, kPlain };

class ReadQueueOf : public ::testing::TestWithParam<QueueKind> {
 protected:
  void SetUp() override {
    if (GetParam() == QueueKind::kPlain) {
      queue_ = CreatePlainQueue();
      return;
    }
    auto queue = CreateUringQueue(8);
    if (!queue) GTEST_SKIP() << "SKIP: " << queue.error().message;
    queue_ = *std::move(queue);
  }

  ReadCompletion Read(const OwnedRead& read) {
    queue_->Submit(read.request);
    EXPECT_EQ(queue_->pending(), 1);
    ReadCompletion completion = queue_->Wait();
    EXPECT_EQ(queue_->pending(), 0);
    return completion;
  }

  TemporaryDirectory dir_;
  std::unique_ptr<ReadQueue> queue_;
};

INSTANTIATE_TEST_SUITE_P(Queues, ReadQueueOf,
                         ::testing::Values(QueueKind::kUring, QueueKind::kPlain),
                         [](const auto& test) {
                           return test.param == QueueKind::kUring ? "Uring" : "Plain";
                         });

TEST_P(ReadQueueOf, KnowsItsName) {
  EXPECT_EQ(queue_->name(), GetParam() == QueueKind::kUring ? "io_uring" : "pread");
  EXPECT_EQ(queue_->depth(), GetParam() == QueueKind::kUring ? 8 : 1);
}

TEST_P(ReadQueueOf, PutsOddRangesInPlace) {
  const std::string text = Pattern(100'003);
  const std::string path = dir_.Write("odd.bin", text);
  const auto file = Opened(path);
  const uint64_t size = text.size();
  const std::pair<uint64_t, uint64_t> ranges[] = {
      {0, 1},          {0, size},     {1, 1},      {511, 2},      {512, 512},
      {4095, 4097},    {32, 65'536},  {99'999, 4}, {size - 1, 1}, {size - 700, 700},
      {12'345, 6'789}, {size - 3, 3}, {size, 0},   {4096, 0},     {8192, size - 8192},
  };
  for (const bool evicted : {true, false}) {
    for (const auto& [offset, bytes] : ranges) {
      if (evicted) Evict(path);
      const OwnedRead read(*file, offset, bytes, 77);
      const ReadCompletion completion = Read(read);
      ASSERT_TRUE(completion.outcome) << completion.outcome.error().message;
      EXPECT_EQ(completion.tag, 77u);
      EXPECT_EQ(read.payload(), std::string_view(text).substr(offset, bytes))
          << bytes << " bytes at " << offset;
    }
  }
}

TEST_P(ReadQueueOf, ReadsEvictedRangesFromTheDiskAndCountsWholeBlocks) {
  const std::string text = Pattern(1 << 20);
  const std::string path = dir_.Write("cold.bin", text);
  const auto file = Opened(path);
  if (!file->direct()) GTEST_SKIP() << "SKIP: no direct access to " << path;
  const uint64_t block = file->direct()->alignment;
  Evict(path);
  if (file->IsCached(block, 1)) GTEST_SKIP() << "SKIP: the system keeps evicted pages";
  const OwnedRead read(*file, block + 1, block, 0);
  const ReadCompletion completion = Read(read);
  ASSERT_TRUE(completion.outcome);
  EXPECT_EQ(completion.source, ReadSource::kDisk);
  EXPECT_EQ(completion.disk_bytes, 2 * block);
  EXPECT_GT(completion.nanoseconds, 0);
  EXPECT_EQ(read.payload(), std::string_view(text).substr(block + 1, block));
  // A direct read leaves nothing behind.
  EXPECT_FALSE(file->IsCached(block, 1));
}

// What the disk has given this process, as the kernel counts it.
std::optional<uint64_t> KernelReadBytes() {
  std::ifstream in("/proc/self/io");
  std::string name;
  for (uint64_t count = 0; in >> name >> count;) {
    if (name == "read_bytes:") return count;
  }
  return std::nullopt;
}

TEST_P(ReadQueueOf, CountsTheDisksBytesAsTheKernelDoes) {
  const std::string path = dir_.Write("counted.bin", Pattern(16 << 20));
  const auto file = Opened(path);
  if (!file->direct()) GTEST_SKIP() << "SKIP: no direct access to " << path;
  Evict(path);
  const auto before = KernelReadBytes();
  if (!before) GTEST_SKIP() << "SKIP: the kernel does not count";
  uint64_t disk_bytes = 0;
  for (uint64_t offset = 100; offset + (1 << 20) <= file->size(); offset += 1 << 20) {
    disk_bytes += Read(OwnedRead(*file, offset, 1 << 20)).disk_bytes;
  }
  const uint64_t counted = *KernelReadBytes() - *before;
  EXPECT_GE(disk_bytes, uint64_t{15} << 20);
  EXPECT_GE(counted, disk_bytes);
  // The kernel counts pages of the program and blocks of the file system's own as well.
  EXPECT_LE(counted, disk_bytes + (1 << 20));
}

TEST_P(ReadQueueOf, TakesCachedRangesFromThePageCache) {
  const std::string text = Pattern(1 << 20);
  const std::string path = dir_.Write("warm.bin", text);
  const auto file = Opened(path);
  if (!file->IsCached(0, file->size())) GTEST_SKIP() << "SKIP: the system tells of no cached pages";
  const OwnedRead read(*file, 5000, 70'000);
  const ReadCompletion completion = Read(read);
  ASSERT_TRUE(completion.outcome);
  EXPECT_EQ(completion.source, ReadSource::kPageCache);
  EXPECT_EQ(completion.disk_bytes, 0u);
  EXPECT_EQ(read.payload(), std::string_view(text).substr(5000, 70'000));
}

TEST_P(ReadQueueOf, ReadsPlainlyWhatHasNoDirectAccess) {
  const MemoryFile file("memory.bin", Pattern(10'000));
  const OwnedRead read(file, 123, 4567);
  const ReadCompletion completion = Read(read);
  ASSERT_TRUE(completion.outcome);
  EXPECT_EQ(completion.source, ReadSource::kBuffered);
  EXPECT_EQ(completion.disk_bytes, 0u);
  EXPECT_EQ(read.payload(), Pattern(10'000).substr(123, 4567));
}

TEST_P(ReadQueueOf, ReadsFilesThatLiveInMemory) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "SKIP: there is no /dev/shm";
  std::string path = "/dev/shm/thaw-XXXXXX";
  const int descriptor = ::mkstemp(path.data());
  ASSERT_GE(descriptor, 0);
  const std::string text = Pattern(50'000);
  ASSERT_EQ(::write(descriptor, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(descriptor);
  const auto file = Opened(path);
  EXPECT_FALSE(file->direct());
  const OwnedRead read(*file, 4321, 40'000);
  const ReadCompletion completion = Read(read);
  ::unlink(path.c_str());
  ASSERT_TRUE(completion.outcome);
  EXPECT_EQ(completion.disk_bytes, 0u);
  EXPECT_EQ(read.payload(), text.substr(4321, 40'000));
}

TEST_P(ReadQueueOf, GivesTheRightBytesToManyRequestsInRandomOrder) {
  const std::string text = Pattern(8 << 20);
  const std::string path = dir_.Write("many.bin", text);
  const auto file = Opened(path);
  Evict(path);
  std::mt19937_64 random(5);
  std::vector<std::unique_ptr<OwnedRead>> reads;
  std::vector<bool> seen;
  const auto harvest = [&] {
    const ReadCompletion completion = queue_->Wait();
    ASSERT_TRUE(completion.outcome) << completion.outcome.error().message;
    ASSERT_LT(completion.tag, reads.size());
    ASSERT_FALSE(seen[completion.tag]) << "handed out twice";
    seen[completion.tag] = true;
    const ReadRequest& request = reads[completion.tag]->request;
    ASSERT_EQ(reads[completion.tag]->payload(),
              std::string_view(text).substr(request.offset, request.bytes));
  };
  for (uint64_t tag = 0; tag < 500; ++tag) {
    if (tag % 50 == 0) Evict(path);
    // Now and then something comes into the cache, so that both ways are under way at once.
    if (tag % 7 == 0) {
      char byte = 0;
      ASSERT_TRUE(ReadExactlyAt(*file, random() % text.size(),
                                std::as_writable_bytes(std::span(&byte, 1))));
    }
    const uint64_t offset = random() % text.size();
    const uint64_t bytes = 1 + random() % std::min<uint64_t>(text.size() - offset, 200'000);
    reads.push_back(std::make_unique<OwnedRead>(*file, offset, bytes, tag));
    seen.push_back(false);
    if (queue_->pending() == queue_->depth()) {
      ASSERT_NO_FATAL_FAILURE(harvest());
    }
    queue_->Submit(reads.back()->request);
  }
  while (queue_->pending() > 0) ASSERT_NO_FATAL_FAILURE(harvest());
  EXPECT_EQ(std::count(seen.begin(), seen.end(), true), 500);
}

TEST_P(ReadQueueOf, SaysWhatABrokenBlockSays) {
  const auto inner = std::make_shared<MemoryFile>("broken.bin", Pattern(10'000));
  const FaultyFile file(inner, {.broken_byte = 6000});
  const OwnedRead whole(file, 1000, 2000);
  EXPECT_TRUE(Read(whole).outcome);
  const OwnedRead broken(file, 5000, 2000, 9);
  const ReadCompletion completion = Read(broken);
  ASSERT_FALSE(completion.outcome);
  EXPECT_EQ(completion.tag, 9u);
  EXPECT_EQ(completion.outcome.error().code, ErrorCode::kIo);
  EXPECT_EQ(completion.outcome.error().message,
            "broken.bin: reading 2000 bytes at offset 5000 failed: Input/output error");
}

TEST_P(ReadQueueOf, ContinuesShortReads) {
  const std::string text = Pattern(10'000);
  const FaultyFile file(std::make_shared<MemoryFile>("short.bin", text),
                        {.most_bytes_per_read = 333});
  const OwnedRead read(file, 77, 9000);
  EXPECT_TRUE(Read(read).outcome);
  EXPECT_EQ(read.payload(), text.substr(77, 9000));
}

TEST_P(ReadQueueOf, SaysWhatIsLeftOfATruncatedFile) {
  const std::string path = dir_.Write("shrinking.bin", Pattern(100'000));
  const auto file = Opened(path);
  for (const uint64_t left : {50'000, 49'152, 10'000, 0}) {
    ASSERT_EQ(::truncate(path.c_str(), static_cast<off_t>(left)), 0);
    Evict(path);
    const OwnedRead read(*file, 45'000, 20'000);
    const ReadCompletion completion = Read(read);
    ASSERT_FALSE(completion.outcome);
    EXPECT_EQ(completion.outcome.error().code, ErrorCode::kCorrupt);
    EXPECT_EQ(completion.outcome.error().message,
              fmt::format("{}: the file ends early: 20000 bytes are wanted at offset 45000, {} are "
                          "there",
                          path, left - std::min<uint64_t>(left, 45'000)));
  }
}

TEST_P(ReadQueueOf, GoesWithReadsUnderWay) {
  const std::string path = dir_.Write("left.bin", Pattern(4 << 20));
  const auto file = Opened(path);
  for (int round = 0; round < 20; ++round) {
    Evict(path);
    std::vector<OwnedRead> reads;
    for (int i = 0; i < queue_->depth(); ++i) {
      reads.emplace_back(*file, static_cast<uint64_t>(i) * 500'000 + 11, 400'000);
      queue_->Submit(reads.back().request);
    }
    queue_.reset();
    // Nothing writes to the buffers any more: what is put there stays.
    for (OwnedRead& read : reads) std::memset(read.buffer.data(), 0x55, read.buffer.size());
    for (const OwnedRead& read : reads) {
      EXPECT_EQ(read.payload().find_first_not_of('\x55'), std::string_view::npos);
    }
    SetUp();
  }
}

TEST_P(ReadQueueOf, MayBeMadeUsedAndDroppedByDifferentThreads) {
  const std::string text = Pattern(1 << 20);
  const std::string path = dir_.Write("threads.bin", text);
  const auto file = Opened(path);
  Evict(path);
  const OwnedRead first(*file, 1000, 300'000, 1);
  const OwnedRead second(*file, 500'001, 300'000, 2);
  std::thread submitter([&] { queue_->Submit(first.request); });
  submitter.join();
  const ReadCompletion completion = queue_->Wait();
  ASSERT_TRUE(completion.outcome) << completion.outcome.error().message;
  EXPECT_EQ(first.payload(), std::string_view(text).substr(1000, 300'000));
  queue_->Submit(second.request);
  std::thread dropper([&] { queue_.reset(); });
  dropper.join();
}

TEST_P(ReadQueueOf, WaitsForAReaderThatStalls) {
  const auto gate = std::make_shared<ReadGate>();
  const std::string text = Pattern(1000);
  const FaultyFile file(std::make_shared<MemoryFile>("stall.bin", text), {.gate = gate});
  const OwnedRead read(file, 10, 900);
  std::atomic<bool> done = false;
  std::thread reader([&] {
    EXPECT_TRUE(Read(read).outcome);
    done = true;
  });
  gate->AwaitReaders(1);
  EXPECT_FALSE(done);
  gate->Open();
  reader.join();
  EXPECT_EQ(read.payload(), text.substr(10, 900));
}

TEST(CreateUringQueue, SaysWhyTheKernelRefuses) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto queue = CreateUringQueue(8);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  ASSERT_FALSE(queue);
  EXPECT_EQ(queue.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(queue.error().message, HasSubstr("io_uring cannot be used: "));
}

TEST(ReadNow, ReadsOnTheSpotWhatIsCachedAndWhatIsNot) {
  const TemporaryDirectory dir;
  const std::string text = Pattern(300'000);
  const std::string path = dir.Write("now.bin", text);
  const auto file = Opened(path);
  for (const bool evicted : {false, true}) {
    if (evicted) Evict(path);
    const OwnedRead read(*file, 777, 200'000, 3);
    const ReadCompletion completion = ReadNow(read.request);
    ASSERT_TRUE(completion.outcome);
    EXPECT_EQ(completion.tag, 3u);
    EXPECT_EQ(read.payload(), std::string_view(text).substr(777, 200'000));
  }
}

}  // namespace
}  // namespace thaw
