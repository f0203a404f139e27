#include "kernels/dequantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include "support/paths.h"
#include "tensor/finite_rows.h"
#include "tensor/thawed_grids.h"

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

template <typename Number>
std::vector<float> DequantizeNumbers(ElementType type, const std::vector<Number>& numbers) {
  std::vector<float> out(numbers.size());
  EXPECT_TRUE(Dequantize(type, std::as_bytes(std::span(numbers)), out));
  return out;
}

// The tensors of a GGUF file without hostile intent: one string of metadata, then two-dimensional
// tensors. The real reader is a module of the same level, which this one must not know.
class TinyGguf {
 public:
  struct Tensor {
    ElementType type;
    int64_t elements;
    std::span<const std::byte> data;
  };

  explicit TinyGguf(std::string bytes) : bytes_(std::move(bytes)) {
    at_ = 8;  // magic and version
    const auto n_tensors = Take<uint64_t>();
    at_ += 8;      // one key
    TakeString();  // its name,
    at_ += 4;      // type
    TakeString();  // and value
    std::map<std::string, std::pair<Tensor, uint64_t>> directory;
    for (uint64_t i = 0; i < n_tensors; ++i) {
      const std::string name = TakeString();
      int64_t elements = 1;
      const auto dimensions = Take<uint32_t>();
      for (uint32_t d = 0; d < dimensions; ++d) elements *= Take<int64_t>();
      const auto type = static_cast<ElementType>(Take<uint32_t>());
      directory[name] = {{type, elements, {}}, Take<uint64_t>()};
    }
    const size_t data_begin = (at_ + 31) / 32 * 32;
    for (const auto& [name, entry] : directory) {
      const auto& [tensor, offset] = entry;
      const int64_t size = RowBytes(tensor.type, tensor.elements);
      tensors_[name] = {tensor.type, tensor.elements,
                        AsBytes(bytes_).subspan(data_begin + offset, size)};
    }
  }

  const Tensor& at(const std::string& name) const { return tensors_.at(name); }

