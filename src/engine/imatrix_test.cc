#include "engine/imatrix.h"

#include <gmock/gmock.h>

#include <optional>
#include <vector>

#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct MatrixFile {
  std::string type = "imatrix";
  std::vector<int64_t> sum_dims = {4, 2};
  std::vector<float> sums = {2, 4, 0, 2, 0, 0, 0, 0};
  std::vector<int64_t> count_dims = {1, 2};
  std::vector<float> counts = {2, 0};

  void Write(const std::string& path) const {
    auto writer = GgufWriter::Create(path);
    THAW_CHECK(writer);
    THAW_CHECK(writer->SetString("general.type", type));
    THAW_CHECK(writer->AddTensor("w.weight.in_sum2", ElementType::kF32, sum_dims));
    THAW_CHECK(writer->AddTensor("w.weight.counts", ElementType::kF32, count_dims));
    THAW_CHECK(writer->AppendData(std::as_bytes(std::span(sums))));
    THAW_CHECK(writer->AppendData(std::as_bytes(std::span(counts))));
    THAW_CHECK(writer->Commit());
  }
};

class Imatrix : public ::testing::Test {
 protected:
  Result<ImportanceMatrix> Open(const MatrixFile& file) {
    file.Write(path_);
    return ImportanceMatrix::Open(path_);
  }
  std::string ErrorOfReading(const MatrixFile& file) {
    const auto matrix = Open(file);
    EXPECT_TRUE(matrix) << matrix.error().message;
    const auto read = matrix->Read("w.weight", 4, 2);
    EXPECT_FALSE(read);
    return read ? "" : read.error().message;
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.PathOf("i.gguf");
};

TEST_F(Imatrix, DividesSumsByTheirMeanAndKeepsSilentColumnsAboveZero) {
  const auto matrix = Open({});
  ASSERT_TRUE(matrix) << matrix.error().message;
  EXPECT_TRUE(matrix->Has("w.weight"));
  EXPECT_FALSE(matrix->Has("v.weight"));
  const auto read = matrix->Read("w.weight", 4, 2);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(std::vector(read->weights.begin(), read->weights.begin() + 4),
              ElementsAre(1, 2, kLeastColumnWeight, 1));
}

TEST_F(Imatrix, CountsColumnsAlikeWhereAnExpertWasNeverChosen) {
  const auto matrix = Open({});
  ASSERT_TRUE(matrix) << matrix.error().message;
  const auto read = matrix->Read("w.weight", 4, 2);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(std::vector(read->weights.begin() + 4, read->weights.end()), Each(1));
  // The sums' mean of 2, of 2 vectors; nothing.
  EXPECT_THAT(read->mean_squares, ElementsAre(1, 0));
}

TEST_F(Imatrix, NamesTheTensorWhoseSizeIsWrong) {
  EXPECT_THAT(ErrorOfReading({.sum_dims = {8}}),
              AllOf(HasSubstr(path_), HasSubstr("w.weight.in_sum2"), HasSubstr("[4, 2]")));
  EXPECT_THAT(ErrorOfReading({.count_dims = {2}}),
              AllOf(HasSubstr("w.weight.counts"), HasSubstr("[1, 2]")));
}

TEST_F(Imatrix, RefusesNumbersThatCannotBeSums) {
  EXPECT_THAT(ErrorOfReading({.sums = {2, 4, -1, 2, 0, 0, 0, 0}}),
              AllOf(HasSubstr("w.weight.in_sum2"), HasSubstr("number 2")));
  EXPECT_THAT(ErrorOfReading({.counts = {std::numeric_limits<float>::infinity(), 0}}),
              HasSubstr("w.weight.counts"));
}

TEST_F(Imatrix, RefusesAnotherKindOfFile) {
  const auto matrix = Open({.type = "model"});
  ASSERT_FALSE(matrix);
  EXPECT_THAT(matrix.error().message, AllOf(HasSubstr("general.type"), HasSubstr("imatrix")));
}

TEST_F(Imatrix, RefusesTheOlderFormatByName) {
  const auto matrix = ImportanceMatrix::Open(folder_.Write("old.dat", "\x02\x00\x00\x00rest"));
  ASSERT_FALSE(matrix);
  EXPECT_EQ(matrix.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(matrix.error().message, AllOf(HasSubstr("old.dat"), HasSubstr(".dat format")));
}

}  // namespace
}  // namespace thaw
