// Byte-pair encoding with ranked merges.
//
// The text is cut into words (pre_tokenizers.h); a word begins as its bytes, or its characters
// where the vocabulary is not byte-level, and neighbours are merged by rank. A merged text that is
// no token comes out as its bytes; a byte that no token spells is left out.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "tokenizer/merge_table.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/regex_splitter.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/text_table.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

class BytePairEncoder : public TextEncoder {
 public:
  // `texts` holds the tokens of `data`; texts that only merges name are added behind them. It must
  // outlive the encoder. kCorrupt for a merge that is not two texts with a space between them.
  static Result<std::unique_ptr<BytePairEncoder>> Create(const VocabularyData& data,
                                                         const PreTokenizer& pre_tokenizer,
                                                         TextTable& texts);

  Result<void> Encode(std::string_view text, std::vector<int32_t>& ids) const override;

 private:
  class Session;
  BytePairEncoder(const PreTokenizer& pre_tokenizer, const TextTable& texts, RegexSplitter splitter,
                  size_t merge_count);

  Result<void> AddMerge(const VocabularyData& data, size_t index, TextTable& texts);
  // Fills byte_tokens_ and byte_symbols_.
  void IndexBytes(TextTable& texts);

  const PreTokenizer& pre_tokenizer_;
  const TextTable& texts_;
  int32_t token_count_;  // texts_ from here on are no tokens
  RegexSplitter splitter_;
  MergeTable merges_;
  std::array<int32_t, 256> byte_symbols_{};  // byte-level: the text that a byte begins as
  std::array<int32_t, 256> byte_tokens_{};   // the token that spells a byte; -1: none
};

}  // namespace thaw
