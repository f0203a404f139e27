#include "engine/freeze.h"

#include <gmock/gmock.h>

#include <atomic>
#include <cstring>
#include <filesystem>

#include "base/process.h"
#include "codec/frozen_tensor.h"
#include "engine/freeze_recipe.h"
#include "engine/freeze_verify.h"
#include "engine/shape_model.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_writer.h"
#include "io/temporary_directory.h"
#include "support/read_file.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Kind = FreezeGoal::Kind;

constexpr ModelShape kShape = {.name = "tiny",
                               .n_layers = 2,
                               .d_model = 256,
                               .d_ff = 512,
                               .n_heads = 4,
                               .n_kv_heads = 2,
                               .head_dim = 64,
                               .n_vocab = 304,
                               .context_length = 128};

// Two experts of four a token.
constexpr ModelShape kMixture = {.name = "tiny mixture",
                                 .family = "qwen3moe",
                                 .n_layers = 1,
                                 .d_model = 256,
                                 .d_ff = 128,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 64,
                                 .n_vocab = 304,
                                 .context_length = 128,
                                 .n_experts = 4,
                                 .n_experts_used = 2};

// An importance matrix for the up matrices of the mixture, loud in another column for each expert.
void WriteImportance(const std::string& path) {
  auto writer = GgufWriter::Create(path);
  THAW_CHECK(writer);
  THAW_CHECK(writer->SetString("general.type", "imatrix"));
  const std::string name = "blk.0.ffn_up_exps.weight";
  const std::vector<int64_t> sum_dims = {256, 4};
  const std::vector<int64_t> count_dims = {1, 4};
  THAW_CHECK(writer->AddTensor(name + ".in_sum2", ElementType::kF32, sum_dims));
  THAW_CHECK(writer->AddTensor(name + ".counts", ElementType::kF32, count_dims));
  std::vector<float> sums(256 * 4, 1.0F);
  for (size_t expert = 0; expert < 4; ++expert) {
    for (size_t col = 0; col < 64; ++col) sums[256 * expert + 64 * expert + col] = 100;
  }
  const std::vector<float> counts = {10, 10, 10, 0};
  THAW_CHECK(writer->AppendData(std::as_bytes(std::span(sums))));
  THAW_CHECK(writer->AppendData(std::as_bytes(std::span(counts))));
  THAW_CHECK(writer->Commit());
}

class Freeze : public ::testing::Test {
 protected:
  void Write(ElementType type, const ModelShape& shape = kShape) {
    const auto go_on = [](uint64_t, uint64_t) { return true; };
    const auto written = WriteShapeModel(shape, type, 1, input_, go_on);
    ASSERT_TRUE(written) << written.error().message;
  }

  FreezeOptions Options(FreezeGoal goal, const std::string& output = "out.gguf") const {
    return {.input = input_,
            .output = folder_.PathOf(output),
            .goal = goal,
            .kept = {},
            .importance = {},
            .budget = {},
            .threads = 1};
  }

  Result<FreezeReport> Run(const FreezeOptions& options) {
    notes_.clear();
    progress_ = 0;
    return FreezeModel(options,
                       {.on_progress =
                            [this](FreezePhase phase, uint64_t done, uint64_t total) {
                              EXPECT_LE(done, total);
                              if (phase == FreezePhase::kFreezing && ++progress_ == stop_at_) {
                                stop_ = true;
                              }
                            },
                        .on_note = [this](std::string_view note) { notes_ += note; }});
  }

  FreezeReport RunWell(const FreezeOptions& options) {
    auto report = Run(options);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : FreezeReport();
  }

  std::string ErrorOf(const FreezeOptions& options) {
    const auto report = Run(options);
    EXPECT_FALSE(report);
    return report ? "" : report.error().message;
  }

  std::string Output(const std::string& name = "out.gguf") const {
    return ReadFile(folder_.PathOf(name));
  }

  static constexpr FreezeGoal kFourBits = {.kind = Kind::kBits, .bits = 4};
  static constexpr FreezeGoal kLossless = {.kind = Kind::kLossless};

  TemporaryDirectory folder_;
  std::string input_ = folder_.PathOf("in.gguf");
  std::string notes_;
  int progress_ = 0;
  int stop_at_ = 0;  // the call of on_progress that sets stop_; 0: none
  std::atomic<bool> stop_ = false;
};

