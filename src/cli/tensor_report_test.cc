#include "cli/tensor_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <limits>

#include "base/interrupt.h"
#include "cli/npy_writer.h"
#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::ElementsAre;

class TensorReportTest : public testing::Test {
 protected:
  // A file with the one tensor "t".
  template <typename T>
  GgufFile Write(ElementType type, std::vector<int64_t> dims, const std::vector<T>& values) {
    const std::string path = folder_.PathOf("t.gguf");
    auto writer = GgufWriter::Create(path);
    EXPECT_TRUE(writer && writer->AddTensor("t", type, dims) &&
                writer->AppendData(std::as_bytes(std::span(values))) && writer->Commit());
    auto file = GgufFile::Open(path);
    EXPECT_TRUE(file) << file.error().message;
    return *std::move(file);
  }

  TemporaryDirectory folder_;
};

TEST_F(TensorReportTest, TurnsDimensionsRoundForNumpy) {
  const GgufFile file = Write<float>(ElementType::kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_THAT(NumpyShape(*file.FindTensor("t")), ElementsAre(2, 3));
  EXPECT_EQ(ShapeText(file.FindTensor("t")->extents()), "[3, 2]");
}

TEST_F(TensorReportTest, SumsUpElements) {
  const GgufFile file = Write<float>(ElementType::kF32, {4}, {-3, 0, 4, 1});
  const auto summary = ReadTensorElements(file, *file.FindTensor("t"), "");
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->elements, 4);
  EXPECT_EQ(summary->zeros, 1);
  EXPECT_EQ(summary->not_finite, 0);
  EXPECT_EQ(summary->min, -3);
  EXPECT_EQ(summary->max, 4);
  EXPECT_EQ(summary->mean, 0.5);
  EXPECT_EQ(summary->rms, std::sqrt(26.0 / 4));
  EXPECT_THAT(summary->first, ElementsAre(-3, 0, 4, 1));
}

TEST_F(TensorReportTest, CountsWhatIsNotFiniteAndLeavesItOut) {
  const GgufFile file = Write<float>(
      ElementType::kF32, {3},
      {std::numeric_limits<float>::quiet_NaN(), 2, -std::numeric_limits<float>::infinity()});
  const auto summary = ReadTensorElements(file, *file.FindTensor("t"), "");
  ASSERT_TRUE(summary);
  EXPECT_EQ(summary->not_finite, 2);
  EXPECT_EQ(summary->min, 2);
  EXPECT_EQ(summary->max, 2);
  EXPECT_EQ(summary->mean, 2);
}

TEST_F(TensorReportTest, WritesEveryElementOfATensorLongerThanOnePiece) {
  std::vector<int32_t> values(3 * 50001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<int32_t>(i);
  const GgufFile file = Write(ElementType::kI32, {50001, 3}, values);
  const std::string npy = folder_.PathOf("t.npy");
  const auto summary = ReadTensorElements(file, *file.FindTensor("t"), npy);
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->max, static_cast<double>(values.size() - 1));

  const std::vector<int64_t> shape = {3, 50001};
  const std::string header = NpyHeader(shape);
  ASSERT_EQ(std::filesystem::file_size(npy), header.size() + 4 * values.size());
  std::ifstream in(npy, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(header.size()));
  for (size_t i = 0; i < values.size(); ++i) {
    float element = 0;
    in.read(reinterpret_cast<char*>(&element), sizeof(element));
    ASSERT_EQ(element, static_cast<float>(i));
  }
}

TEST_F(TensorReportTest, StopsAtASignalAndLeavesNoFile) {
  const GgufFile file = Write<float>(ElementType::kF32, {2}, {1, 2});
  CatchInterrupts();
  ASSERT_EQ(raise(SIGINT), 0);
  const std::string npy = folder_.PathOf("t.npy");
  const auto summary = ReadTensorElements(file, *file.FindTensor("t"), npy);
  CatchInterrupts();
  ASSERT_FALSE(summary);
  EXPECT_EQ(summary.error().code, ErrorCode::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(npy));
}

}  // namespace
}  // namespace thaw::cli
