#include "gguf/window_reader.h"

#include <gmock/gmock.h>

#include "io/faulty_file.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

// Numbers that say where they stand.
std::shared_ptr<const File> CountingFile(uint32_t number_count) {
  std::string text;
  for (uint32_t i = 0; i < number_count; ++i) {
    text.append(reinterpret_cast<const char*>(&i), sizeof(i));
  }
  return std::make_shared<MemoryFile>("numbers.bin", text);
}

TEST(WindowReader, ReadsNumbersAcrossWindows) {
  constexpr uint32_t kCount = 100000;
  const FaultyFile file(CountingFile(kCount), {});
  WindowReader reader(file, 0, "the numbers");
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(*reader.ReadNumber<uint32_t>("a number"), i);
  EXPECT_EQ(reader.remaining(), 0u);
  EXPECT_LE(file.read_count(), kCount * sizeof(uint32_t) / WindowReader::kWindowBytes + 1);
}

TEST(WindowReader, ReadsNumbersThatStraddleTheEdgeOfAWindow) {
  const auto file = CountingFile(40000);
  WindowReader reader(*file, 2, "the numbers");
  for (uint32_t i = 0; i < 39999; ++i) {
    // The upper half of one number, then the lower half of the next.
    ASSERT_EQ(*reader.ReadNumber<uint32_t>("a number"), (i >> 16) | ((i + 1) << 16));
  }
}

TEST(WindowReader, SkipsWithoutReading) {
  const FaultyFile file(CountingFile(1 << 20), {});
  WindowReader reader(file, 0, "the numbers");
  EXPECT_EQ(*reader.ReadNumber<uint32_t>("a number"), 0u);
  ASSERT_TRUE(reader.Skip((1 << 20) * 4 - 8, "the middle"));
  EXPECT_EQ(*reader.ReadNumber<uint32_t>("a number"), (1u << 20) - 1);
  EXPECT_EQ(file.read_count(), 2u);
  EXPECT_EQ(file.bytes_read(), WindowReader::kWindowBytes + 4);
}

TEST(WindowReader, ReadsStringsLongerThanTheWindow) {
  const std::string characters(3 * WindowReader::kWindowBytes + 5, 'c');
  const uint64_t length = characters.size();
  std::string text(reinterpret_cast<const char*>(&length), sizeof(length));
  text += characters;
  const MemoryFile file("long.bin", text);
  WindowReader reader(file, 0, "the text");
  EXPECT_EQ(*reader.ReadString(length, "a string"), characters);
  WindowReader again(file, 0, "the text");
  EXPECT_EQ(again.ReadString(length - 1, "a string").error().message,
            "long.bin: the text: a string at offset 0 is 196613 bytes long, at most 196612 are "
            "allowed");
}

TEST(WindowReader, SaysWhatIsMissingAtTheEnd) {
  const auto file = CountingFile(3);
  WindowReader reader(*file, 8, "the numbers");
  EXPECT_EQ(reader.ReadNumber<uint64_t>("the last").error().message,
            "numbers.bin: the numbers: the last needs 8 bytes at offset 8, the file ends at 12");
  EXPECT_EQ(reader.Skip(5, "the gap").error().message,
            "numbers.bin: the numbers: the gap needs 5 bytes at offset 8, the file ends at 12");
  EXPECT_EQ(*reader.ReadNumber<uint32_t>("the last"), 2u);
}

TEST(WindowReader, FindsNothingInAnEmptyFile) {
  const MemoryFile file("empty.bin", "");
  WindowReader reader(file, 0, "the front");
  EXPECT_FALSE(reader.ReadNumber<uint8_t>("a byte"));
  EXPECT_TRUE(reader.Skip(0, "nothing"));
}

}  // namespace
}  // namespace thaw
