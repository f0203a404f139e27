#include "engine/freeze_plan.h"

#include <gmock/gmock.h>

#include <map>

#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Matrices of 256 x 256 and larger, but keys and values of 128 x 256.
TinyModel Wide() {
  TinyModel model;
  model.d_model = 256;
  model.d_ff = 512;
  return model;
}

class FreezePlan : public ::testing::Test {
 protected:
  void Write(TinyModel model) {
    model.Write(path_);
    file_ = std::make_unique<GgufFile>(*GgufFile::Open(path_));
  }

  // Why each tensor is kept, by name; "" for those that are frozen.
  std::map<std::string, std::string> Reasons(const PlanRules& rules = {}) {
    std::map<std::string, std::string> reasons;
    const auto plans = PlanFreezing(*file_, rules);
    EXPECT_TRUE(plans) << plans.error().message;
    if (!plans) return reasons;
    for (const TensorPlan& plan : *plans) reasons[plan.tensor->name] = plan.kept_because;
    return reasons;
  }

  std::string ErrorOf(const PlanRules& rules = {}) {
    const auto plans = PlanFreezing(*file_, rules);
    EXPECT_FALSE(plans);
    return plans ? "" : plans.error().message;
  }

  TemporaryDirectory folder_;
  std::string path_ = folder_.PathOf("m.gguf");
  std::unique_ptr<GgufFile> file_;
};

TEST_F(FreezePlan, TakesMatricesThatAPassMultiplies) {
  Write(Wide());
  const auto reasons = Reasons();
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.attn_output.weight",
                           "blk.0.ffn_gate.weight", "blk.1.ffn_down.weight"}) {
    EXPECT_EQ(reasons.at(name), "") << name;
  }
  EXPECT_EQ(reasons.at("blk.0.attn_norm.weight"), "it has 1 dimensions");
  EXPECT_EQ(reasons.at("blk.0.attn_k.weight"), "it has fewer than 65536 weights");
}

TEST_F(FreezePlan, KeepsTablesThatAreLookedUp) {
  constexpr int64_t kRows = TinyModel::kVocabulary;
  TinyModel model = Wide();
  Write(model);
  EXPECT_EQ(Reasons().at("token_embd.weight"),
            "its 260 rows are no multiple of 16 up to 4294967296");
  // A vocabulary of a multiple of 16, tied; then with an output matrix of its own.
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>("llama.vocab_size", kRows + 12));
  };
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    tensors[0].dims = {256, kRows + 12};
  };
  Write(model);
  EXPECT_EQ(Reasons().at("token_embd.weight"), "");
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    tensors[0].dims = {256, kRows + 12};
    tensors.push_back({"output.weight", {256, kRows + 12}});
  };
  Write(model);
  EXPECT_EQ(Reasons().at("token_embd.weight"), "it is looked up row by row");
  EXPECT_EQ(Reasons().at("output.weight"), "");
}

TEST_F(FreezePlan, KeepsWhatIsNamed) {
  Write(Wide());
  const auto reasons = Reasons({.kept = {"blk.0.*", "*down*"}});
  EXPECT_EQ(reasons.at("blk.0.attn_q.weight"), "--keep blk.0.*");
  EXPECT_EQ(reasons.at("blk.1.ffn_down.weight"), "--keep *down*");
  EXPECT_EQ(reasons.at("blk.1.attn_q.weight"), "");
  EXPECT_THAT(ErrorOf({.kept = {"blk.7.*"}}), AllOf(HasSubstr(path_), HasSubstr("'blk.7.*'")));
}

TEST_F(FreezePlan, RefusesWhatIsFrozenAlready) {
  TinyModel model = Wide();
  model.add_fields = [](GgufWriter& writer) {
    THAW_CHECK(writer.SetNumber<uint32_t>(kFrozenVersionKey, 1));
  };
  Write(model);
  EXPECT_THAT(ErrorOf(), AllOf(HasSubstr(path_), HasSubstr("frozen already")));
}

TEST_F(FreezePlan, HasTheErrorsOfAModelThatCannotBeRun) {
  TinyModel model;
  model.architecture = "perceptron";
  Write(model);
  EXPECT_THAT(ErrorOf(), HasSubstr("perceptron"));
}

TEST(RowsPerStream, AreAsEvenAsGroupsAllow) {
  EXPECT_EQ(RowsPerStream(FrozenKind::kEcq, 1024, 1024), 512);
  EXPECT_EQ(RowsPerStream(FrozenKind::kEcq, 1024, 1040), 352);  // three streams of 352, 352, 336
  EXPECT_EQ(RowsPerStream(FrozenKind::kEcq, 1 << 20, 64), 16);
  EXPECT_EQ(RowsPerStream(FrozenKind::kEcq, 32, 4096), 4096);
  EXPECT_EQ(RowsPerStream(FrozenKind::kBf16, 1024, 768), 384);
}

TEST(StreamsPerTile, FillHalfAMebibyteEvenly) {
  EXPECT_EQ(StreamsPerTile(16, 250e3), 2);
  EXPECT_EQ(StreamsPerTile(3, 250e3), 2);
  EXPECT_EQ(StreamsPerTile(5, 150e3), 3);  // 3 and 2 rather than 3, 2 of at most 3
  EXPECT_EQ(StreamsPerTile(5, 1e6), 1);
  EXPECT_EQ(StreamsPerTile(1000, 1024), 63);  // 16 tiles of at most 64
}

}  // namespace
}  // namespace thaw
