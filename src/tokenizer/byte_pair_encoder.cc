#include "tokenizer/byte_pair_encoder.h"

#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/spelling.h"
#include "tokenizer/symbol_merger.h"

namespace thaw {

// Encodes the words of one text.
class BytePairEncoder::Session {
 public:
  Session(const BytePairEncoder& encoder, std::vector<int32_t>& ids)
      : encoder_(encoder), ids_(ids) {}

  void EncodeWord(std::string_view word) {
    const PreTokenizer& rules = encoder_.pre_tokenizer_;
    const bool newlines =
        rules.whole_newline_runs && word.find_first_not_of('\n') == std::string_view::npos;
    if ((rules.ignore_merges || newlines) && EncodeWhole(word)) return;

    merger_.Clear();
    if (rules.byte_level) {
      for (const char byte : word) {
        merger_.Add(encoder_.byte_symbols_[static_cast<uint8_t>(byte)], 1);
      }
    } else {
      for (size_t i = 0; i < word.size();) {
        const uint32_t length = DecodeUtf8(word, i).length;
        merger_.Add(encoder_.texts_.Find(word.substr(i, length)).value_or(-1), length);
        i += length;
      }
    }
    merger_.Run([this](const Symbol& left, const Symbol& right) {
      return encoder_.merges_.Find(left.id, right.id);
    });
    merger_.ForEach([&](const Symbol& symbol) {
      if (symbol.id >= 0 && symbol.id < encoder_.token_count_) {
        ids_.push_back(symbol.id);
      } else {
        SpellInBytes(word.substr(symbol.begin, symbol.length));
      }
    });
  }

 private:
  bool EncodeWhole(std::string_view word) {
    if (encoder_.pre_tokenizer_.byte_level) {
      spelled_.clear();
      AppendInByteAlphabet(word, spelled_);
      word = spelled_;
    }
    const auto id = encoder_.texts_.Find(word);
    if (!id || *id >= encoder_.token_count_) return false;
    ids_.push_back(*id);
    return true;
  }

  void SpellInBytes(std::string_view bytes) {
    for (const char byte : bytes) {
      const int32_t id = encoder_.byte_tokens_[static_cast<uint8_t>(byte)];
      if (id >= 0) ids_.push_back(id);
    }
  }

  const BytePairEncoder& encoder_;
  std::vector<int32_t>& ids_;
  SymbolMerger merger_;
  std::string spelled_;
};

BytePairEncoder::BytePairEncoder(const PreTokenizer& pre_tokenizer, const TextTable& texts,
                                 RegexSplitter splitter, size_t merge_count)
    : pre_tokenizer_(pre_tokenizer),
      texts_(texts),
      token_count_(texts.size()),
      splitter_(std::move(splitter)),
      merges_(merge_count) {}

Result<std::unique_ptr<BytePairEncoder>> BytePairEncoder::Create(const VocabularyData& data,
                                                                 const PreTokenizer& pre_tokenizer,
                                                                 TextTable& texts) {
  THAW_ASSIGN(RegexSplitter splitter, RegexSplitter::Create(pre_tokenizer.passes));
  std::unique_ptr<BytePairEncoder> encoder(
      new BytePairEncoder(pre_tokenizer, texts, std::move(splitter), data.merges.size()));
  for (size_t i = 0; i < data.merges.size(); ++i) THAW_TRY(encoder->AddMerge(data, i, texts));
  encoder->IndexBytes(texts);
  return encoder;
}

Result<void> BytePairEncoder::AddMerge(const VocabularyData& data, size_t index, TextTable& texts) {
  const std::string_view merge = data.merges[index];
  // The left text is not empty, so the space is looked for behind its first byte.
  const size_t space = merge.find(' ', 1);
  if (space == std::string_view::npos || space + 1 == merge.size()) {
    return Fail(ErrorCode::kCorrupt,
                "{}: tokenizer.ggml.merges[{}]: expected two texts with a space between them, "
                "found '{}'",
                data.source, index, ReplaceInvalidUtf8(merge));
  }
  const std::string_view left = merge.substr(0, space);
  const std::string_view right = merge.substr(space + 1);
  const int32_t left_id = texts.Intern(left);
  const int32_t right_id = texts.Intern(right);
  std::string merged(left);
  merged += right;
  merges_.Add(left_id, right_id, {static_cast<uint32_t>(index), texts.Intern(merged)});
  return {};
}

void BytePairEncoder::IndexBytes(TextTable& texts) {
  for (int i = 0; i < 256; ++i) {
    const auto byte = static_cast<uint8_t>(i);
    const auto token = pre_tokenizer_.byte_level ? texts.Find(ByteCharacter(byte))
                                                 : texts.Find(ByteTokenText(byte));
    byte_tokens_[byte] = token && *token < token_count_ ? *token : -1;
    byte_symbols_[byte] = pre_tokenizer_.byte_level ? texts.Intern(ByteCharacter(byte)) : -1;
  }
}

Result<void> BytePairEncoder::Encode(std::string_view text, std::vector<int32_t>& ids) const {
  Session session(*this, ids);
  const auto encode_word = [&](std::string_view word) { session.EncodeWord(word); };
  if (pre_tokenizer_.byte_level && IsValidUtf8(text)) return splitter_.Split(text, encode_word);
  std::string prepared = ReplaceStrayBytes(text);
  if (!pre_tokenizer_.byte_level) prepared = EscapeSpaces(prepared);
  return splitter_.Split(prepared, encode_word);
}

}  // namespace thaw
