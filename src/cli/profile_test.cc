#include "cli/profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace thaw::cli {
namespace {

using testing::HasSubstr;

Profile Example() {
  return {
      .prompts = {.total = 1, .matmul = 0.5, .attention = 0.25, .stall = 0.125},
      .prompt_tokens = 12,
      .steps =
          {.total = 4, .matmul = 2, .attention = 1, .read = 8, .thaw = 0.5, .coded_products = 1},
      .step_count = 4};
}

TEST(ProfileJson, TellsThePromptAsAWholeAndTheDecodeByTheStep) {
  const Json json = ProfileJson(Example());
  EXPECT_EQ(json["prompt"], (Json{{"tokens", 12},
                                  {"total_s", 1.0},
                                  {"matmul_s", 0.5},
                                  {"attention_s", 0.25},
                                  {"rest_s", 0.25},
                                  {"stall_s", 0.125},
                                  {"read_s", 0.0},
                                  {"thaw_s", 0.0},
                                  {"coded_product_s", 0.0}}));
  EXPECT_EQ(json["decode_step"], (Json{{"count", 4},
                                       {"total_s", 1.0},
                                       {"matmul_s", 0.5},
                                       {"attention_s", 0.25},
                                       {"rest_s", 0.25},
                                       {"stall_s", 0.0},
                                       {"read_s", 2.0},
                                       {"thaw_s", 0.125},
                                       {"coded_product_s", 0.25}}));
}

TEST(ProfileJson, HasNumbersWithoutAStep) {
  EXPECT_EQ(ProfileJson(Profile())["decode_step"]["total_s"], 0);
}

TEST(ProfileTable, HasAColumnForThePromptAndOneForAToken) {
  const std::string table = ProfileTable(Example());
  EXPECT_THAT(table, HasSubstr("profile               prompt       a token\n"));
  EXPECT_THAT(table, HasSubstr("\n  matmul           500.00 ms     500.00 ms\n"));
  EXPECT_THAT(table, HasSubstr("\nreading              0.00 ms    2000.00 ms\n"));
  EXPECT_THAT(table, HasSubstr("\ncoded products       0.00 ms     250.00 ms\n"));
}

}  // namespace
}  // namespace thaw::cli
