#include "tokenizer/sentencepiece_encoder.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/utf8.h"
#include "tokenizer/spelling.h"

namespace thaw {

SentencePieceEncoder::SentencePieceEncoder(const TextTable& texts, bool add_space_prefix,
                                           std::optional<int32_t> unk)
    : texts_(texts), add_space_prefix_(add_space_prefix), unk_(unk) {}

Result<std::unique_ptr<SentencePieceEncoder>> SentencePieceEncoder::Create(
    const VocabularyData& data, const TextTable& texts, bool add_space_prefix,
    std::optional<int32_t> unk) {
  std::unique_ptr<SentencePieceEncoder> encoder(
      new SentencePieceEncoder(texts, add_space_prefix, unk));
  THAW_TRY(encoder->RankScores(data));
  encoder->IndexTokens();
  return encoder;
}

Result<void> SentencePieceEncoder::RankScores(const VocabularyData& data) {
  rank_.assign(data.tokens.size(), 0);
  if (data.scores.empty()) return {};
  for (size_t i = 0; i < data.scores.size(); ++i) {
    if (std::isnan(data.scores[i])) {
      return Fail(ErrorCode::kCorrupt,
                  "{}: tokenizer.ggml.scores[{}]: expected a number, found NaN", data.source, i);
    }
  }
  std::vector<uint32_t> order(data.tokens.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](uint32_t a, uint32_t b) { return data.scores[a] > data.scores[b]; });
  for (size_t i = 1; i < order.size(); ++i) {
    const bool lower = data.scores[order[i]] < data.scores[order[i - 1]];
    rank_[order[i]] = rank_[order[i - 1]] + (lower ? 1 : 0);
  }
  return {};
}

void SentencePieceEncoder::IndexTokens() {
  for (int32_t id = 0; id < texts_.size(); ++id) {
    const std::string_view text = texts_.At(id);
    longest_token_ = std::max(longest_token_, text.size());
    for (size_t at = text.find(kSpaceMark, 1); at != std::string_view::npos;
         at = text.find(kSpaceMark, at + 1)) {
      reaches_over_space_[static_cast<uint8_t>(text[at - 1])] = true;
    }
  }
  for (size_t i = 0; i < 256; ++i) {
    const auto byte = static_cast<char>(i);
    byte_tokens_[i] = texts_.Find(ByteTokenText(static_cast<uint8_t>(i))).value_or(-1);
    if (i < ascii_tokens_.size()) ascii_tokens_[i] = texts_.Find({&byte, 1}).value_or(-1);
  }
}

Result<void> SentencePieceEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  SymbolMerger merger;
  std::string piece;
  if (add_space_prefix_) piece = kSpaceMark;
  for (size_t i = 0; i < text.size();) {
    const size_t length = DecodeUtf8(text, i).length;
    std::string_view character = text.substr(i, length);
    if (character == " ") character = kSpaceMark;
    if (character == kSpaceMark && !piece.empty() &&
        !reaches_over_space_[static_cast<uint8_t>(piece.back())]) {
      EncodePiece(piece, merger, ids);
      piece.clear();
    }
    piece += character;
    i += length;
  }
  EncodePiece(piece, merger, ids);
  return {};
}

void SentencePieceEncoder::EncodePiece(std::string_view piece, SymbolMerger& merger,
                                       std::vector<int32_t>& ids) const {
  merger.Clear();
  for (size_t i = 0; i < piece.size();) {
    const auto first = static_cast<uint8_t>(piece[i]);
    if (first < ascii_tokens_.size()) {
      merger.Add(ascii_tokens_[first], 1);
      ++i;
    } else {
      const uint32_t length = DecodeUtf8(piece, i).length;
      merger.Add(texts_.Find(piece.substr(i, length)).value_or(-1), length);
      i += length;
    }
  }
  merger.Run([&](const Symbol& left, const Symbol& right) -> std::optional<Merge> {
    const size_t length = size_t{left.length} + right.length;
    if (length > longest_token_) return std::nullopt;
    const auto id = texts_.Find(piece.substr(left.begin, length));
    if (!id) return std::nullopt;
    return Merge{rank_[static_cast<size_t>(*id)], *id};
  });
  merger.ForEach([&](const Symbol& symbol) {
    if (symbol.id >= 0) {
      ids.push_back(symbol.id);
    } else {
      SpellUnknown(piece.substr(symbol.begin, symbol.length), ids);
    }
  });
}

void SentencePieceEncoder::SpellUnknown(std::string_view character,
                                        std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  for (const char byte : character) {
    const int32_t id = byte_tokens_[static_cast<uint8_t>(byte)];
    if (id < 0) {
      ids.resize(before);
      if (unk_) ids.push_back(*unk_);
      return;
    }
    ids.push_back(id);
  }
}

}  // namespace thaw
