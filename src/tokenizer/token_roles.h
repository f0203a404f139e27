// What tokens are for, where the file's kinds and ids do not say or say it wrongly: many files mark
// "<|im_end|>" as ordinary text or name only one of several tokens that end an answer, so the texts
// themselves are looked at, as every engine does.
#pragma once

#include <cstdint>
#include <vector>

#include "tokenizer/text_table.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

struct TokenRoles {
  std::vector<TokenKind> kinds;            // one a token, corrected
  std::vector<int32_t> end_of_generation;  // ascending
};

// `texts` begins with data's tokens, `kinds` are as the file has them. Ids in `data` that lie
// outside the vocabulary count as absent.
TokenRoles AssignTokenRoles(const VocabularyData& data, const TextTable& texts,
                            std::vector<TokenKind> kinds);

// `id` if it is a token of a vocabulary of `token_count`.
std::optional<int32_t> ValidId(std::optional<int64_t> id, int32_t token_count);

}  // namespace thaw
