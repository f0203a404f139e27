// The first byte chooses: the rest as text for one of two small complete vocabularies, which
// decoding must give back, or as a vocabulary of its own, whatever it says.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/test_vocabularies.h"
#include "tokenizer/tokenizer.h"

namespace thaw {
namespace {

// Takes values off the front of the input; zeros behind its end.
class Input {
 public:
  explicit Input(std::string_view bytes) : bytes_(bytes) {}

  uint8_t Byte() {
    if (bytes_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(bytes_.front());
    bytes_.remove_prefix(1);
    return byte;
  }
  std::string_view Text() {
    const std::string_view text = bytes_.substr(0, Byte() % 8);
    bytes_.remove_prefix(std::min(text.size(), bytes_.size()));
    return text;
  }
  std::string_view Rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

void CheckIds(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  for (const int32_t id : ids) THAW_CHECK(id >= 0 && id < tokenizer.n_tokens());
  THAW_CHECK(IsValidUtf8(tokenizer.Decode(ids, true)));
  THAW_CHECK(IsValidUtf8(tokenizer.Decode(ids, false)));
}

void EncodeAndDecode(const Tokenizer& tokenizer, std::string_view text) {
  const auto plain = tokenizer.Encode(
      text, {.bos = EncodeOptions::Bos::kNever, .add_eos = false, .parse_special = false});
  THAW_CHECK(plain.has_value());
  CheckIds(tokenizer, *plain);
  const bool has_user_token = text.find("[user]") != std::string_view::npos;
  const bool has_space_mark = text.find(kSpaceMark) != std::string_view::npos;
  if (!tokenizer.adds_space_prefix()) {
    THAW_CHECK(tokenizer.Decode(*plain) == ReplaceStrayBytes(text));
  } else if (IsValidUtf8(text) && !has_user_token && !has_space_mark) {
    THAW_CHECK(tokenizer.Decode(*plain) == text);
  }
  const auto special = tokenizer.Encode(text);
  THAW_CHECK(special.has_value());
  CheckIds(tokenizer, *special);
}

const Tokenizer& SmallTokenizer(size_t choice) {
  static const auto& tokenizers = *new std::vector<std::unique_ptr<Tokenizer>>([] {
    std::vector<std::unique_ptr<Tokenizer>> made;
    made.push_back(*Tokenizer::Create(TinySentencePiece()));
    for (const char* pre : {"gpt-2", "llama-bpe", "gpt-4o", "deepseek-llm", "deepseek-v3", "afmoe",
                            "exaone-moe", "jais-2", "bloom", "kimi-k2"}) {
      made.push_back(*Tokenizer::Create(TinyBytePair(pre)));
    }
    return made;
  }());
  return *tokenizers[choice % tokenizers.size()];
}

void TryVocabulary(Input input) {
  const char* models[] = {"llama", "gpt2", "gemma4", "none"};
  VocabularyData data;
  data.source = "fuzz";
  data.model = models[input.Byte() % 4];
  data.pre = input.Byte() % 2 != 0 ? "gpt-2" : "qwen2";
  if (input.Byte() % 4 == 0) data.model_name = "phi-3";
  const size_t token_count = input.Byte() % 32;
  for (size_t i = 0; i < token_count; ++i) data.tokens.emplace_back(input.Text());
  for (size_t n = input.Byte() % 2 != 0 ? token_count : input.Byte() % 4; n > 0; --n) {
    data.kinds.push_back(input.Byte() % 8);
  }
  for (size_t n = input.Byte() % 2 != 0 ? token_count : input.Byte() % 4; n > 0; --n) {
    uint32_t bits = 0;
    for (int i = 0; i < 4; ++i) bits = bits << 8 | input.Byte();
    data.scores.emplace_back();
    std::memcpy(&data.scores.back(), &bits, sizeof bits);
  }
  for (size_t n = input.Byte() % 16; n > 0; --n) {
    data.merges.emplace_back(input.Text());
    if (input.Byte() % 8 != 0) data.merges.back() += " " + std::string(input.Text());
  }
  for (auto id : {&VocabularyData::bos, &VocabularyData::eos, &VocabularyData::unk,
                  &VocabularyData::fim_pad}) {
    if (input.Byte() % 2 != 0) data.*id = static_cast<int8_t>(input.Byte());
  }
  if (input.Byte() % 2 != 0) data.add_bos = input.Byte() % 2 != 0;
  if (input.Byte() % 2 != 0) data.add_eos = input.Byte() % 2 != 0;

  const auto tokenizer = Tokenizer::Create(std::move(data));
  if (!tokenizer) {
    THAW_CHECK(IsValidUtf8(tokenizer.error().message));
    return;
  }
  for (const bool parse_special : {false, true}) {
    const auto ids = (*tokenizer)->Encode(input.Rest(), {.parse_special = parse_special});
    THAW_CHECK(ids.has_value());
    CheckIds(**tokenizer, *ids);
  }
}

}  // namespace
}  // namespace thaw

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  thaw::Input input(std::string_view(reinterpret_cast<const char*>(data), size));
  const uint8_t choice = input.Byte();
  if (choice < 128) {
    thaw::EncodeAndDecode(thaw::SmallTokenizer(choice), input.Rest());
  } else {
    thaw::TryVocabulary(input);
  }
  return 0;
}
