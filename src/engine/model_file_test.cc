#include "engine/model_file.h"

#include <gmock/gmock.h>

#include "io/temporary_directory.h"
#include "support/tiny_model.h"

namespace thaw {
namespace {

using ::testing::HasSubstr;

GgufFile Open(const TinyModel& model) {
  const TemporaryDirectory directory;
  const std::string path = directory.PathOf("model_file_test.gguf");
  model.Write(path);
  auto file = GgufFile::Open(path);
  THAW_CHECK(file);
  return *std::move(file);
}

TEST(SummarizeModel, StatesTheShape) {
  const auto summary = SummarizeModel(Open({}));
  ASSERT_TRUE(summary) << summary.error().message;
  EXPECT_EQ(summary->n_layers, 2);
  EXPECT_EQ(summary->context_length, 64);
  // 2 layers x 2 KV heads x (8 of a key and 8 of a value) x 2 bytes.
  EXPECT_EQ(summary->kv_bytes_per_position, 128);
}

TEST(SummarizeModel, FailsAsLoadingDoes) {
  TinyModel model;
  model.architecture = "gpt9";
  const auto summary = SummarizeModel(Open(model));
  ASSERT_FALSE(summary);
  EXPECT_THAT(summary.error().message, HasSubstr("'gpt9'"));
}

TEST(LoadTokenizer, ServesFilesWithoutWeights) {
  TinyModel model;
  model.edit_tensors = [](std::vector<TinyModel::Tensor>& tensors) { tensors.clear(); };
  const auto tokenizer = LoadTokenizer(Open(model));
  ASSERT_TRUE(tokenizer) << tokenizer.error().message;
  EXPECT_EQ((*tokenizer)->n_tokens(), TinyModel::kVocabulary);
  EXPECT_TRUE((*tokenizer)->IsEndOfGeneration(TinyModel::kEndOfSequence));
}

}  // namespace
}  // namespace thaw