TEST_F(Freeze, GivesEveryTensorTheBitsAskedFor) {
  Write(ElementType::kF32);
  const FreezeReport report = RunWell(Options(kFourBits));
  ASSERT_EQ(report.tensors.size(), 11U);  // five of each layer and the output matrix
  for (const FrozenTensorReport& tensor : report.tensors) {
    EXPECT_NEAR(tensor.bits_per_weight, 4, 0.05) << tensor.name;
    EXPECT_NEAR(tensor.relative_rmse, 0.065, 0.015) << tensor.name;
    EXPECT_EQ(tensor.bits_per_weight,
              8 * static_cast<double>(tensor.bytes) / static_cast<double>(tensor.weights));
  }
  EXPECT_EQ(report.bytes, std::filesystem::file_size(folder_.PathOf("out.gguf")));
  EXPECT_FALSE(std::filesystem::exists(folder_.PathOf("out.gguf.freezing")));
}

TEST_F(Freeze, ErrsAsMuchAsTheTypeThatWasNamed) {
  Write(ElementType::kF32);
  const FreezeReport report =
      RunWell(Options({.kind = Kind::kLikeType, .type = ElementType::kQ4_K}));
  ASSERT_FALSE(report.tensors.empty());
  for (const FrozenTensorReport& tensor : report.tensors) {
    EXPECT_GT(tensor.type_rmse, 0) << tensor.name;
    EXPECT_NEAR(tensor.relative_rmse / tensor.type_rmse, 1, 0.03) << tensor.name;
    // A quarter of the error costs two bits.
    const bool is_fine = tensor.name == "output.weight" || tensor.name.ends_with("attn_v.weight");
    EXPECT_LT(tensor.bits_per_weight, is_fine ? 6.5 : 4.5) << tensor.name;
    EXPECT_GT(tensor.bits_per_weight, is_fine ? 5 : 3) << tensor.name;
    EXPECT_LT(tensor.type_rmse, is_fine ? 0.03 : 0.09) << tensor.name;
    EXPECT_GT(tensor.type_rmse, is_fine ? 0.015 : 0.05) << tensor.name;
  }
  EXPECT_EQ(notes_, "");
}

TEST_F(Freeze, SaysWhereATypeErrsLessThanFrozenTensorsDo) {
  Write(ElementType::kF32);
  const FreezeReport report =
      RunWell(Options({.kind = Kind::kLikeType, .type = ElementType::kQ8_0}));
  EXPECT_THAT(notes_, HasSubstr("11 of 11 tensors get a relative RMSE of 0.018, as Q8_0 has less"));
  ASSERT_EQ(report.tensors.size(), 11U);
  for (const FrozenTensorReport& tensor : report.tensors) {
    EXPECT_NEAR(tensor.relative_rmse, kLeastTypeError, 0.03 * kLeastTypeError) << tensor.name;
    EXPECT_EQ(tensor.type_rmse, kLeastTypeError) << tensor.name;
  }
}

TEST_F(Freeze, CopiesFieldsAndOtherTensorsAsTheyAre) {
  Write(ElementType::kF16);
  FreezeOptions options = Options(kFourBits);
  options.kept = {"blk.0.ffn_*"};
  RunWell(options);
  const auto in = GgufFile::Open(input_);
  const auto out = GgufFile::Open(options.output);
  ASSERT_TRUE(in && out);
  EXPECT_EQ(*out->GetUint(kFrozenVersionKey), kFrozenVersion);
  EXPECT_EQ(out->alignment(), 64U);
  for (const GgufField& field : in->fields()) {
    const GgufField* copy = out->Find(field.key);
    ASSERT_NE(copy, nullptr) << field.key;
    EXPECT_EQ(*out->ReadRawValue(*copy), *in->ReadRawValue(field)) << field.key;
  }
  ASSERT_EQ(out->tensors().size(), in->tensors().size());
  int frozen = 0;
  for (size_t i = 0; i < in->tensors().size(); ++i) {
    const TensorInfo& before = in->tensors()[i];
    const TensorInfo& after = out->tensors()[i];
    ASSERT_EQ(after.name, before.name);
    EXPECT_EQ(after.dims, before.dims);
    if (after.frozen != nullptr) {
      EXPECT_EQ(after.offset % 64, 0U);
      EXPECT_EQ(after.frozen->kind, FrozenKind::kEcq);
      ++frozen;
      continue;
    }
    std::vector<std::byte> bytes(before.bytes);
    std::vector<std::byte> copied(after.bytes);
    ASSERT_TRUE(in->ReadTensor(before, 0, bytes));
    ASSERT_TRUE(out->ReadTensor(after, 0, copied));
    EXPECT_EQ(copied, bytes) << before.name;
  }
  EXPECT_EQ(frozen, 8);
}

