#include "cli/freeze_report.h"

#include <gmock/gmock.h>

namespace thaw::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

FreezeReport Example() {
  FreezeReport report;
  report.tensors = {{.name = "blk.0.ffn_up.weight",
                     .kind = FrozenKind::kEcq,
                     .source_type = ElementType::kQ4_1,
                     .weights = 1000,
                     .bytes = 500,
                     .bits_per_weight = 4,
                     .relative_rmse = 0.0625,
                     .type_rmse = 0.07,
                     .seconds = 1.5},
                    {.name = "blk.0.ffn_down.weight",
                     .kind = FrozenKind::kBf16,
                     .source_type = ElementType::kBF16,
                     .weights = 1000,
                     .bytes = 1250,
                     .bits_per_weight = 10}};
  report.kept = {{"a", ElementType::kF32, 10, 40, "it is small"},
                 {"b", ElementType::kF32, 10, 40, "it is small"},
                 {"c", ElementType::kF16, 1024, 2048, "--keep c"}};
  report.bits_per_weight = 7;
  report.relative_rmse = 0.05;
  report.bytes = 4096;
  report.input_bytes = 8192;
  report.seconds = 2;
  return report;
}

TEST(FreezeTable, HasARowForEachFrozenTensorAndALineForEachReason) {
  const std::string table = FreezeTable(Example());
  EXPECT_THAT(table, HasSubstr("blk.0.ffn_up.weight                          ecq   Q4_1     4.000"
                               "   0.06250     1.50\n"));
  EXPECT_THAT(table, HasSubstr("bf16  BF16    10.000   0.00000     0.00\n"));
  EXPECT_THAT(table, HasSubstr("2 tensors frozen, 7.000 bits a weight, relative RMSE 0.05000\n"));
  EXPECT_THAT(table, HasSubstr("kept a and 1 more (80 B): it is small\n"));
  EXPECT_THAT(table, HasSubstr("kept c (2.0 KiB): --keep c\n"));
  EXPECT_THAT(table, HasSubstr("quantized for the second time: 1 Q4_1;"));
  EXPECT_THAT(table, HasSubstr("4.0 KiB of 8.0 KiB in 2.0 s\n"));
}

TEST(FreezeTable, SaysThatTheOutputWasVerified) {
  FreezeReport report = Example();
  report.is_verified = true;
  EXPECT_THAT(FreezeTable(report), HasSubstr("in 2.0 s, verified\n"));
}

TEST(FreezeTable, SaysThatNothingIsFrozen) {
  FreezeReport report = Example();
  report.tensors.clear();
  EXPECT_THAT(FreezeTable(report), HasSubstr("0 tensors frozen\n"));
  EXPECT_THAT(FreezeTable(report), Not(HasSubstr("second time")));
}

TEST(FreezeJson, HasTheFieldsOfTheContract) {
  const Json json = FreezeJson(Example());
  ASSERT_EQ(json["tensors"].size(), 2U);
  EXPECT_EQ(CompactJson(json["tensors"][0]),
            R"({"name":"blk.0.ffn_up.weight","kind":"ecq","source_type":"Q4_1","weights":1000,)"
            R"("bytes":500,"bits_per_weight":4.0,"relative_rmse":0.0625,"type_rmse":0.07,)"
            R"("seconds":1.5})");
  EXPECT_TRUE(json["tensors"][1]["type_rmse"].is_null());
  EXPECT_EQ(CompactJson(json["kept"][2]),
            R"({"name":"c","source_type":"F16","weights":1024,"bytes":2048,"reason":"--keep c"})");
  EXPECT_EQ(json["bits_per_weight"], 7);
  EXPECT_EQ(json["bytes"], 4096);
  EXPECT_EQ(json["seconds"], 2);
  EXPECT_EQ(json["verified"], false);
}

}  // namespace
}  // namespace thaw::cli
