// SentencePiece-style encoding: neighbouring characters are merged while the text they make is a
// token, the one of the highest score first. Spaces are written as U+2581; a character that is no
// token is spelled in byte tokens, or as the unknown token where there are none.
//
// The text is not cut into words, but merging never reaches over a place where no token does, so it
// is done from one such place to the next: that changes nothing but memory and time.
#pragma once

#include <array>
#include <memory>
#include <optional>

#include "tokenizer/symbol_merger.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/text_table.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

class SentencePieceEncoder : public TextEncoder {
 public:
  // `texts` holds the tokens of `data` and must outlive the encoder. Every token takes part, of
  // whatever kind. kCorrupt when a score is not a number.
  static Result<std::unique_ptr<SentencePieceEncoder>> Create(const VocabularyData& data,
                                                              const TextTable& texts,
                                                              bool add_space_prefix,
                                                              std::optional<int32_t> unk);

  Result<void> Encode(std::string_view text, std::vector<int32_t>& ids) const override;

 private:
  SentencePieceEncoder(const TextTable& texts, bool add_space_prefix, std::optional<int32_t> unk);

  Result<void> RankScores(const VocabularyData& data);
  void IndexTokens();
  // `piece` has its spaces written as U+2581.
  void EncodePiece(std::string_view piece, SymbolMerger& merger, std::vector<int32_t>& ids) const;
  void SpellUnknown(std::string_view character, std::vector<int32_t>& ids) const;

  const TextTable& texts_;
  bool add_space_prefix_;
  std::optional<int32_t> unk_;
  std::vector<uint32_t> rank_;  // of each token: 0 has the highest score; equal scores, equal ranks
  size_t longest_token_ = 0;    // in bytes
  std::array<int32_t, 128> ascii_tokens_{};  // the token of each character; -1: none
  std::array<int32_t, 256> byte_tokens_{};   // the token that spells each byte; -1: none
  // Whether some token has a space mark right behind this byte, so that merging may reach over it.
  std::array<bool, 256> reaches_over_space_{};
};

}  // namespace thaw