TEST_F(Freeze, LosesNothingOfBf16) {
  Write(ElementType::kBF16);
  FreezeOptions options = Options(kLossless);
  options.verify = true;
  const FreezeReport report = RunWell(options);
  EXPECT_EQ(report.tensors.size(), 11U);
  EXPECT_TRUE(report.is_verified);
  EXPECT_EQ(report.relative_rmse, 0);
  for (const FrozenTensorReport& tensor : report.tensors) {
    EXPECT_EQ(tensor.kind, FrozenKind::kBf16);
    EXPECT_LT(tensor.bits_per_weight, 12) << tensor.name;
  }
}

TEST_F(Freeze, KeepsWhatIsNoBf16WhereNothingMayBeLost) {
  Write(ElementType::kF32);
  FreezeReport report = RunWell(Options(kLossless));
  EXPECT_EQ(report.tensors.size(), 0U);
  EXPECT_THAT(report.kept.back().reason, HasSubstr("more bits than BF16"));
  Write(ElementType::kQ8_0);
  report = RunWell(Options(kLossless));
  EXPECT_EQ(report.tensors.size(), 0U);
  EXPECT_THAT(report.kept.back().reason, HasSubstr("Q8_0"));
}

TEST_F(Freeze, TakesF32ThatHoldsBf16AndFindsOutWhichDoesNot) {
  Write(ElementType::kF32);
  // All weights cut to BF16 but one of the output matrix, the last tensor of the file.
  const auto in = GgufFile::Open(input_);
  std::string bytes = ReadFile(input_);
  for (const TensorInfo& tensor : in->tensors()) {
    for (uint64_t at = tensor.offset; at < tensor.offset + tensor.bytes; at += 4) {
      bytes[at] = bytes[at + 1] = 0;
    }
  }
  const TensorInfo& output = *in->FindTensor("output.weight");
  bytes[output.offset + output.bytes - 4] = 1;
  folder_.Write("in.gguf", bytes);
  FreezeOptions options = Options(kLossless);
  options.verify = true;
  const FreezeReport report = RunWell(options);
  EXPECT_EQ(report.tensors.size(), 10U);
  EXPECT_EQ(report.kept.back().name, "output.weight");
}

TEST_F(Freeze, KeepsWhatDoesNotBecomeSmaller) {
  Write(ElementType::kQ2_K);  // 2.6 bits
  const FreezeReport report = RunWell(Options(kFourBits));
  EXPECT_EQ(report.tensors.size(), 0U);
  EXPECT_THAT(report.kept.back().reason, HasSubstr("takes no less"));
}

TEST_F(Freeze, WritesTheSameWithAnyThreadsAndBudget) {
  Write(ElementType::kBF16);
  RunWell(Options(kFourBits, "a.gguf"));
  FreezeOptions options = Options(kFourBits, "b.gguf");
  options.threads = 5;
  options.budget = *ParseBudget("floor");
  RunWell(options);
  EXPECT_EQ(Output("a.gguf"), Output("b.gguf"));
}

TEST_F(Freeze, RefusesABudgetThatHoldsNoStream) {
  Write(ElementType::kBF16);
  FreezeOptions options = Options(kFourBits);
  options.budget = *ParseBudget("1MiB");
  EXPECT_THAT(ErrorOf(options),
              AllOf(HasSubstr(input_), HasSubstr("budget is 1.0 MiB"), HasSubstr("1 threads")));
}

class FreezeInterrupted : public Freeze, public ::testing::WithParamInterface<FreezeGoal> {};

