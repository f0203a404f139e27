#include "model/vocabulary.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/paths.h"
#include "tokenizer/tokenizer.h"

namespace thaw {
namespace {

std::unique_ptr<Tokenizer> Load(const std::filesystem::path& path) {
  const auto file = GgufFile::Open(path.string());
  EXPECT_TRUE(file.has_value()) << file.error().message;
  auto data = ReadVocabulary(*file);
  EXPECT_TRUE(data.has_value()) << data.error().message;
  auto tokenizer = Tokenizer::Create(*std::move(data));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

// Texts and their ids, made by another program: no BOS, control tokens as plain text.
void ExpectIdsOf(const std::filesystem::path& vocabulary) {
  SCOPED_TRACE(vocabulary.filename().string());
  const auto tokenizer = Load(vocabulary);
  std::filesystem::path list = vocabulary;
  std::ifstream stream(list.replace_extension(".json"));
  const nlohmann::json cases = nlohmann::json::parse(stream);
  ASSERT_GT(cases.size(), 10u);
  for (const auto& item : cases) {
    const std::string text = item.at("text");
    const std::vector<int32_t> expected = item.at("ids");
    const auto ids = tokenizer->Encode(
        text, {.bos = EncodeOptions::Bos::kNever, .add_eos = false, .parse_special = false});
    ASSERT_TRUE(ids.has_value());
    EXPECT_EQ(*ids, expected) << text;
    EXPECT_EQ(tokenizer->Decode(*ids), text);
  }
}

std::vector<std::filesystem::path> VocabulariesIn(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".gguf") found.push_back(entry.path());
  }
  return found;
}

TEST(VocabularyTest, GoldenTextsGetTheIdsOfTheReference) {
  const auto vocabularies = VocabulariesIn(GoldenDir() / "tokenizers");
  ASSERT_GE(vocabularies.size(), 2u);
  for (const auto& vocabulary : vocabularies) ExpectIdsOf(vocabulary);
}

TEST(VocabularyTest, ConformanceTextsGetTheIdsOfTheReference) {
  const auto folder = ConformanceDir();
  if (folder.empty()) GTEST_SKIP() << "the conformance folder is absent";
  const auto vocabularies = VocabulariesIn(folder / "tokenizers");
  ASSERT_GE(vocabularies.size(), 6u);
  for (const auto& vocabulary : vocabularies) ExpectIdsOf(vocabulary);
}

TEST(VocabularyTest, RulesAndIdsOfTheFileAreRead) {
  const auto spm = Load(GoldenDir() / "tokenizers" / "llama-spm.gguf");
  EXPECT_EQ(spm->n_tokens(), 32000);
  EXPECT_EQ(spm->bos(), 1);
  EXPECT_EQ(spm->eos(), 2);
  EXPECT_TRUE(spm->adds_bos());
  EXPECT_TRUE(spm->adds_space_prefix());
  EXPECT_TRUE(spm->IsEndOfGeneration(2));
  EXPECT_EQ(spm->Kind(0), TokenKind::kUnknown);
  EXPECT_EQ(spm->TokenToBytes(*spm->Find("<0x0A>")), "\n");

  const auto bpe = Load(GoldenDir() / "tokenizers" / "gpt-2.gguf");
  EXPECT_EQ(bpe->n_tokens(), 50257);
  EXPECT_FALSE(bpe->adds_bos());
  EXPECT_TRUE(bpe->IsEndOfGeneration(*bpe->Find("<|endoftext|>")));
}

}  // namespace
}  // namespace thaw
