#include "gguf/gguf_writer.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <limits>

#include "io/temporary_directory.h"
#include "support/paths.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::span<const std::byte> AsBytes(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}

class Writing : public ::testing::Test {
 protected:
  GgufWriter Create(uint32_t alignment = kDefaultAlignment) {
    auto writer = GgufWriter::Create(path_, alignment);
    THAW_CHECK(writer.has_value());
    return *std::move(writer);
  }

  GgufFile Open() {
    auto model = GgufFile::Open(path_);
    EXPECT_TRUE(model) << model.error().message;
    THAW_CHECK(model.has_value());
    return *std::move(model);
  }

  TemporaryDirectory dir_;
  std::string path_ = dir_.PathOf("out.gguf");
};

template <typename T>
void SetLimits(GgufWriter& writer, const std::string& key) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> both = {Limits::lowest(), Limits::max()};
  EXPECT_TRUE(writer.SetNumber<T>(key, Limits::lowest()));
  EXPECT_TRUE(writer.SetNumbers<T>(key + "s", both));
}

TEST_F(Writing, IntegersOfEveryWidthComeBack) {
  GgufWriter writer = Create();
  SetLimits<uint8_t>(writer, "uint8");
  SetLimits<int8_t>(writer, "int8");
  SetLimits<uint16_t>(writer, "uint16");
  SetLimits<int16_t>(writer, "int16");
  SetLimits<uint32_t>(writer, "uint32");
  SetLimits<int32_t>(writer, "int32");
  SetLimits<int64_t>(writer, "int64");
  ASSERT_TRUE(writer.SetNumber<uint64_t>("uint64", std::numeric_limits<uint64_t>::max()));
  ASSERT_TRUE(writer.Commit());

  const GgufFile model = Open();
  for (const char* key : {"uint8", "int8", "uint16", "int16", "uint32", "int32", "int64"}) {
    EXPECT_EQ(model.Find(key)->TypeName(), key);
    EXPECT_EQ(model.Find(std::string(key) + "s")->TypeName(), std::string("array of ") + key);
  }
  EXPECT_EQ(*model.GetInt("int8"), -128);
  EXPECT_EQ(*model.GetInt("int64"), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(*model.GetUint("uint64"), std::numeric_limits<uint64_t>::max());
  EXPECT_THAT(*model.ReadInts("uint16s"), ElementsAre(0, 65535));
  EXPECT_THAT(*model.ReadInts("int32s"), ElementsAre(-2147483648, 2147483647));
}

TEST_F(Writing, FloatsBoolsStringsAndNestedArraysComeBack) {
  const std::vector<float> floats = {0.1f, -3e38f};
  const std::array<bool, 3> bools = {true, false, true};
  const std::vector<std::string> strings = {"a", "", "\xff raw"};
  const std::vector<int32_t> first = {1, 2};
  const std::vector<int32_t> second = {};
  const std::vector<std::span<const int32_t>> nested = {first, second};
  GgufWriter writer = Create();
  ASSERT_TRUE(writer.SetNumber<float>("f", 0.1f));
  ASSERT_TRUE(writer.SetNumber<double>("d", 1e300));
  ASSERT_TRUE(writer.SetNumber<bool>("b", true));
  ASSERT_TRUE(writer.SetString("s", "grüß dich"));
  ASSERT_TRUE(writer.SetNumbers<float>("fs", floats));
  ASSERT_TRUE(writer.SetNumbers<bool>("bs", bools));
  ASSERT_TRUE(writer.SetStrings("ss", strings));
  ASSERT_TRUE(writer.SetNumberArrays<int32_t>("nested", nested));
  ASSERT_TRUE(writer.Commit());

  const GgufFile model = Open();
  EXPECT_EQ(*model.GetFloat("f"), static_cast<double>(0.1f));
  EXPECT_EQ(*model.GetFloat("d"), 1e300);
  EXPECT_TRUE(*model.GetBool("b"));
  EXPECT_EQ(*model.GetString("s"), "grüß dich");
  EXPECT_EQ(*model.ReadFloats("fs"), floats);
  EXPECT_THAT(*model.ReadInts("bs"), ElementsAre(1, 0, 1));
  EXPECT_EQ(*model.ReadStrings("ss"), strings);
  const auto arrays = model.ReadArrays("nested");
  ASSERT_EQ(arrays->size(), 2u);
  EXPECT_THAT(*model.ReadInts((*arrays)[0], "nested"), ElementsAre(1, 2));
  EXPECT_TRUE(model.ReadInts((*arrays)[1], "nested")->empty());
}

TEST_F(Writing, TensorsComeBackAtEveryAlignment) {
  const std::vector<float> a = {1, 2, 3};
  const std::vector<float> b = {4, 5, 6, 7, 8, 9};
  for (const uint32_t alignment : {1u, 8u, 32u, 4096u}) {
    GgufWriter writer = Create(alignment);
    ASSERT_TRUE(writer.AddTensor("a", ElementType::kF32, std::array<int64_t, 1>{3}));
    ASSERT_TRUE(writer.AddTensor("none", ElementType::kF32, std::array<int64_t, 2>{3, 0}));
    ASSERT_TRUE(writer.AddTensor("b", ElementType::kF32, std::array<int64_t, 2>{2, 3}));
    ASSERT_TRUE(writer.AppendData(AsBytes(a)));
    ASSERT_TRUE(writer.AppendData(AsBytes(b).first(5)));
    ASSERT_TRUE(writer.AppendData(AsBytes(b).subspan(5)));
    ASSERT_TRUE(writer.Commit());

    const GgufFile model = Open();
    EXPECT_EQ(model.alignment(), alignment);
    EXPECT_EQ(model.file(0)->size() % alignment, 0u);
    ASSERT_EQ(model.tensors().size(), 3u);
    const TensorInfo* tensor = model.FindTensor("b");
    EXPECT_THAT(tensor->dims, ElementsAre(2, 3, 1, 1));
    std::vector<float> read(6);
    ASSERT_TRUE(model.ReadTensor(*tensor, 0, std::as_writable_bytes(std::span(read))));
    EXPECT_EQ(read, b);
  }
}

TEST_F(Writing, CopiesTheFieldsOfAnotherFile) {
  const auto source = GgufFile::Open((GoldenDir() / "gguf" / "every_type.gguf").string());
  ASSERT_TRUE(source) << source.error().message;
  GgufWriter writer = Create(64);
  ASSERT_TRUE(writer.CopyFields(*source));
  ASSERT_TRUE(writer.Commit());
  const GgufFile copy = Open();
  ASSERT_EQ(copy.fields().size(), source->fields().size() + 1);  // general.alignment
  for (const GgufField& field : source->fields()) {
    const GgufField* twin = copy.Find(field.key);
    ASSERT_NE(twin, nullptr) << field.key;
    EXPECT_EQ(twin->TypeName(), field.TypeName());
    EXPECT_EQ(*copy.ReadRawValue(*twin), *source->ReadRawValue(field));
  }
}

TEST_F(Writing, LeavesTheLayoutOfTheSourceBehind) {
  const std::string source_path = dir_.PathOf("source.gguf");
  {
    auto source = GgufWriter::Create(source_path, 64);
    ASSERT_TRUE(source);
    ASSERT_TRUE(source->SetNumber<uint16_t>("split.count", 1));
    ASSERT_TRUE(source->SetString("general.name", "kept"));
    ASSERT_TRUE(source->Commit());
  }
  const auto source = GgufFile::Open(source_path);
  ASSERT_TRUE(source);
  GgufWriter writer = Create();
  ASSERT_TRUE(writer.CopyFields(*source));
  ASSERT_TRUE(writer.Commit());
  const GgufFile copy = Open();
  ASSERT_EQ(copy.fields().size(), 1u);
  EXPECT_EQ(copy.fields()[0].key, "general.name");
  EXPECT_EQ(copy.alignment(), 32u);
}

TEST_F(Writing, LeavesNothingWithoutACommit) {
  {
    GgufWriter writer = Create();
    ASSERT_TRUE(writer.AddTensor("a", ElementType::kF32, std::array<int64_t, 1>{1}));
    ASSERT_TRUE(writer.AppendData(AsBytes({1.0f})));
  }
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(Writing, RefusesToCommitIncompleteData) {
  GgufWriter writer = Create();
  ASSERT_TRUE(writer.AddTensor("a", ElementType::kF32, std::array<int64_t, 1>{2}));
  ASSERT_TRUE(writer.AppendData(AsBytes({1.0f})));
  EXPECT_EQ(writer.Commit().error().message, path_ + ": tensor \"a\": 4 of its 8 bytes were given");
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(Writing, RefusesMoreDataThanDeclared) {
  GgufWriter writer = Create();
  ASSERT_TRUE(writer.AddTensor("a", ElementType::kF32, std::array<int64_t, 1>{2}));
  EXPECT_EQ(writer.AppendData(AsBytes({1.0f, 2.0f, 3.0f})).error().message,
            path_ + ": tensor \"a\": 12 bytes are given where 8 of its 8 are missing");
  ASSERT_TRUE(writer.AppendData(AsBytes({1.0f, 2.0f})));
  EXPECT_EQ(writer.AppendData(AsBytes({3.0f})).error().message,
            path_ + ": 4 bytes more than its 1 tensors have");
}

TEST_F(Writing, RefusesNamesThatTheReaderWouldRefuse) {
  GgufWriter writer = Create();
  const std::array<int64_t, 1> dims = {1};
  EXPECT_THAT(writer.SetNumber<bool>("", true).error().message, HasSubstr("a key is empty"));
  EXPECT_THAT(writer.SetString("\xff", "").error().message, HasSubstr("is not valid UTF-8"));
  EXPECT_THAT(writer.SetString("s", "\xff").error().message,
              HasSubstr("expected to be valid UTF-8"));
  EXPECT_THAT(writer.SetString(std::string(65536, 'k'), "").error().message,
              HasSubstr("is 65536 bytes long, at most 65535 are allowed"));
  EXPECT_THAT(writer.AddTensor(std::string(65, 'n'), ElementType::kF32, dims).error().message,
              HasSubstr("is 65 bytes long, at most 64 are allowed"));
  ASSERT_TRUE(writer.SetString("key", ""));
  EXPECT_EQ(writer.SetString("key", "").error().message, path_ + ": field \"key\" is set already");
  EXPECT_EQ(writer.SetNumber<uint32_t>("general.alignment", 64).error().message,
            path_ + ": field \"general.alignment\" is set already");
  ASSERT_TRUE(writer.AddTensor("a", ElementType::kF32, dims));
  EXPECT_EQ(writer.AddTensor("a", ElementType::kF32, dims).error().message,
            path_ + ": tensor \"a\" is declared already");
}

TEST_F(Writing, RefusesShapesThatTheReaderWouldRefuse) {
  GgufWriter writer = Create();
  EXPECT_EQ(writer.AddTensor("a", ElementType::kQ4_0, std::array<int64_t, 1>{33}).error().message,
            path_ +
                ": tensor \"a\": a row has 33 elements, a multiple of 32 (a block of Q4_0) is "
                "expected");
  EXPECT_THAT(writer.AddTensor("a", ElementType::kF32, std::array<int64_t, 5>{1, 1, 1, 1, 1})
                  .error()
                  .message,
              HasSubstr("has 5 dimensions, at most 4 are allowed"));
}

TEST_F(Writing, RefusesAnAlignmentThatIsNoPowerOfTwo) {
  EXPECT_EQ(GgufWriter::Create(path_, 24).error().message,
            path_ + ": the alignment is 24, a power of two is expected");
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

}  // namespace
}  // namespace thaw
