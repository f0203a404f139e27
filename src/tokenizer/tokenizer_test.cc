#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>

#include <cmath>
#include <thread>

#include "tokenizer/detokenizer.h"
#include "tokenizer/test_vocabularies.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Tokenizer> Make(VocabularyData data) {
  auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_TRUE(tokenizer.has_value()) << tokenizer.error().message;
  return *std::move(tokenizer);
}

Error CreateError(VocabularyData data) {
  const auto tokenizer = Tokenizer::Create(std::move(data));
  EXPECT_FALSE(tokenizer.has_value());
  return tokenizer ? Error{} : tokenizer.error();
}

constexpr EncodeOptions kTextOnly = {
    .bos = EncodeOptions::Bos::kNever, .add_eos = false, .parse_special = false};
constexpr EncodeOptions kWithSpecial = {
    .bos = EncodeOptions::Bos::kNever, .add_eos = false, .parse_special = true};

// The texts of the tokens of `text`.
std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text,
                                const EncodeOptions& options = kTextOnly) {
  const auto ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.has_value());
  std::vector<std::string> pieces;
  for (const int32_t id : *ids) pieces.emplace_back(tokenizer.TokenText(id));
  return pieces;
}

std::vector<std::unique_ptr<Tokenizer>> BothFamilies() {
  std::vector<std::unique_ptr<Tokenizer>> both;
  both.push_back(Make(TinySentencePiece()));
  both.push_back(Make(TinyBytePair()));
  return both;
}

TEST(TokenizerTest, SentencePieceMergesTheHighestScoreFirst) {
  const auto tokenizer = Make(TinySentencePiece());
  // " a" scores above "ab", so " ab" is never seen whole.
  EXPECT_THAT(Pieces(*tokenizer, "ab"), ElementsAre("\u2581ab"));
  EXPECT_THAT(Pieces(*tokenizer, "the the"), ElementsAre("\u2581the", "\u2581the"));
  EXPECT_THAT(Pieces(*tokenizer, "aaaaa"), ElementsAre("\u2581a", "aaaa"));
  EXPECT_THAT(Pieces(*tokenizer, ""), IsEmpty());
}

TEST(TokenizerTest, SentencePieceSpellsWhatItDoesNotKnowInBytes) {
  const auto tokenizer = Make(TinySentencePiece());
  EXPECT_THAT(Pieces(*tokenizer, "\u4e2da"),
              ElementsAre("\u2581", "<0xE4>", "<0xB8>", "<0xAD>", "a"));
  EXPECT_THAT(Pieces(*tokenizer, "\xff"), ElementsAre("\u2581", "<0xFF>"));
}

TEST(TokenizerTest, SentencePieceWithoutByteTokensUsesTheUnknownToken) {
  VocabularyData data;
  data.model = "llama";
  AddTestToken(data, "<unk>", TokenKind::kUnknown);
  AddTestToken(data, "a", TokenKind::kNormal);
  data.add_space_prefix = false;
  const auto tokenizer = Make(std::move(data));
  EXPECT_THAT(Pieces(*tokenizer, "a\u4e2da"), ElementsAre("a", "<unk>", "a"));
}

TEST(TokenizerTest, TheSpacePrefixComesBackBehindSpecialTokens) {
  const auto tokenizer = Make(TinySentencePiece());
  EXPECT_THAT(Pieces(*tokenizer, "<s>ab</s>ab", kWithSpecial),
              ElementsAre("<s>", "\u2581ab", "</s>", "\u2581ab"));
  VocabularyData data = TinySentencePiece();
  data.add_space_prefix = false;
  EXPECT_THAT(Pieces(*Make(std::move(data)), "ab"), ElementsAre("ab"));
}

TEST(TokenizerTest, MergingReachesOverSpacesWhereATokenDoes) {
  VocabularyData data = TinySentencePiece();
  AddTestToken(data, "a\u2581", TokenKind::kNormal, 5);
  AddTestToken(data, "a\u2581b", TokenKind::kNormal, 4);
  EXPECT_THAT(Pieces(*Make(std::move(data)), "ca b"), ElementsAre("\u2581", "c", "a\u2581b"));
}

TEST(TokenizerTest, BytePairsMergeByRankWithinWords) {
  const auto tokenizer = Make(TinyBytePair());
  EXPECT_THAT(Pieces(*tokenizer, "the the"), ElementsAre("the", "\u0120the"));
  EXPECT_THAT(Pieces(*tokenizer, "abcab"), ElementsAre("abc", "ab"));
  EXPECT_THAT(Pieces(*tokenizer, "aaaaaaa"), ElementsAre("aaaa", "aa", "a"));
  EXPECT_THAT(Pieces(*tokenizer, "\u00e9"), ElementsAre("\u00c3", "\u00a9"));
}

