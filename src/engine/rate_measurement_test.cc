#include "engine/rate_measurement.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "codec/tile_decoder.h"
#include "io/faulty_file.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"
#include "kernels/peak_rate.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

// Enough for numbers that mean something; how good they are is no matter of a test.
constexpr MeasurementLimits kBrief = {.memory_bytes = 10 << 20, .seconds = 0.001};

// No machine is slower than a floppy disk or faster than 100 TB/s.
void ExpectPlausible(double per_second) {
  EXPECT_GT(per_second, 1e4);
  EXPECT_LT(per_second, 1e14);
}

TEST(MeasurementLimits, LeaveTheBufferWhatTheRestDoesNotNeed) {
  EXPECT_EQ(*MeasurementLimits().BufferBytes(), kMeasuredBytes);
  EXPECT_EQ(*MeasurementLimits{.memory_bytes = uint64_t{1} << 40}.BufferBytes(), kMeasuredBytes);
  EXPECT_EQ(*kBrief.BufferBytes(), uint64_t{2} << 20);
  const auto small = MeasurementLimits{.memory_bytes = 9 << 20}.BufferBytes();
  ASSERT_FALSE(small);
  EXPECT_EQ(small.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(small.error().message, HasSubstr("10.0 MiB are needed"));
}

TEST(MeasureMemoryRate, GivesARateForAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const auto rate = MeasureMemoryRate(pool, kBrief);
    ASSERT_TRUE(rate) << rate.error().message;
    ExpectPlausible(*rate);
  }
}

std::unique_ptr<WeightCache> CacheOfAMebibyte() {
  auto file = std::make_shared<MemoryFile>("m.gguf", std::string(1 << 20, 'x'));
  std::vector<WeightMatrix> matrices = {
      {.name = "m", .type = ElementType::kF32, .rows = 256, .cols = 1024, .file = std::move(file)}};
  return *WeightCache::Create(*TileMap::Create(std::move(matrices)), {});
}

TEST(MeasureResidentRate, ReadsWhatIsInMemoryAndNothingElse) {
  const auto weights = CacheOfAMebibyte();
  ThreadPool pool(2);
  const ResidentRate none = MeasureResidentRate(*weights, pool, kBrief.seconds);
  EXPECT_EQ(none.bytes, 0);
  EXPECT_EQ(none.bytes_per_second, 0);
  EXPECT_EQ(weights->Statistics().bytes_read, 0);
  ASSERT_TRUE(weights->Preload([](uint64_t, uint64_t) { return true; }));
  const ResidentRate all = MeasureResidentRate(*weights, pool, kBrief.seconds);
  EXPECT_EQ(all.bytes, uint64_t{1} << 20);
  ExpectPlausible(all.bytes_per_second);
  const CacheStatistics after = weights->Statistics();
  EXPECT_EQ(after.hits + after.misses, 0) << "measuring is no visit";
  EXPECT_EQ(after.pinned_bytes, 0);
}

TEST(ResidentReader, GoesRoundAndPinsWhatItReads) {
  const auto weights = CacheOfAMebibyte();
  ASSERT_TRUE(weights->Preload([](uint64_t, uint64_t) { return true; }));
  ThreadPool pool(2);
  {
    ResidentReader reader(*weights, pool);
    EXPECT_EQ(reader.bytes(), uint64_t{1} << 20);
    EXPECT_EQ(weights->Statistics().pinned_bytes, reader.bytes());
    for (int i = 0; i < 3; ++i) ExpectPlausible(reader.ReadOn());
  }
  EXPECT_EQ(weights->Statistics().pinned_bytes, 0);
}

TEST(MeasureForkJoin, GivesATimeFarBelowASecond) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    const double seconds = MeasureForkJoin(pool, kBrief);
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 1);
  }
}

TEST(MeasureInt8Rate, GivesARateWhereTheCpuHasTheInstruction) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const auto rate = MeasureInt8Rate(pool, kBrief.seconds);
    const Int8PeakLoop* loop = FindInt8PeakLoop(HostCpu());
    ASSERT_EQ(rate.has_value(), loop != nullptr);
    if (!rate) GTEST_SKIP() << "this CPU has no instruction for int8 products";
    EXPECT_STREQ(rate->instruction, loop->instruction);
    ExpectPlausible(rate->operations_per_second);
  }
}

