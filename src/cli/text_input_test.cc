#include "cli/text_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::HasSubstr;

TEST(ReadTextFile, ReadsAllBytes) {
  const TemporaryDirectory folder;
  const std::string text = std::string(200000, 'x') + '\0' + "\xff\n";
  const auto read = ReadTextFile(folder.Write("t.txt", text));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, text);
}

TEST(ReadTextFile, RefusesFilesAboveItsLimit) {
  const TemporaryDirectory folder;
  const std::string path = folder.Write("t.txt", "12345");
  EXPECT_EQ(*ReadTextFile(path, 5), "12345");
  const auto read = ReadTextFile(path, 4);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kResourceExhausted);
}

TEST(ReadTextFile, SaysWhatIsWrongWithAFile) {
  const TemporaryDirectory folder;
  const auto missing = ReadTextFile(folder.PathOf("none.txt"));
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("none.txt: no such file"));
  const auto directory = ReadTextFile(folder.path().string());
  ASSERT_FALSE(directory);
  EXPECT_THAT(directory.error().message, HasSubstr("cannot be read: "));
}

TEST(ReadText, PrefersTheArgument) {
  EXPECT_EQ(*ReadText({.text = "said", .file = std::nullopt}), "said");
}

TEST(DropLastNewline, TakesOffOneLineEnd) {
  const auto dropped = [](std::string text) {
    DropLastNewline(text);
    return text;
  };
  EXPECT_EQ(dropped("a\n\n"), "a\n");
  EXPECT_EQ(dropped("a\r\n"), "a");
  EXPECT_EQ(dropped("a"), "a");
  EXPECT_EQ(dropped("a\r"), "a\r");
  EXPECT_EQ(dropped(""), "");
}

}  // namespace
}  // namespace thaw::cli
