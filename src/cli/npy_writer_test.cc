#include "cli/npy_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "io/temporary_directory.h"

namespace thaw::cli {
namespace {

using testing::HasSubstr;

TEST(NpyHeader, DescribesAMatrixAsNumpyDoes) {
  const std::array<int64_t, 2> shape = {3, 4};
  const std::string header = NpyHeader(shape);
  EXPECT_EQ(header.substr(0, 8), std::string("\x93NUMPY\x01\x00", 8));
  EXPECT_EQ(static_cast<unsigned char>(header[8]), header.size() - 10);
  EXPECT_EQ(header[9], 0);
  EXPECT_THAT(header, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }"));
  EXPECT_EQ(header.back(), '\n');
}

TEST(NpyHeader, WritesTuplesOfEveryLength) {
  const std::array<int64_t, 4> dims = {5, 6, 7, 8};
  EXPECT_THAT(NpyHeader(std::span(dims).first(0)), HasSubstr("'shape': ()"));
  EXPECT_THAT(NpyHeader(std::span(dims).first(1)), HasSubstr("'shape': (5,)"));
  EXPECT_THAT(NpyHeader(dims), HasSubstr("'shape': (5, 6, 7, 8)"));
}

TEST(NpyHeader, IsAMultipleOf64BytesLong) {
  for (int64_t dim = 1; dim > 0; dim *= 10) {
    const std::array<int64_t, 1> shape = {dim};
    EXPECT_EQ(NpyHeader(shape).size() % 64, 0U);
    if (dim > INT64_MAX / 10) break;
  }
}

TEST(NpyWriter, WritesTheElementsBehindTheHeader) {
  const TemporaryDirectory folder;
  const std::string path = folder.PathOf("a.npy");
  auto writer = NpyWriter::Create(path, {2, 2});
  ASSERT_TRUE(writer) << writer.error().message;
  const std::array<float, 4> elements = {1, -2, 0.5F, 4};
  ASSERT_TRUE(writer->Append(std::span(elements).first(3)));
  ASSERT_TRUE(writer->Append(std::span(elements).last(1)));
  EXPECT_FALSE(std::filesystem::exists(path));
  ASSERT_TRUE(writer->Commit());

  std::ifstream in(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(in)), {});
  const std::array<int64_t, 2> shape = {2, 2};
  const std::string header = NpyHeader(shape);
  ASSERT_EQ(bytes.size(), header.size() + sizeof(elements));
  EXPECT_EQ(bytes.substr(0, header.size()), header);
  EXPECT_EQ(std::memcmp(bytes.data() + header.size(), elements.data(), sizeof(elements)), 0);
}

TEST(NpyWriter, SaysWhereItCannotWrite) {
  const auto writer = NpyWriter::Create("/no/such/folder/a.npy", {1});
  ASSERT_FALSE(writer);
  EXPECT_THAT(writer.error().message, HasSubstr("/no/such/folder/a.npy"));
}

}  // namespace
}  // namespace thaw::cli
