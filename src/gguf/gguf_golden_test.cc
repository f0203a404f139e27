// Reads tests/golden/gguf/every_type.gguf, which gguf-py wrote (make_every_type.py beside it), and
// the files that the fuzzer starts from.
#include <gmock/gmock.h>

#include <filesystem>
#include <limits>
#include <optional>

#include "gguf/gguf_file.h"
#include "support/paths.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;

class GoldenGguf : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = GgufFile::Open((GoldenDir() / "gguf" / "every_type.gguf").string());
    ASSERT_TRUE(opened) << opened.error().message;
    model_.emplace(*std::move(opened));
  }

  GgufType TypeOf(std::string_view key) const { return model_->Find(key)->type; }

  std::optional<GgufFile> model_;
};

TEST_F(GoldenGguf, HasTheFieldsInTheOrderTheyWereWritten) {
  EXPECT_EQ(model_->version(), 3);
  EXPECT_EQ(model_->alignment(), 32u);
  ASSERT_EQ(model_->fields().size(), 28u);
  EXPECT_EQ(model_->fields().front().key, "general.architecture");
  EXPECT_EQ(model_->fields().back().key, "test.nested");
}

TEST_F(GoldenGguf, HasIntegersOfEveryWidth) {
  EXPECT_EQ(*model_->GetUint("test.uint8"), 200u);
  EXPECT_EQ(*model_->GetInt("test.int8"), -100);
  EXPECT_EQ(*model_->GetUint("test.uint16"), 60000u);
  EXPECT_EQ(*model_->GetInt("test.int16"), -30000);
  EXPECT_EQ(*model_->GetUint("test.uint32"), 4000000000u);
  EXPECT_EQ(*model_->GetInt("test.int32"), -2000000000);
  EXPECT_EQ(*model_->GetUint("test.uint64"), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(*model_->GetInt("test.int64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(TypeOf("test.uint8"), GgufType::kUint8);
  EXPECT_EQ(TypeOf("test.int64"), GgufType::kInt64);
}

TEST_F(GoldenGguf, HasFloatsBoolsAndStrings) {
  EXPECT_EQ(*model_->GetFloat("test.float32"), static_cast<double>(0.1f));
  EXPECT_EQ(*model_->GetFloat("test.float64"), 1e300);
  EXPECT_TRUE(*model_->GetBool("test.bool_true"));
  EXPECT_FALSE(*model_->GetBool("test.bool_false"));
  EXPECT_EQ(*model_->GetString("test.string"), "grüß dich, 世界");
  EXPECT_EQ(*model_->GetString("general.architecture"), "llama");
}

TEST_F(GoldenGguf, HasArraysOfEveryType) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(*model_->ReadInts("test.uint8s"), ElementsAre(0, 255));
  EXPECT_THAT(*model_->ReadInts("test.int8s"), ElementsAre(-128, 127));
  EXPECT_THAT(*model_->ReadInts("test.uint16s"), ElementsAre(0, 65535));
  EXPECT_THAT(*model_->ReadInts("test.int16s"), ElementsAre(-32768, 32767));
  EXPECT_THAT(*model_->ReadInts("test.uint32s"), ElementsAre(0, 4294967295));
  EXPECT_THAT(*model_->ReadInts("test.int32s"), ElementsAre(-2147483648, 2147483647));
  EXPECT_THAT(*model_->ReadInts("test.uint64s"), ElementsAre(0, kMax));
  EXPECT_THAT(*model_->ReadInts("test.int64s"), ElementsAre(kMin, kMax));
  EXPECT_THAT(*model_->ReadInts("test.bools"), ElementsAre(1, 0, 1));
  EXPECT_THAT(*model_->ReadFloats("test.float32s"), ElementsAre(0.5f, -1.25f, 3e38f));
  EXPECT_THAT(*model_->ReadFloats("test.float64s"), ElementsAre(0.25f, -1e10f));
  EXPECT_THAT(*model_->ReadStrings("test.strings"), ElementsAre("a", "", "ß", "世界"));
  EXPECT_THAT(*model_->ReadStrings("test.raw_strings"), ElementsAre("\xff\xfe", "ok"));
}

TEST_F(GoldenGguf, HasArraysInsideArrays) {
  const auto inner = model_->ReadArrays("test.nested");
  ASSERT_TRUE(inner) << inner.error().message;
  ASSERT_EQ(inner->size(), 2u);
  EXPECT_THAT(*model_->ReadInts((*inner)[0], "test.nested"), ElementsAre(1, 2, 3));
  EXPECT_THAT(*model_->ReadInts((*inner)[1], "test.nested"), ElementsAre(4));
}

TEST_F(GoldenGguf, HasTensorsWithTheirData) {
  ASSERT_EQ(model_->tensors().size(), 4u);
  const TensorInfo* tensor = model_->FindTensor("i32");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->type, ElementType::kI32);
  EXPECT_EQ(tensor->n_dims, 3);
  std::array<int32_t, 3> values = {};
  const auto read = model_->ReadTensor(*tensor, 4, std::as_writable_bytes(std::span(values)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(values, ElementsAre(1, 2, 3));

  const TensorInfo* quantized = model_->FindTensor("q8_0");
  ASSERT_NE(quantized, nullptr);
  EXPECT_EQ(quantized->type, ElementType::kQ8_0);
  EXPECT_THAT(quantized->dims, ElementsAre(32, 2, 1, 1));
  EXPECT_EQ(quantized->bytes, 68u);
  std::array<std::byte, 68> blocks = {};
  ASSERT_TRUE(model_->ReadTensor(*quantized, 0, blocks));
  EXPECT_EQ(blocks[2], std::byte{0x81});  // -127: the first row begins with its largest value, -1
}

// The names of the fuzzer's files say which of them are well formed.
TEST(GgufCorpus, IsJudgedAsItsFileNamesSay) {
  const auto corpus = std::filesystem::path(THAW_SOURCE_DIR) / "tests" / "corpus" / "gguf";
  int valid_count = 0;
  int bad_count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
    const std::string path = entry.path().string();
    const std::string name = entry.path().filename().string();
    const auto model = GgufFile::Open(path);
    EXPECT_EQ(model.has_value(), name.starts_with("valid_")) << name;
    if (!model) {
      EXPECT_TRUE(model.error().message.starts_with(path + ": ")) << model.error().message;
    }
    ++(model ? valid_count : bad_count);
  }
  EXPECT_GE(valid_count, 6);
  EXPECT_GE(bad_count, 30);
}

}  // namespace
}  // namespace thaw