TEST(TokenizerTest, WholeWordsNeedNoMergesWhereThePreTokenizerSaysSo) {
  VocabularyData data = TinyBytePair("llama-bpe");
  AddTestToken(data, "\u0120zebra", TokenKind::kNormal);
  EXPECT_THAT(Pieces(*Make(data), "a zebra"), ElementsAre("a", "\u0120zebra"));
  data.pre = "dbrx";
  EXPECT_EQ(Pieces(*Make(data), "a zebra").size(), 7u);
}

TEST(TokenizerTest, AMergedTextThatIsNoTokenComesOutAsItsBytes) {
  VocabularyData data = TinyBytePair();
  data.merges.push_back("z z");
  data.merges.push_back("zz q");
  EXPECT_THAT(Pieces(*Make(std::move(data)), "zzq"), ElementsAre("z", "z", "q"));
}

TEST(TokenizerTest, AByteThatNoTokenSpellsIsLeftOut) {
  VocabularyData data;
  data.model = "gpt2";
  AddTestToken(data, "a", TokenKind::kNormal);
  EXPECT_THAT(Pieces(*Make(std::move(data)), "abba"), ElementsAre("a", "a"));
}

TEST(TokenizerTest, LineVocabulariesMergeAcrossWordsAndKeepNewlineRuns) {
  VocabularyData data;
  data.model = "gemma4";
  for (const char* text : {"a", "b", "\u2581", "a\u2581", "a\u2581b", "\n", "\n\n"}) {
    AddTestToken(data, text, TokenKind::kNormal);
  }
  AddTestToken(data, "<0xC3>", TokenKind::kByte);
  AddTestToken(data, "<0xA9>", TokenKind::kByte);
  data.merges = {"a \u2581", "a\u2581 b"};
  const auto tokenizer = Make(std::move(data));
  EXPECT_THAT(Pieces(*tokenizer, "a b\n\n\u00e9"),
              ElementsAre("a\u2581b", "\n\n", "<0xC3>", "<0xA9>"));
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode("a b\n\n\u00e9")), "a b\n\n\u00e9");
}

TEST(TokenizerTest, ControlTokensInTheTextAreTextUnlessAskedFor) {
  const auto tokenizer = Make(TinyBytePair());
  EXPECT_THAT(Pieces(*tokenizer, "a<|end|>", kWithSpecial), ElementsAre("a", "<|end|>"));
  EXPECT_EQ(Pieces(*tokenizer, "a<|end|>").size(), 8u);
}

TEST(TokenizerTest, UserDefinedTokensAreAlwaysCutOut) {
  const auto tokenizer = Make(TinyBytePair());
  EXPECT_THAT(Pieces(*tokenizer, "a[user]a"), ElementsAre("a", "[user]", "a"));
}

TEST(TokenizerTest, PhiThreeTokensSwallowTheSpaceBehindThem) {
  VocabularyData data = TinyBytePair();
  data.model_name = "Phi-3 mini";
  EXPECT_THAT(Pieces(*Make(std::move(data)), "<|end|> \n a", kWithSpecial),
              ElementsAre("<|end|>", "a"));
}

TEST(TokenizerTest, StrayBytesBecomeReplacementCharactersInByteLevelVocabularies) {
  const auto tokenizer = Make(TinyBytePair());
  EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode("a\xff\xe4\xb8")), "a\ufffd\ufffd\ufffd");
}

TEST(TokenizerTest, BosAndEosFollowTheFileThenTheFamily) {
  const auto spm = Make(TinySentencePiece());
  EXPECT_TRUE(spm->adds_bos());
  EXPECT_FALSE(spm->adds_eos());
  EXPECT_THAT(*spm->Encode("ab"), ElementsAre(1, *spm->Find("\u2581ab")));

  VocabularyData data = TinySentencePiece();
  data.add_bos = false;
  data.add_eos = true;
  EXPECT_THAT(*Make(data)->Encode(""), ElementsAre(2));

  VocabularyData bpe = TinyBytePair();
  bpe.bos = 7;
  EXPECT_THAT(*Make(bpe)->Encode(""), IsEmpty());
  bpe.pre = "llama-bpe";
  EXPECT_THAT(*Make(bpe)->Encode(""), ElementsAre(7));
  bpe.bos = 1'000'000;
  EXPECT_FALSE(Make(bpe)->adds_bos());
}

