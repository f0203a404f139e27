#include "base/result.h"

#include <gmock/gmock.h>

#include <memory>

namespace thaw {
namespace {

Result<int> Half(int value) {
  if (value % 2 != 0) return Fail(ErrorCode::kInvalidArgument, "{} is odd", value);
  return value / 2;
}

Result<int> Quarter(int value) {
  THAW_ASSIGN(const int half, Half(value));
  THAW_ASSIGN(const int quarter, Half(half));
  return quarter;
}

Result<void> CheckQuarter(int value) {
  THAW_TRY(Quarter(value));
  return {};
}

TEST(Result, CarriesTheValue) { EXPECT_EQ(*Quarter(12), 3); }

TEST(Result, AssignReturnsTheFirstError) {
  const auto result = Quarter(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(result.error().message, "3 is odd");
}

TEST(Result, TryPassesErrorsOfAnyResult) {
  EXPECT_TRUE(CheckQuarter(8));
  EXPECT_FALSE(CheckQuarter(7));
}

TEST(Result, HoldsMoveOnlyValues) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    THAW_ASSIGN(const auto pointer, make());
    return *pointer;
  };
  EXPECT_EQ(*use(), 5);
}

TEST(Error, ContextComesBeforeTheMessage) {
  EXPECT_EQ((Error{ErrorCode::kIo, "read failed"}.In("model.gguf").message),
            "model.gguf: read failed");
}

}  // namespace
}  // namespace thaw
