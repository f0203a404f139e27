#include "base/terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "base/interrupt.h"

namespace thaw {
namespace {

// A pipe that holds `text` and is closed for writing.
class FilledPipe {
 public:
  explicit FilledPipe(std::string_view text) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe(ends.data()), 0);
    EXPECT_EQ(::write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
    ::close(ends[1]);
    read_end_ = ends[0];
  }
  ~FilledPipe() { ::close(read_end_); }
  FilledPipe(const FilledPipe&) = delete;
  FilledPipe& operator=(const FilledPipe&) = delete;

  int read_end() const { return read_end_; }

 private:
  int read_end_ = -1;
};

TEST(LineReader, GivesLinesWithoutTheirNewlines) {
  const FilledPipe pipe("one\n\nthree\n");
  LineReader reader(pipe.read_end());
  EXPECT_EQ(*reader.Next(), "one");
  EXPECT_EQ(*reader.Next(), "");
  EXPECT_EQ(*reader.Next(), "three");
  EXPECT_EQ(*reader.Next(), std::nullopt);
}

TEST(LineReader, GivesALastLineThatLacksItsNewline) {
  const FilledPipe pipe("one\ntwo");
  LineReader reader(pipe.read_end());
  EXPECT_EQ(*reader.Next(), "one");
  EXPECT_EQ(*reader.Next(), "two");
  EXPECT_EQ(*reader.Next(), std::nullopt);
}

TEST(LineReader, GivesLinesLongerThanOneRead) {
  const std::string long_line(20000, 'x');
  const FilledPipe pipe(long_line + "\nend\n");
  LineReader reader(pipe.read_end());
  EXPECT_EQ(*reader.Next(), long_line);
  EXPECT_EQ(*reader.Next(), "end");
}

TEST(LineReader, SaysWhetherALineHasComeWithoutWaitingOrTakingIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  LineReader reader(ends[0]);
  EXPECT_FALSE(reader.HasLine(""));
  ASSERT_EQ(::write(ends[1], "/bud", 4), 4);
  EXPECT_FALSE(reader.HasLine("/budget"));
  ASSERT_EQ(::write(ends[1], "get\nHello", 9), 9);
  EXPECT_TRUE(reader.HasLine("/budget"));
  EXPECT_FALSE(reader.HasLine("Hello"));
  EXPECT_EQ(*reader.Next(), "/budget");
  EXPECT_FALSE(reader.HasLine("Hello"));
  ::close(ends[1]);
  EXPECT_FALSE(reader.HasLine("Hello"));
  EXPECT_EQ(*reader.Next(), "Hello");
  EXPECT_EQ(*reader.Next(), std::nullopt);
  ::close(ends[0]);
}

TEST(LineReader, EndsItsWaitAtASignalThatCameBeforeIt) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  CatchInterrupts();
  ASSERT_EQ(raise(SIGINT), 0);
  LineReader reader(ends[0]);
  const auto line = reader.Next();
  CatchInterrupts();
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kCancelled);
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(LineReader, SaysWhenTheInputCannotBeRead) {
  const int folder = ::open("/", O_RDONLY | O_DIRECTORY);
  ASSERT_GE(folder, 0);
  LineReader reader(folder);
  const auto line = reader.Next();
  ::close(folder);
  ASSERT_FALSE(line);
  EXPECT_EQ(line.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace thaw
