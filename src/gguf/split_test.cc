// Models in several files.
#include <gmock/gmock.h>

#include <filesystem>

#include "gguf/directory_bytes.h"
#include "gguf/gguf_file.h"
#include "gguf/split_name.h"
#include "io/memory_file.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A part with one tensor of 2 floats, `value` and `value` + 1, in the field types of gguf-split.
std::string Part(uint16_t index, uint16_t count, int32_t tensor_count, std::string_view tensor,
                 float value) {
  DirectoryBytes bytes;
  bytes.Header(1, 4).Key("split.no", GgufType::kUint16).Number(index);
  bytes.Key("split.count", GgufType::kUint16).Number(count);
  bytes.Key("split.tensors.count", GgufType::kInt32).Number(tensor_count);
  bytes.Key("general.name", GgufType::kString).String(fmt::format("part {}", index));
  bytes.Tensor(tensor, {2}, 0).PadTo(32).Number(value).Number(value + 1);
  return bytes.text;
}

class SplitModel : public ::testing::Test {
 protected:
  void SetUp() override {
    first_ = dir_.Write("m-00001-of-00003.gguf", Part(0, 3, 3, "a", 10));
    second_ = dir_.Write("m-00002-of-00003.gguf", Part(1, 3, 3, "b", 20));
    third_ = dir_.Write("m-00003-of-00003.gguf", Part(2, 3, 3, "c", 30));
  }

  std::string MessageOfOpening(const std::string& path) const {
    const auto model = GgufFile::Open(path);
    EXPECT_FALSE(model);
    return model ? "" : model.error().message;
  }

  TemporaryDirectory dir_;
  std::string first_, second_, third_;
};

TEST_F(SplitModel, IsOpenedByItsFirstPart) {
  const auto model = GgufFile::Open(first_);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->path(), first_);
  ASSERT_EQ(model->file_count(), 3);
  EXPECT_EQ(model->file(2)->path(), third_);
  EXPECT_EQ(*model->GetString("general.name"), "part 0");
  ASSERT_EQ(model->tensors().size(), 3u);
  for (int part = 0; part < 3; ++part) {
    const TensorInfo* tensor = model->FindTensor(std::string(1, static_cast<char>('a' + part)));
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->file_index, part);
    std::array<float, 2> values = {};
    ASSERT_TRUE(model->ReadTensor(*tensor, 0, std::as_writable_bytes(std::span(values))));
    EXPECT_THAT(values, ElementsAre(10.0f * (part + 1), 10.0f * (part + 1) + 1));
  }
}

TEST_F(SplitModel, PointsToItsFirstPartWhenALaterOneIsOpened) {
  EXPECT_EQ(MessageOfOpening(second_),
            second_ + ": this is part 2 of 3 of a split model: open its first part, " + first_);
}

TEST_F(SplitModel, NamesTheMissingPart) {
  std::filesystem::remove(third_);
  const auto model = GgufFile::Open(first_);
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(model.error().message,
            "part 3 of the 3 of " + first_ + ": " + third_ + ": no such file");
}

TEST_F(SplitModel, NamesTheBrokenPart) {
  dir_.Write("m-00002-of-00003.gguf", "GGUF and nothing else");
  EXPECT_THAT(MessageOfOpening(first_), HasSubstr(second_ + ": the header: "));
}

TEST_F(SplitModel, RefusesAPartOfAnotherPlaceOrModel) {
  dir_.Write("m-00002-of-00003.gguf", Part(2, 3, 3, "b", 20));
  EXPECT_EQ(MessageOfOpening(first_),
            second_ + ": its fields say part 3 of 3, its name and the first part say 2 of 3");
  dir_.Write("m-00002-of-00003.gguf", Part(1, 4, 3, "b", 20));
  EXPECT_EQ(MessageOfOpening(first_),
            second_ + ": its fields say part 2 of 4, its name and the first part say 2 of 3");
}

TEST_F(SplitModel, RefusesAPartThatIsAWholeModel) {
  dir_.Write("m-00002-of-00003.gguf", DirectoryBytes().Header(0, 0).text);
  EXPECT_EQ(MessageOfOpening(first_),
            second_ + ": field \"split.no\" is missing, an unsigned integer is expected");
}

TEST_F(SplitModel, RefusesAWrongNumberOfTensors) {
  dir_.Write("m-00001-of-00003.gguf", Part(0, 3, 4, "a", 10));
  EXPECT_EQ(MessageOfOpening(first_),
            first_ + ": field \"split.tensors.count\" is 4, the 3 parts have 3 tensors");
}

TEST_F(SplitModel, RefusesOneTensorInTwoParts) {
  dir_.Write("m-00003-of-00003.gguf", Part(2, 3, 3, "a", 30));
  EXPECT_THAT(MessageOfOpening(first_),
              HasSubstr(third_ + ": tensor \"a\": there are two of this name"));
}

TEST_F(SplitModel, NeedsTheNameThatItsPartsAreFoundBy) {
  const std::string renamed = dir_.PathOf("renamed.gguf");
  std::filesystem::rename(first_, renamed);
  EXPECT_EQ(MessageOfOpening(renamed),
            renamed +
                ": part 1 of 3 of a split model must be named NAME-00001-of-00003.gguf, so "
                "that the other parts can be found");
}

TEST_F(SplitModel, RefusesAPartBeyondTheCount) {
  const std::string path = dir_.Write("n-00001-of-00003.gguf", Part(3, 3, 3, "a", 10));
  EXPECT_EQ(MessageOfOpening(path),
            path +
                ": field \"split.no\" is 3 and \"split.count\" is 3: a part below the count, "
                "which is at most 65535, is expected");
}

TEST_F(SplitModel, CannotBeOpenedAsOneFile) {
  const auto model =
      GgufFile::Open(std::make_shared<MemoryFile>("part.gguf", Part(0, 3, 3, "a", 10)));
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().message,
            "part.gguf: this is one of the 3 parts of a split model, a whole model is expected");
}

TEST_F(SplitModel, OfOnePartNeedsNoName) {
  const auto model = GgufFile::Open(dir_.Write("single.gguf", Part(0, 1, 1, "a", 10)));
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->file_count(), 1);
}

TEST(SplitName, CountsPartsFromOneInFiveDigits) {
  EXPECT_EQ(SplitPartPath("dir/model", 1, 12), "dir/model-00002-of-00012.gguf");
  EXPECT_EQ(SplitPrefix("dir/model-00002-of-00012.gguf", 1, 12), "dir/model");
  EXPECT_EQ(SplitPrefix("dir/model-00002-of-00012.gguf", 2, 12), std::nullopt);
  EXPECT_EQ(SplitPrefix("-00001-of-00002.gguf", 0, 2), std::nullopt);
}

}  // namespace
}  // namespace thaw
