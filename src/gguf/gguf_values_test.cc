#include <gmock/gmock.h>

#include <limits>
#include <optional>

#include "gguf/directory_bytes.h"
#include "gguf/gguf_file.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;

class GgufValues : public ::testing::Test {
 protected:
  void SetUp() override {
    DirectoryBytes bytes;
    bytes.Header(0, 15);
    bytes.Key("u8", GgufType::kUint8).Number<uint8_t>(5);
    bytes.Key("i16", GgufType::kInt16).Number<int16_t>(5);
    bytes.Key("negative", GgufType::kInt32).Number<int32_t>(-5);
    bytes.Key("huge", GgufType::kUint64).Number(std::numeric_limits<uint64_t>::max());
    bytes.Key("f32", GgufType::kFloat32).Number(0.5f);
    bytes.Key("f64", GgufType::kFloat64).Number(1e-5);
    bytes.Key("flag", GgufType::kBool).Number<uint8_t>(1);
    bytes.Key("text", GgufType::kString).String("hello");
    bytes.Key("empty", GgufType::kString).String("");
    bytes.Key("ints", GgufType::kArray).ArrayHead(GgufType::kInt16, 2);
    bytes.Number<int16_t>(-1).Number<int16_t>(2);
    bytes.Key("huges", GgufType::kArray).ArrayHead(GgufType::kUint64, 2);
    bytes.Number<uint64_t>(1).Number(std::numeric_limits<uint64_t>::max());
    bytes.Key("floats", GgufType::kArray).ArrayHead(GgufType::kFloat32, 1).Number(2.5f);
    bytes.Key("bools", GgufType::kArray).ArrayHead(GgufType::kBool, 2).Number<uint16_t>(0x0301);
    bytes.Key("strings", GgufType::kArray).ArrayHead(GgufType::kString, 2).String("x").String("");
    bytes.Key("nothing", GgufType::kArray).ArrayHead(GgufType::kString, 0);
    auto opened = GgufFile::Open(std::make_shared<MemoryFile>("m.gguf", bytes.text));
    ASSERT_TRUE(opened) << opened.error().message;
    model_.emplace(*std::move(opened));
  }

  std::optional<GgufFile> model_;
};

TEST_F(GgufValues, IntegersOfEveryWidthStandForEachOtherWhileTheyFit) {
  EXPECT_EQ(*model_->GetUint("u8"), 5u);
  EXPECT_EQ(*model_->GetUint("i16"), 5u);
  EXPECT_EQ(*model_->GetInt("u8"), 5);
  EXPECT_EQ(*model_->GetInt("negative"), -5);
  EXPECT_EQ(model_->GetUint("negative").error().message,
            "m.gguf: field \"negative\" is the int32 -5, an unsigned integer is expected");
  EXPECT_EQ(model_->GetInt("huge").error().message,
            "m.gguf: field \"huge\" is the uint64 18446744073709551615, an integer of 64 bits with "
            "sign is expected");
}

TEST_F(GgufValues, FloatsMayBeStoredAsAnyNumber) {
  EXPECT_EQ(*model_->GetFloat("f32"), 0.5);
  EXPECT_EQ(*model_->GetFloat("f64"), 1e-5);
  EXPECT_EQ(*model_->GetFloat("u8"), 5.0);
  EXPECT_EQ(*model_->GetFloat("negative"), -5.0);
  EXPECT_EQ(model_->GetFloat("flag").error().message,
            "m.gguf: field \"flag\" is of type bool, a number is expected");
}

TEST_F(GgufValues, AFloatIsNoInteger) {
  EXPECT_EQ(model_->GetUint("f32").error().message,
            "m.gguf: field \"f32\" is the float32 0.5, an unsigned integer is expected");
}

TEST_F(GgufValues, BoolsAndStringsAreOfTheirOwnTypeAlone) {
  EXPECT_TRUE(*model_->GetBool("flag"));
  EXPECT_EQ(*model_->GetString("text"), "hello");
  EXPECT_EQ(*model_->GetString("empty"), "");
  EXPECT_EQ(model_->GetBool("u8").error().message,
            "m.gguf: field \"u8\" is the uint8 5, a bool is expected");
  EXPECT_EQ(model_->GetString("strings").error().message,
            "m.gguf: field \"strings\" is of type array of string, a string is expected");
}

TEST_F(GgufValues, AMissingFieldIsNamedWithWhatItShouldBe) {
  const auto value = model_->GetUint("llama.block_count");
  ASSERT_FALSE(value);
  EXPECT_EQ(value.error().code, ErrorCode::kNotFound);
  EXPECT_EQ(value.error().message,
            "m.gguf: field \"llama.block_count\" is missing, an unsigned integer is expected");
  EXPECT_EQ(model_->ReadStrings("tokens").error().message,
            "m.gguf: field \"tokens\" is missing, an array is expected");
}