TEST_P(FreezeInterrupted, GoesOnFromFinishedTensorsToTheSameFile) {
  Write(ElementType::kBF16);
  RunWell(Options(GetParam(), "whole.gguf"));
  FreezeOptions options = Options(GetParam());
  options.cancel = &stop_;
  int stops = 0;
  // Each run is stopped behind its third tensor: they are of one stream.
  for (stop_at_ = 3; stops < 20; ++stops) {
    stop_ = false;
    const auto report = Run(options);
    EXPECT_EQ(notes_.empty(), stops == 0) << notes_;
    if (stops > 0) {
      // What is coded again, to make the file fit, was finished before.
      EXPECT_THAT(notes_, HasSubstr(fmt::format("{} of 11", std::min(3 * stops, 11))));
    }
    if (report) break;
    ASSERT_EQ(report.error().code, ErrorCode::kCancelled) << report.error().message;
    EXPECT_FALSE(std::filesystem::exists(options.output));
  }
  EXPECT_GE(stops, 3);
  EXPECT_EQ(Output(), Output("whole.gguf"));
  EXPECT_FALSE(std::filesystem::exists(options.output + ".freezing"));
}

INSTANTIATE_TEST_SUITE_P(Goals, FreezeInterrupted,
                         ::testing::Values(FreezeGoal{.kind = Kind::kBits, .bits = 3},
                                           FreezeGoal{.kind = Kind::kLossless},
                                           FreezeGoal{.kind = Kind::kFileSize,
                                                      .file_bytes = 1000000}));

TEST_F(Freeze, StartsAnewWithOtherOptions) {
  Write(ElementType::kBF16);
  FreezeOptions options = Options(kFourBits);
  options.cancel = &stop_;
  stop_at_ = 3;
  EXPECT_FALSE(Run(options));
  stop_ = false;
  stop_at_ = 0;
  options.kept = {"blk.0.*"};
  EXPECT_EQ(RunWell(options).tensors.size(), 6U);
  EXPECT_THAT(notes_, HasSubstr("starting anew"));
}

TEST_F(Freeze, FitsAFileIntoASize) {
  Write(ElementType::kBF16);
  for (const uint64_t size : {760000, 900000, 1200000}) {
    const FreezeReport report = RunWell(Options({.kind = Kind::kFileSize, .file_bytes = size}));
    EXPECT_LE(report.bytes, size);
    EXPECT_GT(report.bytes, size * 99 / 100);
    EXPECT_EQ(report.bytes, std::filesystem::file_size(folder_.PathOf("out.gguf")));
  }
}

TEST_F(Freeze, NamesTheLeastSizeThatCanBeReached) {
  Write(ElementType::kBF16);
  const std::string message = ErrorOf(Options({.kind = Kind::kFileSize, .file_bytes = 400000}));
  EXPECT_THAT(message, HasSubstr("400000 bytes cannot be reached"));
  const size_t at = message.find("takes ") + 6;
  const uint64_t least = std::stoull(message.substr(at));
  EXPECT_LE(RunWell(Options({.kind = Kind::kFileSize, .file_bytes = least})).bytes, least);
}

TEST_F(Freeze, WeighsTheColumnsOfEachExpert) {
  Write(ElementType::kF32, kMixture);
  FreezeOptions options = Options(kFourBits);
  options.importance = folder_.PathOf("imatrix.gguf");
  options.verify = true;
  const FreezeReport plain = RunWell(Options(kFourBits, "plain.gguf"));
  WriteImportance(options.importance);
  const FreezeReport weighed = RunWell(options);
  EXPECT_THAT(notes_, HasSubstr("tensors are not in it"));
  const auto of = [](const FreezeReport& report, const std::string& name) {
    for (const FrozenTensorReport& tensor : report.tensors) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << name;
    return FrozenTensorReport();
  };
  // Errors go to where they weigh least; what is not in the matrix stays as it was.
  const std::string up = "blk.0.ffn_up_exps.weight";
  EXPECT_LT(of(weighed, up).relative_rmse, of(plain, up).relative_rmse);
  const std::string down = "blk.0.ffn_down_exps.weight";
  EXPECT_EQ(of(weighed, down).relative_rmse, of(plain, down).relative_rmse);
}