TEST(TokenizerTest, ATextThatBeginsWithBosGetsNoSecondOneWhenAsked) {
  const auto tokenizer = Make(TinySentencePiece());
  EXPECT_THAT(*tokenizer->Encode("<s>", {.bos = EncodeOptions::Bos::kRule}), ElementsAre(1, 1));
  EXPECT_THAT(*tokenizer->Encode("<s>", {.bos = EncodeOptions::Bos::kRuleUnlessPresent}),
              ElementsAre(1));
  EXPECT_THAT(*tokenizer->Encode("", {.bos = EncodeOptions::Bos::kRuleUnlessPresent}),
              ElementsAre(1));
  EXPECT_THAT(*tokenizer->Encode("<s>", {.bos = EncodeOptions::Bos::kNever}), ElementsAre(1));
}

TEST(TokenizerTest, EndOfGenerationHoldsTheFilesIdsAndKnownTexts) {
  VocabularyData data = TinyBytePair();
  data.eos = 5;
  const auto tokenizer = Make(std::move(data));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(5));
  EXPECT_TRUE(tokenizer->IsEndOfGeneration(*tokenizer->Find("<|im_end|>")));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(6));
  EXPECT_FALSE(tokenizer->IsEndOfGeneration(-1));
}

TEST(TokenizerTest, DecodingGivesTheTextBack) {
  const std::string texts[] = {
      "", "the the", " a", "  a  ", "\u4e2d\u6587 \U0001f600\r\n\t", "<s>[user]"};
  for (const auto& tokenizer : BothFamilies()) {
    for (const std::string& text : texts) {
      EXPECT_EQ(tokenizer->Decode(*tokenizer->Encode(text, kTextOnly)), text);
    }
  }
}

TEST(TokenizerTest, ControlTokensAreHiddenUnlessRendered) {
  const auto tokenizer = Make(TinySentencePiece());
  const auto ids = *tokenizer->Encode("ab</s>");
  EXPECT_EQ(tokenizer->Decode(ids), "ab");
  EXPECT_EQ(tokenizer->Decode(ids, true), "<s> ab</s>");
}

TEST(DetokenizerTest, NoCharacterIsSplit) {
  const auto tokenizer = Make(TinyBytePair());
  Detokenizer detokenizer(*tokenizer);
  std::vector<std::string> parts;
  const auto ids = *tokenizer->Encode("\u4e2d");
  for (const int32_t id : ids) parts.push_back(detokenizer.Push(id));
  EXPECT_THAT(parts, ElementsAre("", "", "\u4e2d"));
  EXPECT_EQ(detokenizer.Finish(), "");
}

TEST(DetokenizerTest, AnUnfinishedCharacterComesOutReplaced) {
  const auto tokenizer = Make(TinyBytePair());
  Detokenizer detokenizer(*tokenizer);
  EXPECT_EQ(detokenizer.Push(0xe4), "");
  EXPECT_EQ(detokenizer.Push('a'), "\ufffda");
  EXPECT_EQ(detokenizer.Push(0xe4), "");
  EXPECT_EQ(detokenizer.Finish(), "\ufffd");
}

TEST(DetokenizerTest, TheSpaceOfTheStartIsTakenOffOnceAndNotInAContinuation) {
  const auto tokenizer = Make(TinySentencePiece());
  const int32_t word = *tokenizer->Find("\u2581ab");
  Detokenizer start(*tokenizer);
  EXPECT_EQ(start.Push(1), "");
  EXPECT_EQ(start.Push(word), "ab");
  EXPECT_EQ(start.Push(word), " ab");
  Detokenizer continuation(*tokenizer, {.render_special = false, .at_text_start = false});
  EXPECT_EQ(continuation.Push(word), " ab");
}

