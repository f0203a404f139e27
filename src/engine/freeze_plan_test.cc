#include "engine/freeze_plan.h"

#include <gmock/gmock.h>

#include <map>

#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    for (const TensorPlan& plan : *plans) reasons[plan.name] = plan.kept_because;
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

// A model whose keys are joined with queries and values, `n_kv_heads` of 64 rows, and gates with
// up.
TinyModel WithJoined(uint32_t n_kv_heads) {
  TinyModel model = Wide();
  model.architecture = "phi3";
  model.n_kv_heads = n_kv_heads;
  model.edit_tensors = [n_kv_heads](std::vector<TinyModel::Tensor>& tensors) {
    for (TinyModel::Tensor& tensor : tensors) {
      const std::string layer = tensor.name.substr(0, tensor.name.find('.', 4) + 1);
      if (tensor.name.ends_with("attn_q.weight")) {
        tensor = {layer + "attn_qkv.weight", {256, 256 + 2 * 64 * n_kv_heads}};
      }
      if (tensor.name.ends_with("ffn_up.weight")) tensor.dims[1] *= 2;
    }
    std::erase_if(tensors, [](const auto& t) {
      return t.name.ends_with("attn_k.weight") || t.name.ends_with("attn_v.weight") ||
             t.name.ends_with("ffn_gate.weight");
    });
  };
  return model;
}

TEST_F(FreezePlan, KnowsValuesThatHaveATensorOfTheirOwn) {
  TinyModel model = Wide();
  const auto values = [&] {
    std::vector<std::string> names;
    const auto plans = PlanFreezing(*file_, {});
    EXPECT_TRUE(plans) << plans.error().message;
    for (const TensorPlan& plan : *plans) {
      if (plan.is_values) names.push_back(plan.name);
    }
    return names;
  };
  Write(model);
  EXPECT_THAT(values(), ElementsAre("blk.0.attn_v.weight", "blk.1.attn_v.weight"));
  Write(WithJoined(/*n_kv_heads=*/4));
  EXPECT_THAT(values(), IsEmpty());
}

TEST_F(FreezePlan, CutsTilesWhereMatricesOfATensorBegin) {
  Write(WithJoined(/*n_kv_heads=*/4));
  const auto plans = PlanFreezing(*file_, {});
  ASSERT_TRUE(plans) << plans.error().message;
  int in_parts = 0;
  for (const TensorPlan& plan : *plans) {
    if (!plan.is_in_parts()) continue;
    ++in_parts;
    const bool is_up = plan.name.ends_with("ffn_up.weight");
    EXPECT_EQ(plan.kept_because, "") << plan.name;
    EXPECT_EQ(plan.rows, is_up ? 1024 : 768);
    EXPECT_EQ(plan.rows_per_part, is_up ? 512 : 256);
    EXPECT_EQ(plan.rows_per_part % (RowsPerStream(plan) * StreamsPerTile(plan, 1e5)), 0);
  }
  EXPECT_EQ(in_parts, 4);
}

// The last matrix of a tensor may be as short as it likes: nothing begins behind it.
TEST_F(FreezePlan, CutsTilesByTheFirstRowsOfMatricesAlone) {
  TinyModel model = Wide();
  model.architecture = "mamba2";
  model.add_fields = [](GgufWriter& writer) {
    for (const auto& [key, value] : {std::pair("conv_kernel", 4),
                                     {"inner_size", 512},
                                     {"state_size", 128},
                                     {"time_step_rank", 16},
                                     {"group_count", 1}}) {
      THAW_CHECK(writer.SetNumber<uint32_t>(fmt::format("mamba2.ssm.{}", key),
                                            static_cast<uint32_t>(value)));
    }
  };
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) {
    std::erase_if(tensors, [](const auto& t) { return t.name.starts_with("blk."); });
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      tensors.push_back({layer + "attn_norm.weight", {256}});
      tensors.push_back({layer + "ssm_in.weight", {256, 512 + 768 + 16}});
      tensors.push_back({layer + "ssm_conv1d.weight", {4, 768}});
      tensors.push_back({layer + "ssm_conv1d.bias", {768}});
      tensors.push_back({layer + "ssm_dt.bias", {16}});
      tensors.push_back({layer + "ssm_a", {1, 16}});
      tensors.push_back({layer + "ssm_d", {1, 16}});
      tensors.push_back({layer + "ssm_norm.weight", {512, 1}});
      tensors.push_back({layer + "ssm_out.weight", {512, 256}});
    }
  };
  Write(model);
  const auto plans = PlanFreezing(*file_, {});
  ASSERT_TRUE(plans) << plans.error().message;
  const auto plan = std::ranges::find(*plans, "blk.0.ssm_in.weight", &TensorPlan::name);
  ASSERT_NE(plan, plans->end());
  EXPECT_EQ(plan->kept_because, "");
  EXPECT_EQ(plan->rows_per_part, 256);
}