// The same model in two parts, as gguf-split writes them, gives the same tensors.
TEST_F(Freeze, TakesASplitModel) {
  Write(ElementType::kBF16);
  RunWell(Options(kFourBits, "whole.gguf"));
  const auto in = GgufFile::Open(input_);
  const auto count = static_cast<int32_t>(in->tensors().size());
  for (const int part : {0, 1}) {
    auto writer =
        GgufWriter::Create(folder_.PathOf(fmt::format("m-0000{}-of-00002.gguf", part + 1)));
    ASSERT_TRUE(writer);
    if (part == 0) {
      ASSERT_TRUE(writer->CopyFields(*in));
    }
    ASSERT_TRUE(writer->SetNumber<uint16_t>("split.no", static_cast<uint16_t>(part)));
    ASSERT_TRUE(writer->SetNumber<uint16_t>("split.count", 2));
    ASSERT_TRUE(writer->SetNumber<int32_t>("split.tensors.count", count));
    const auto tensors = part == 0 ? in->tensors().first(9) : in->tensors().subspan(9);
    for (const TensorInfo& tensor : tensors) {
      ASSERT_TRUE(writer->AddTensor(tensor.name, tensor.type, tensor.extents()));
    }
    for (const TensorInfo& tensor : tensors) {
      std::vector<std::byte> bytes(tensor.bytes);
      ASSERT_TRUE(in->ReadTensor(tensor, 0, bytes));
      ASSERT_TRUE(writer->AppendData(bytes));
    }
    ASSERT_TRUE(writer->Commit());
  }
  FreezeOptions options = Options(kFourBits);
  options.input = folder_.PathOf("m-00001-of-00002.gguf");
  RunWell(options);
  EXPECT_EQ(Output(), Output("whole.gguf"));
  options.output = folder_.PathOf("m-00002-of-00002.gguf");
  EXPECT_THAT(ErrorOf(options), HasSubstr("the output is the input"));
}

TEST_F(Freeze, NamesTensorAndRowOfAWeightThatIsNoNumber) {
  Write(ElementType::kF32);
  const auto in = GgufFile::Open(input_);
  const TensorInfo& tensor = *in->FindTensor("blk.1.ffn_up.weight");
  std::string bytes = ReadFile(input_);
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(&bytes[tensor.offset + 37 * 256 * 4 + 12], &infinity, sizeof(infinity));
  folder_.Write("in.gguf", bytes);
  EXPECT_THAT(ErrorOf(Options(kFourBits)),
              AllOf(HasSubstr(input_), HasSubstr("'blk.1.ffn_up.weight'"), HasSubstr("row 37")));
}

TEST_F(Freeze, RefusesToWriteOverItsInput) {
  Write(ElementType::kBF16);
  const std::string before = ReadFile(input_);
  std::filesystem::create_symlink(input_, folder_.PathOf("link.gguf"));
  for (const char* name : {"in.gguf", "link.gguf"}) {
    EXPECT_THAT(ErrorOf(Options(kFourBits, name)), HasSubstr("the output is the input"));
  }
  EXPECT_EQ(ReadFile(input_), before);
}

TEST_F(Freeze, JoinsExpertsThatHaveATensorEach) {
  TinyExpertsApartModel().Write(input_);
  const uint64_t size = std::filesystem::file_size(input_) / 5;
  FreezeOptions options = Options({.kind = Kind::kFileSize, .file_bytes = size});
  options.verify = true;
  const FreezeReport report = RunWell(options);
  EXPECT_LE(report.bytes, size);
  EXPECT_GT(report.bytes, size * 97 / 100);
  EXPECT_EQ(report.bytes, std::filesystem::file_size(options.output));
  const auto out = GgufFile::Open(options.output);
  ASSERT_TRUE(out);
  for (const char* part : {"gate", "up", "down"}) {
    const TensorInfo* joined = out->FindTensor(fmt::format("blk.0.ffn_{}_exps.weight", part));
    ASSERT_NE(joined, nullptr) << part;
    ASSERT_NE(joined->frozen, nullptr) << part;
    EXPECT_EQ(joined->dims[2], 4) << part;
    EXPECT_EQ(out->FindTensor(fmt::format("blk.0.ffn_{}.0.weight", part)), nullptr) << part;
  }
}