TEST_F(GgufValues, ADefaultStandsForAMissingFieldButNotForAWrongOne) {
  EXPECT_EQ(*model_->GetUintOr("none", 7), 7u);
  EXPECT_EQ(*model_->GetIntOr("none", -7), -7);
  EXPECT_EQ(*model_->GetFloatOr("none", 0.25), 0.25);
  EXPECT_TRUE(*model_->GetBoolOr("none", true));
  EXPECT_EQ(*model_->GetStringOr("none", "default"), "default");
  EXPECT_EQ(*model_->GetUintOr("u8", 7), 5u);
  EXPECT_EQ(*model_->GetStringOr("text", "default"), "hello");
  EXPECT_FALSE(model_->GetUintOr("text", 7));
  EXPECT_FALSE(model_->GetIntOr("text", 7));
  EXPECT_FALSE(model_->GetFloatOr("text", 7));
  EXPECT_FALSE(model_->GetBoolOr("text", true));
  EXPECT_FALSE(model_->GetStringOr("u8", "default"));
}

TEST_F(GgufValues, ArraysAreReadWhenAskedFor) {
  EXPECT_THAT(*model_->ReadInts("ints"), ElementsAre(-1, 2));
  EXPECT_THAT(*model_->ReadFloats("ints"), ElementsAre(-1.0f, 2.0f));
  EXPECT_THAT(*model_->ReadFloats("floats"), ElementsAre(2.5f));
  EXPECT_THAT(*model_->ReadStrings("strings"), ElementsAre("x", ""));
  EXPECT_TRUE(model_->ReadStrings("nothing")->empty());
}

TEST_F(GgufValues, ArraysOfAnotherTypeAreRefused) {
  EXPECT_EQ(model_->ReadInts("floats").error().message,
            "m.gguf: field \"floats\" is an array of float32, an array of integers is expected");
  EXPECT_EQ(model_->ReadFloats("strings").error().message,
            "m.gguf: field \"strings\" is an array of string, an array of numbers is expected");
  EXPECT_EQ(model_->ReadStrings("ints").error().message,
            "m.gguf: field \"ints\" is an array of int16, an array of string is expected");
  EXPECT_EQ(model_->ReadArrays("ints").error().message,
            "m.gguf: field \"ints\" is an array of int16, an array of arrays is expected");
  EXPECT_EQ(model_->ReadInts("u8").error().message,
            "m.gguf: field \"u8\" is the uint8 5, an array is expected");
}

TEST_F(GgufValues, AnElementThatDoesNotFitIsNamed) {
  EXPECT_THAT(model_->ReadInts("huges").error().message,
              ::testing::MatchesRegex("m.gguf: field \"huges\": element 1 at offset [0-9]+ is "
                                      "18446744073709551615, at most 2\\^63 - 1 is expected"));
  EXPECT_THAT(model_->ReadInts("bools").error().message,
              ::testing::MatchesRegex("m.gguf: field \"bools\": the bool of element 1 at offset "
                                      "[0-9]+ is 3, 0 or 1 is expected"));
}

TEST_F(GgufValues, RawValuesAreTheBytesOfTheFile) {
  const auto bytes = model_->ReadRawValue(*model_->Find("i16"));
  ASSERT_TRUE(bytes);
  EXPECT_THAT(*bytes, ElementsAre(std::byte{5}, std::byte{0}));
  EXPECT_EQ(model_->ReadRawValue(*model_->Find("text"))->size(), 8u + 5);
}

TEST(GgufLargeValues, AreNotReadIntoMemory) {
  DirectoryBytes bytes;
  bytes.Header(0, 1)
      .Key("scores", GgufType::kArray)
      .ArrayHead(GgufType::kUint8, kMaxValueBytes + 1);
  bytes.Data(kMaxValueBytes + 1);
  const auto model = GgufFile::Open(std::make_shared<MemoryFile>("m.gguf", bytes.text));
  ASSERT_TRUE(model);
  const auto values = model->ReadInts("scores");
  ASSERT_FALSE(values);
  EXPECT_EQ(values.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(values.error().message,
            "m.gguf: field \"scores\": its array has 67108865 bytes, at most 67108864 are read "
            "into memory");
  EXPECT_EQ(model->ReadRawValue(model->fields()[0]).error().code, ErrorCode::kResourceExhausted);
}

}  // namespace
}  // namespace thaw