 private:
  template <typename T>
  T Take() {
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  std::string TakeString() {
    const auto size = Take<uint64_t>();
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

  std::string bytes_;
  size_t at_ = 0;
  std::map<std::string, Tensor> tensors_;
};

std::vector<std::string> NamesIn(const std::string& folder, const std::string& extension) {
  std::vector<std::string> names;
  std::error_code error;  // a missing folder is no golden at all, which a test below refuses
  for (const auto& entry : std::filesystem::directory_iterator(GoldenDir() / folder, error)) {
    if (entry.path().extension() == extension) names.push_back(entry.path().stem().string());
  }
  std::ranges::sort(names);
  return names;
}

// What FindRowNotFinite says of rows of any bytes is what their values are.
TEST(FindRowNotFiniteTest, FindsTheFirstRowWithAValueThatIsNoNumber) {
  std::mt19937 random(1);
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const bool is_float = info.type == ElementType::kF32 || info.type == ElementType::kF16 ||
                          info.type == ElementType::kBF16;
    // The largest scales of MXFP4 are finite, but not all of their products.
    if ((!is_float && !info.is_quantized) || info.type == ElementType::kMXFP4) continue;
    constexpr int64_t kRows = 12;
    const int64_t k = 2 * info.block_elements;
    for (int round = 0; round < 50; ++round) {
      std::vector<std::byte> rows(static_cast<size_t>(kRows * RowBytes(info.type, k)));
      for (std::byte& byte : rows) byte = static_cast<std::byte>(random());
      std::vector<float> values(static_cast<size_t>(kRows * k));
      ASSERT_TRUE(Dequantize(info.type, rows, values));
      const auto bad = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
      const auto found = FindRowNotFinite(info.type, k, kRows, rows.data());
      ASSERT_EQ(found.has_value(), bad != values.end()) << info.name;
      EXPECT_EQ(found.value_or(-1), found ? (bad - values.begin()) / k : -1) << info.name;
    }
  }
}

// Rows of any bytes with their points looked up, among them infinite and NaN scales.
TEST(ThawedGrids, HaveTheValuesOfTheirPoints) {
  std::mt19937 random(2);
  int grids = 0;
  for (const ElementTypeInfo& info : AllElementTypes()) {
    const ElementType thawed_type = ThawedGridType(info.type);
    if (thawed_type == info.type) continue;
    ++grids;
    const int64_t k = 64 * info.block_elements;
    std::vector<std::byte> row(static_cast<size_t>(RowBytes(info.type, k)));
    for (std::byte& byte : row) byte = static_cast<std::byte>(random());
    std::vector<std::byte> thawed(static_cast<size_t>(RowBytes(thawed_type, k)));
    ThawGridRow(info.type, k, row.data(), thawed.data());
    std::vector<float> expected(static_cast<size_t>(k));
    std::vector<float> values(static_cast<size_t>(k));
    ASSERT_TRUE(Dequantize(info.type, row, expected));
    ASSERT_TRUE(Dequantize(thawed_type, thawed, values));
    EXPECT_EQ(std::memcmp(values.data(), expected.data(), values.size() * sizeof(float)), 0)
        << info.name;
  }
  EXPECT_EQ(grids, 7);
}

// Real blocks: quantized by llama.cpp, with their exact values by gguf-py.
class QuantizedTensorTest : public ::testing::TestWithParam<std::string> {};

TEST_P(QuantizedTensorTest, HasItsExactValues) {
  const TinyGguf file(ReadFile(GoldenDir() / "types" / (GetParam() + ".gguf")));
  const TinyGguf::Tensor& quantized = file.at("quantized");
  EXPECT_EQ(Info(quantized.type).name, GetParam());
  std::vector<float> expected(quantized.elements);
  ASSERT_TRUE(Dequantize(file.at("exact").type, file.at("exact").data, expected));
  std::vector<float> values(quantized.elements);
  ASSERT_TRUE(Dequantize(quantized.type, quantized.data, values));
  EXPECT_EQ(values, expected);
}

INSTANTIATE_TEST_SUITE_P(Types, QuantizedTensorTest, ::testing::ValuesIn(NamesIn("types", ".gguf")),
                         [](const auto& name) { return name.param; });

// Random bytes as blocks, with gguf-py's reading of them (tests/golden/blocks/make.py): fields take
// values that no quantizer writes, among them infinite and NaN scales.
class RandomBlocksTest : public ::testing::TestWithParam<std::string> {};

TEST_P(RandomBlocksTest, HaveTheValuesOfTheReferenceImplementation) {
  const std::filesystem::path folder = GoldenDir() / "blocks";
  const std::string blocks = ReadFile(folder / (GetParam() + ".bin"));
  const std::string floats = ReadFile(folder / (GetParam() + ".f32"));
  const ElementTypeInfo* info = FindElementType(std::string_view(GetParam()));
  ASSERT_NE(info, nullptr);
  std::vector<float> expected(floats.size() / sizeof(float));
  std::memcpy(expected.data(), floats.data(), floats.size());
  std::vector<float> values(expected.size());
  ASSERT_TRUE(Dequantize(info->type, AsBytes(blocks), values));
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isnan(expected[i])) {
      ASSERT_TRUE(std::isnan(values[i])) << i;
    } else {
      ASSERT_EQ(values[i], expected[i]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, RandomBlocksTest, ::testing::ValuesIn(NamesIn("blocks", ".bin")),
                         [](const auto& name) { return name.param; });

TEST(DequantizeTest, GoldensExistForEveryQuantizedTypeOfFiles) {
  const std::vector<std::string> types = NamesIn("types", ".gguf");
  const std::vector<std::string> blocks = NamesIn("blocks", ".bin");
  for (const ElementTypeInfo& info : AllElementTypes()) {
    if (!info.is_quantized || !IsInFiles(info.type)) continue;
    EXPECT_TRUE(std::ranges::count(types, info.name)) << info.name;
    EXPECT_TRUE(std::ranges::count(blocks, info.name)) << info.name;
  }
}

TEST(DequantizeTest, NumbersBecomeTheNearestFloats) {
  EXPECT_THAT(DequantizeNumbers<int8_t>(ElementType::kI8, {-128, 0, 127}),
              ElementsAre(-128.0f, 0.0f, 127.0f));
  EXPECT_THAT(DequantizeNumbers<int16_t>(ElementType::kI16, {-32768, 32767}),
              ElementsAre(-32768.0f, 32767.0f));
  EXPECT_THAT(DequantizeNumbers<int32_t>(ElementType::kI32, {(1 << 24) + 1, -5}),
              ElementsAre(16777216.0f, -5.0f));
  EXPECT_THAT(DequantizeNumbers<int64_t>(ElementType::kI64, {INT64_MAX, INT64_MIN}),
              ElementsAre(0x1p63f, -0x1p63f));
  EXPECT_THAT(DequantizeNumbers<double>(ElementType::kF64, {0.1, 1e300}),
              ElementsAre(0.1f, std::numeric_limits<float>::infinity()));
  EXPECT_THAT(DequantizeNumbers<float>(ElementType::kF32, {0.1f, -3e38f}),
              ElementsAre(0.1f, -3e38f));
  EXPECT_THAT(DequantizeNumbers<uint16_t>(ElementType::kF16, {0x3c00, 0x0001, 0xfbff}),
              ElementsAre(1.0f, 0x1p-24f, -65504.0f));
  EXPECT_THAT(DequantizeNumbers<uint16_t>(ElementType::kBF16, {0x3f80, 0xc040}),
              ElementsAre(1.0f, -3.0f));
}

TEST(DequantizeTest, EveryTypeReadsRowsAtAnyAlignment) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    std::vector<std::byte> bytes(1 + info.block_bytes, std::byte{0x2c});
    std::vector<float> aligned(info.block_elements), moved(info.block_elements);
    ASSERT_TRUE(Dequantize(info.type, std::span(bytes).first(info.block_bytes), aligned));
    ASSERT_TRUE(Dequantize(info.type, std::span(bytes).subspan(1), moved));
    EXPECT_EQ(aligned, moved) << info.name;
  }
}

TEST(DequantizeTest, NothingIsDequantizedToNothing) {
  for (const ElementTypeInfo& info : AllElementTypes()) {
    EXPECT_TRUE(Dequantize(info.type, {}, {})) << info.name;
  }
}

TEST(DequantizeTest, RefusesPartBlocksAndWrongSizesWithoutWriting) {
  std::vector<std::byte> bytes(36);
  std::vector<float> out(33, 7.0f);
  EXPECT_THAT(Dequantize(ElementType::kQ4_0, bytes, out).error().message,
              HasSubstr("33 elements of type Q4_0, expected a multiple of 32"));
  EXPECT_THAT(Dequantize(ElementType::kQ4_0, bytes, std::span(out).first(32)).error().message,
              HasSubstr("32 elements of type Q4_0 in 36 bytes, expected 18"));
  EXPECT_THAT(out, ::testing::Each(7.0f));
}

}  // namespace
}  // namespace thaw