TEST(MeasureInt8Rate, MeasuresNothingWhereTheCpuHasNoSuchInstruction) {
  ThreadPool pool(1);
  EXPECT_FALSE(MeasureInt8Rate(pool, kBrief.seconds, CpuFeatures{}));
}

TEST(MeasureLoopTimes, AreInOrder) {
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    const LoopTimes times = MeasureLoopTimes(pool, kBrief.seconds);
    EXPECT_GT(times.least_seconds, 0);
    EXPECT_GE(times.median_excess, 0);
    EXPECT_GE(times.p90_excess, times.median_excess);
  }
}

TEST(MeasureMatMul, GivesRatesForEveryTypeOnTheBestTable) {
  ThreadPool pool(2);
  const KernelTable& kernels = **SelectKernels("");
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (!CanMultiply(info.type)) continue;
    const auto rate = MeasureMatMul(info.type, kernels, PortableDecoder(), pool, kBrief);
    ASSERT_TRUE(rate) << rate.error().message;
    EXPECT_EQ(rate->type, info.type);
    ExpectPlausible(rate->decode_bytes_per_second);
    ExpectPlausible(rate->prefill_bytes_per_second);
  }
}

TEST(MeasureMatMul, GivesRatesForEveryTable) {
  ThreadPool pool(1);
  for (const KernelTable* kernels : AllKernelTables()) {
    if (!kernels->is_available(HostCpu())) continue;
    const auto rate = MeasureMatMul(ElementType::kQ4_0, *kernels, PortableDecoder(), pool, kBrief);
    ASSERT_TRUE(rate) << rate.error().message;
    ExpectPlausible(rate->decode_bytes_per_second);
    ExpectPlausible(rate->prefill_bytes_per_second);
  }
}

TEST(MeasureMatMul, DecodesCodedWeightsByTheDecoderThatItIsGiven) {
  static std::atomic<int> decoded_groups = 0;
  TileDecoder counting = PortableDecoder();
  counting.decode_bf16 = [](StreamCursor& cursor, std::byte* packed) {
    ++decoded_groups;
    PortableDecoder().decode_bf16(cursor, packed);
  };
  ThreadPool pool(2);
  const WeightForm coded(ElementType::kBF16, /*coded=*/true);
  const auto rate = MeasureMatMul(coded, **SelectKernels(""), counting, pool, kBrief);
  ASSERT_TRUE(rate) << rate.error().message;
  EXPECT_EQ(rate->type, coded);
  ExpectPlausible(rate->decode_bytes_per_second);
  ExpectPlausible(rate->prefill_bytes_per_second);
  EXPECT_GT(decoded_groups, 0);
}

TEST(MeasureDiskRate, GivesARateForFilesLargeAndSmall) {
  const TemporaryDirectory folder;
  for (const size_t size : {1, 100 << 10, 5 << 20}) {
    const std::string path = folder.Write("file", std::string(size, 'x'));
    const auto file = OpenFile(path);
    ASSERT_TRUE(file);
    const auto rate = MeasureDiskRate(**file, kBrief);
    ASSERT_TRUE(rate) << rate.error().message;
    EXPECT_GT(*rate, 0);
    EXPECT_TRUE(std::isfinite(*rate));
  }
}

TEST(MeasureDiskRate, SaysWhatIsWrongWithAFileThatCannotBeRead) {
  const auto empty = std::make_shared<MemoryFile>("empty", std::vector<std::byte>());
  const auto nothing = MeasureDiskRate(*empty, kBrief);
  ASSERT_FALSE(nothing);
  EXPECT_THAT(nothing.error().message, HasSubstr("empty: no disk rate"));

  const auto whole = std::make_shared<MemoryFile>("broken", std::string(1 << 20, 'x'));
  const FaultyFile broken(whole, {.broken_byte = 1000});
  const auto failed = MeasureDiskRate(broken, kBrief);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_THAT(failed.error().message, HasSubstr("broken: reading"));
}

}  // namespace
}  // namespace thaw