TEST_F(FreezePlan, KeepsTensorsWhoseMatricesAreTooShortForStreams) {
  Write(WithJoined(/*n_kv_heads=*/2));
  EXPECT_EQ(Reasons().at("blk.0.attn_qkv.weight"),
            "its rows are those of several matrices, and streams of 128 rows, which begin where "
            "these do, have fewer than 65536 weights");
  TinyModel model = WithJoined(4);
  model.d_ff = 520;
  model.n_layers = 1;
  Write(model);
  EXPECT_EQ(Reasons().at("blk.0.ffn_up.weight"),
            "its rows are those of several matrices, which begin at multiples of 520");
}

TEST_F(FreezePlan, JoinsExpertsThatHaveATensorEach) {
  Write(TinyExpertsApartModel());
  const auto plans = PlanFreezing(*file_, {});
  ASSERT_TRUE(plans) << plans.error().message;
  const auto plan = std::ranges::find(*plans, "blk.0.ffn_gate_exps.weight", &TensorPlan::name);
  ASSERT_NE(plan, plans->end());
  EXPECT_TRUE(plan->is_frozen());
  EXPECT_EQ(plan->matrices, 4);
  EXPECT_EQ(plan->dimensions, 3);
  EXPECT_EQ(plan->visited_share, 0.5);
  EXPECT_EQ(plan->source_bytes(), uint64_t{4} * 4 * 256 * 512);
  ASSERT_EQ(plan->tensors.size(), 4U);
  for (size_t expert = 0; expert < 4; ++expert) {
    EXPECT_EQ(plan->tensors[expert]->name, fmt::format("blk.0.ffn_gate.{}.weight", expert));
  }
  EXPECT_EQ(std::ranges::count_if(*plans, [](const auto& p) { return p.tensors.size() > 1; }), 3);
}

TEST_F(FreezePlan, KeepsAllExpertsWhereOneIsNamed) {
  Write(TinyExpertsApartModel());
  const auto reasons = Reasons({.kept = {"blk.0.ffn_gate.1.*"}});
  for (const char* expert : {"0", "1", "2", "3"}) {
    EXPECT_EQ(reasons.at(fmt::format("blk.0.ffn_gate.{}.weight", expert)),
              "--keep blk.0.ffn_gate.1.*");
  }
  EXPECT_FALSE(reasons.contains("blk.0.ffn_gate_exps.weight"));
  EXPECT_EQ(reasons.at("blk.0.ffn_up_exps.weight"), "");
}

