#include "tokenizer/token_roles.h"

#include <gmock/gmock.h>

namespace thaw {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A vocabulary of these tokens, ids in order.
class TokenRolesTest : public ::testing::Test {
 protected:
  void Add(std::string_view text, TokenKind kind) {
    texts_.Append(text);
    kinds_.push_back(kind);
  }
  TokenRoles Assign() { return AssignTokenRoles(data_, texts_, kinds_); }

  VocabularyData data_;
  TextTable texts_;
  std::vector<TokenKind> kinds_;
};

TEST_F(TokenRolesTest, IdsOfTheFileEndGeneration) {
  for (const char* text : {"a", "b", "c", "d"}) Add(text, TokenKind::kNormal);
  data_.eos = 3;
  data_.eot = 1;
  data_.eom = 1;
  EXPECT_THAT(Assign().end_of_generation, ElementsAre(1, 3));
}

TEST_F(TokenRolesTest, IdsOutsideTheVocabularyCountAsAbsent) {
  Add("a", TokenKind::kNormal);
  data_.eos = 1;
  data_.eot = -1;
  data_.eom = 4294967295;
  EXPECT_THAT(Assign().end_of_generation, IsEmpty());
}

TEST_F(TokenRolesTest, KnownTextsEndGenerationAndAreControlTokens) {
  Add("<|im_end|>", TokenKind::kNormal);
  Add("<end_of_turn>", TokenKind::kUserDefined);
  Add("</s>", TokenKind::kControl);
  const TokenRoles roles = Assign();
  EXPECT_THAT(roles.end_of_generation, ElementsAre(0, 1, 2));
  EXPECT_THAT(roles.kinds,
              ElementsAre(TokenKind::kControl, TokenKind::kControl, TokenKind::kControl));
}

TEST_F(TokenRolesTest, MarkupThatWasLearnedFromTextIsNoEnd) {
  Add("</s>", TokenKind::kNormal);
  Add("<EOT>", TokenKind::kNormal);
  const TokenRoles roles = Assign();
  EXPECT_THAT(roles.end_of_generation, IsEmpty());
  EXPECT_THAT(roles.kinds, ElementsAre(TokenKind::kNormal, TokenKind::kNormal));
}

TEST_F(TokenRolesTest, FillInTheMiddleTokensAreControlAndSomeEndGeneration) {
  Add("<|fim_prefix|>", TokenKind::kNormal);
  Add("<|fim_pad|>", TokenKind::kUserDefined);
  Add("<|file_sep|>", TokenKind::kControl);
  const TokenRoles roles = Assign();
  EXPECT_THAT(roles.end_of_generation, ElementsAre(1, 2));
  EXPECT_EQ(roles.kinds[0], TokenKind::kControl);
}

TEST_F(TokenRolesTest, EndOnlyEndsAMessageWhereReturnAndCallEndTheAnswer) {
  Add("<|end|>", TokenKind::kControl);
  Add("<|return|>", TokenKind::kControl);
  EXPECT_THAT(Assign().end_of_generation, ElementsAre(0, 1));
  Add("<|call|>", TokenKind::kControl);
  Add("<|channel|>", TokenKind::kControl);
  const TokenRoles roles = Assign();
  EXPECT_THAT(roles.end_of_generation, ElementsAre(1, 2));
  EXPECT_EQ(roles.kinds[0], TokenKind::kUserDefined);
  EXPECT_EQ(roles.kinds[3], TokenKind::kUserDefined);
}

}  // namespace
}  // namespace thaw