// Their weights have more bits than BF16.
TEST_F(Freeze, KeepsAllExpertsOfALayerOrNone) {
  TinyExpertsApartModel().Write(input_);
  const FreezeReport report = RunWell(Options(kLossless));
  const auto in = GgufFile::Open(input_);
  const auto out = GgufFile::Open(folder_.PathOf("out.gguf"));
  ASSERT_TRUE(in && out);
  EXPECT_THAT(report.tensors, testing::IsEmpty());
  EXPECT_EQ(report.kept.size(), in->tensors().size());
  ASSERT_EQ(out->tensors().size(), in->tensors().size());
  for (const TensorInfo& tensor : in->tensors()) {
    const TensorInfo* copy = out->FindTensor(tensor.name);
    ASSERT_NE(copy, nullptr) << tensor.name;
    std::vector<std::byte> expected(tensor.bytes);
    std::vector<std::byte> found(copy->bytes);
    ASSERT_TRUE(in->ReadTensor(tensor, 0, expected) && out->ReadTensor(*copy, 0, found));
    EXPECT_EQ(found, expected) << tensor.name;
  }
}

TEST_F(Freeze, RefusesToFreezeTwice) {
  Write(ElementType::kBF16);
  RunWell(Options(kFourBits));
  FreezeOptions options = Options(kFourBits, "twice.gguf");
  options.input = folder_.PathOf("out.gguf");
  EXPECT_THAT(ErrorOf(options), HasSubstr("frozen already"));
}

TEST_F(Freeze, LeavesTheEarlierOutputUntilItIsDone) {
  Write(ElementType::kBF16);
  folder_.Write("out.gguf", "earlier");
  FreezeOptions options = Options(kFourBits);
  options.cancel = &stop_;
  stop_at_ = 3;
  EXPECT_FALSE(Run(options));
  EXPECT_EQ(Output(), "earlier");
}

// What verifying finds in a file with one byte changed.
TEST_F(Freeze, VerifyingFindsWhatDiffers) {
  Write(ElementType::kBF16);
  RunWell(Options(kLossless));
  const auto in = GgufFile::Open(input_);
  const auto plans = PlanFreezing(*in, {.is_lossless = true, .kept = {}});
  ASSERT_TRUE(plans);
  const TensorPlan& plan = plans->back();
  ASSERT_EQ(plan.name, "output.weight");
  ThreadPool pool(2);
  TileDecoder decoder = PortableDecoder();
  const auto verify = [&](const GgufFile& input) {
    const auto out = GgufFile::Open(folder_.PathOf("out.gguf"));
    const auto done =
        VerifyFrozenTensor({.input = &input, .output = &*out, .decoder = &decoder, .pool = &pool},
                           {.plan = &plan}, [](int64_t) {});
    return done ? std::string() : done.error().message;
  };
  EXPECT_EQ(verify(*in), "");
  decoder.decode_bf16 = [](StreamCursor& cursor, std::byte* packed) {
    PortableDecoder().decode_bf16(cursor, packed);
    packed[0] ^= std::byte{1};
  };
  EXPECT_THAT(verify(*in), HasSubstr("row 0 differs"));
  decoder = PortableDecoder();
  std::string changed_input = ReadFile(input_);
  changed_input[plan.tensors[0]->offset + 256 * 2 * 7] ^= 1;
  const auto other = GgufFile::Open(folder_.Write("other.gguf", changed_input));
  EXPECT_THAT(verify(*other), AllOf(HasSubstr("'output.weight'"), HasSubstr("row 7 differs")));
  std::string changed = Output();
  changed[changed.size() - 5000] ^= 1;
  folder_.Write("out.gguf", changed);
  EXPECT_THAT(verify(*in), AllOf(HasSubstr("tile 0"), HasSubstr("hash")));
}

TEST_F(Freeze, VerifyingComparesTheErrorThatWasReported) {
  Write(ElementType::kBF16);
  RunWell(Options(kFourBits));
  const auto in = GgufFile::Open(input_);
  const auto out = GgufFile::Open(folder_.PathOf("out.gguf"));
  const auto plans = PlanFreezing(*in, {});
  ASSERT_TRUE(plans);
  ThreadPool pool(1);
  const auto done =
      VerifyFrozenTensor({.input = &*in, .output = &*out, .pool = &pool},
                         {.plan = &plans->back(), .error = 1, .energy = 1}, [](int64_t) {});
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("was reported"));
}

}  // namespace
}  // namespace thaw