TEST(TokenizerTest, OneTokenizerServesManyThreads) {
  const auto tokenizer = Make(TinyBytePair());
  const auto expected = *tokenizer->Encode("the abc <|end|> the");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        EXPECT_EQ(*tokenizer->Encode("the abc <|end|> the"), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Quadratic work would take hours here.
TEST(TokenizerTest, LongTextsAreEncodedInLinearTime) {
  const auto repeat = [](std::string_view unit) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    return text;
  };
  const std::string texts[] = {repeat("a"),         repeat("abcthe"),     repeat(" "),
                               repeat("\n"),        repeat("\U0001f600"), repeat("<|im_end|>"),
                               repeat("<|im_end|"), repeat("[user] the ")};
  for (const auto& tokenizer : BothFamilies()) {
    for (const std::string& text : texts) {
      const auto ids = tokenizer->Encode(text, kWithSpecial);
      ASSERT_TRUE(ids.has_value());
      EXPECT_GT(ids->size(), 10'000u) << text.substr(0, 10);
    }
  }
}

TEST(TokenizerErrorTest, AFileWithoutATokenizerSaysSo) {
  VocabularyData data;
  data.source = "weights.gguf";
  data.model = "none";
  const Error error = CreateError(std::move(data));
  EXPECT_EQ(error.code, ErrorCode::kUnsupported);
  EXPECT_THAT(error.message, AllOf(HasSubstr("weights.gguf"), HasSubstr("no tokenizer")));
}

TEST(TokenizerErrorTest, UnknownNamesAreRefusedWithTheKnownOnes) {
  VocabularyData data = TinyBytePair("no-such-pre");
  const Error pre = CreateError(data);
  EXPECT_EQ(pre.code, ErrorCode::kUnsupported);
  EXPECT_THAT(pre.message,
              AllOf(HasSubstr("tiny-bpe.gguf"), HasSubstr("'no-such-pre'"), HasSubstr("qwen2")));
  data.model = "rwkv";
  EXPECT_THAT(CreateError(data).message, AllOf(HasSubstr("'rwkv'"), HasSubstr("llama")));
}

TEST(TokenizerErrorTest, ListsThatDisagreeAreCorrupt) {
  VocabularyData scores = TinySentencePiece();
  scores.scores.pop_back();
  EXPECT_THAT(CreateError(scores).message,
              HasSubstr("tokenizer.ggml.scores: expected 281 entries, found 280"));
  VocabularyData kinds = TinySentencePiece();
  kinds.kinds.push_back(1);
  EXPECT_THAT(CreateError(kinds).message, HasSubstr("tokenizer.ggml.token_type"));
  VocabularyData empty = TinySentencePiece();
  empty.tokens.clear();
  EXPECT_EQ(CreateError(empty).code, ErrorCode::kCorrupt);
}

TEST(TokenizerErrorTest, AMergeWithoutTwoTextsIsCorrupt) {
  for (const char* merge : {"", " ", "ab", "a ", " a"}) {
    VocabularyData data = TinyBytePair();
    data.merges[3] = merge;
    EXPECT_THAT(CreateError(data).message, HasSubstr("tokenizer.ggml.merges[3]")) << merge;
  }
}

TEST(TokenizerErrorTest, AScoreThatIsNotANumberIsCorrupt) {
  VocabularyData data = TinySentencePiece();
  data.scores[5] = std::nanf("");
  EXPECT_THAT(CreateError(data).message, HasSubstr("tokenizer.ggml.scores[5]"));
}

TEST(TokenizerErrorTest, ATextAboveTheLimitIsRefused) {
  const auto tokenizer = Make(TinyBytePair());
  // Refused by its length alone, so there is no text behind the view.
  const auto ids = tokenizer->Encode(std::string_view("", Tokenizer::kMaxTextBytes + 1));
  ASSERT_FALSE(ids.has_value());
  EXPECT_EQ(ids.error().code, ErrorCode::kInvalidArgument);
}

TEST(TokenizerTest, OddVocabulariesHaveDefinedMeaning) {
  VocabularyData data = TinyBytePair();
  AddTestToken(data, "", TokenKind::kUserDefined);
  AddTestToken(data, "abc", TokenKind::kNormal);
  AddTestToken(data, "<odd>", static_cast<TokenKind>(99));
  AddTestToken(data, "<0xZZ>", TokenKind::kByte);
  const int32_t first = static_cast<int32_t>(data.tokens.size()) - 4;
  data.kinds[static_cast<size_t>(first) + 2] = -7;
  const auto tokenizer = Make(std::move(data));
  EXPECT_THAT(Pieces(*tokenizer, "abc"), ElementsAre("abc"));
  EXPECT_EQ(tokenizer->TokenToBytes(first), "");
  EXPECT_LT(*tokenizer->Find("abc"), first);  // the lower of two ids
  EXPECT_EQ(tokenizer->Kind(first + 2), TokenKind::kUnused);
  EXPECT_EQ(tokenizer->TokenToBytes(first + 2), "");
  EXPECT_EQ(tokenizer->TokenToBytes(first + 3), "<0xZZ>");
}

}  // namespace
}  // namespace thaw
