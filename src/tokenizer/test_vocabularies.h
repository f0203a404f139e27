// Small vocabularies for tests and fuzzing: complete (every byte can be spelled), with control and
// user-defined tokens, small enough to reason about by hand.
#pragma once

#include <string>
#include <string_view>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/spelling.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

inline void AddTestToken(VocabularyData& data, std::string_view text, TokenKind kind,
                         float score = 0) {
  data.tokens.emplace_back(text);
  data.kinds.push_back(static_cast<int32_t>(kind));
  if (data.model == "llama") data.scores.push_back(score);
}

// Ids: 0 <unk>, 1 <s>, 2 </s>, 3 [user], 4 to 259 the bytes, then words.
inline VocabularyData TinySentencePiece() {
  VocabularyData data;
  data.source = "tiny-spm.gguf";
  data.model = "llama";
  AddTestToken(data, "<unk>", TokenKind::kUnknown);
  AddTestToken(data, "<s>", TokenKind::kControl);
  AddTestToken(data, "</s>", TokenKind::kControl);
  AddTestToken(data, "[user]", TokenKind::kUserDefined);
  for (int byte = 0; byte < 256; ++byte) {
    AddTestToken(data, ByteTokenText(static_cast<uint8_t>(byte)), TokenKind::kByte);
  }
  float score = -1;
  for (const char* word : {"\u2581\u2581",
                           "\u2581a",
                           "ab",
                           "\u2581ab",
                           "abc",
                           "\u2581the",
                           "th",
                           "he",
                           "the",
                           "\u2581t",
                           "aa",
                           "aaaa",
                           "\u00e9\u00e9",
                           "\u2581",
                           "a",
                           "b",
                           "c",
                           "t",
                           "h",
                           "e",
                           "\u00e9"}) {
    AddTestToken(data, word, TokenKind::kNormal, score);
    score -= 1;
  }
  return data;
}

// Ids: 0 to 255 the bytes in order, then merged texts, then <|end|>, <|im_end|> and [user].
inline VocabularyData TinyBytePair(std::string_view pre = "gpt-2") {
  VocabularyData data;
  data.source = "tiny-bpe.gguf";
  data.model = "gpt2";
  data.pre = pre;
  for (int byte = 0; byte < 256; ++byte) {
    AddTestToken(data, ByteCharacter(static_cast<uint8_t>(byte)), TokenKind::kNormal);
  }
  for (const char* merge : {"h e", "t he", "\u0120 the", "a b", "ab c", "a a", "aa aa",
                            "\u0120 \u0120", "l l", "' s", "1 2", "12 3"}) {
    data.merges.emplace_back(merge);
    std::string text = merge;
    text.erase(text.find(' '), 1);
    AddTestToken(data, text, TokenKind::kNormal);
  }
  AddTestToken(data, "<|end|>", TokenKind::kControl);
  AddTestToken(data, "<|im_end|>", TokenKind::kControl);
  AddTestToken(data, "[user]", TokenKind::kUserDefined);
  return data;
}

}  // namespace thaw