TEST_F(FreezePlan, TakesMatricesOfHeads) {
  TinyModel model = TinyLatentModel(/*is_absorbed=*/true);
  const auto edit = model.edit_tensors;
  // Of 64 Ki weights, with values as wide as queries.
  model.add_fields = [](GgufWriter& writer) {
    for (const auto& [key, value] : {std::pair("attention.q_lora_rank", 8),
                                     {"attention.kv_lora_rank", 256},
                                     {"attention.key_length_mla", 64 + 4},
                                     {"attention.value_length_mla", 64},
                                     {"rope.dimension_count", 4}}) {
      THAW_CHECK(writer.SetNumber<uint32_t>(fmt::format("deepseek2.{}", key),
                                            static_cast<uint32_t>(value)));
    }
  };
  model.edit_tensors = [edit](std::vector<TinyModel::Tensor>& tensors) {
    edit(tensors);
    for (TinyModel::Tensor& t : tensors) {
      if (t.name.ends_with("attn_q_b.weight")) t.dims = {8, 4 * 68};
      if (t.name.ends_with("attn_kv_a_mqa.weight")) t.dims = {32, 256 + 4};
      if (t.name.ends_with("attn_kv_a_norm.weight")) t.dims = {256};
      if (t.name.ends_with("attn_k_b.weight")) t.dims = {64, 256, 4};
      if (t.name.ends_with("attn_v_b.weight")) t.dims = {256, 64, 4};
      if (t.name.ends_with("attn_output.weight")) t.dims = {4 * 64, 32};
    }
  };
  Write(model);
  EXPECT_EQ(Reasons().at("blk.0.attn_k_b.weight"), "");
  EXPECT_EQ(Reasons().at("blk.1.attn_v_b.weight"), "");
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
    THAW_CHECK(writer.SetNumber<uint32_t>(kFrozenVersionKey, kFrozenVersion));
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

TensorPlan PlanOf(FrozenKind kind, int64_t cols, int64_t rows, int64_t rows_per_part) {
  TensorPlan plan;
  plan.kind = kind;
  plan.cols = cols;
  plan.rows = rows;
  plan.rows_per_part = rows_per_part;
  return plan;
}

int64_t WholeRowsPerStream(FrozenKind kind, int64_t cols, int64_t rows) {
  return RowsPerStream(PlanOf(kind, cols, rows, rows));
}

TEST(RowsPerStream, AreAsEvenAsGroupsAllow) {
  EXPECT_EQ(WholeRowsPerStream(FrozenKind::kEcq, 1024, 1024), 512);
  EXPECT_EQ(WholeRowsPerStream(FrozenKind::kEcq, 1024, 1040), 352);  // three: 352, 352, 336
  EXPECT_EQ(WholeRowsPerStream(FrozenKind::kEcq, 1 << 20, 64), 16);
  EXPECT_EQ(WholeRowsPerStream(FrozenKind::kEcq, 32, 4096), 4096);
  EXPECT_EQ(WholeRowsPerStream(FrozenKind::kBf16, 1024, 768), 384);
}

TEST(RowsPerStream, DivideTheRowsOfAPart) {
  const auto rows = [](int64_t cols, int64_t part) {
    return RowsPerStream(PlanOf(FrozenKind::kEcq, cols, 3 * part, part));
  };
  EXPECT_EQ(rows(3072, 3072), 128);  // at most 170
  EXPECT_EQ(rows(5120, 1280), 80);   // at most 102
  EXPECT_EQ(rows(4544, 64), 64);
  EXPECT_EQ(rows(4096, 16 * 67), 16);
}

TEST(StreamsPerTile, FillHalfAMebibyteEvenly) {
  const auto streams = [](int64_t n, double bytes) {
    return StreamsPerTile(PlanOf(FrozenKind::kEcq, 1024, 512 * n, 512 * n), bytes);
  };
  EXPECT_EQ(streams(16, 250e3), 2);
  EXPECT_EQ(streams(3, 250e3), 2);
  EXPECT_EQ(streams(5, 150e3), 3);  // 3 and 2 rather than 3, 2 of at most 3
  EXPECT_EQ(streams(5, 1e6), 1);
  EXPECT_EQ(streams(1000, 1024), 63);  // 16 tiles of at most 64
}

TEST(StreamsPerTile, DivideTheStreamsOfAPart) {
  const auto streams = [](int64_t of_part, double bytes) {
    return StreamsPerTile(PlanOf(FrozenKind::kEcq, 1024, 512 * of_part * 3, 512 * of_part), bytes);
  };
  EXPECT_EQ(streams(4, 170e3), 2);  // of at most 3
  EXPECT_EQ(streams(5, 150e3), 1);
  EXPECT_EQ(streams(3, 170e3), 3);
}

}  // namespace
}  // namespace thaw
