#include "tokenizer/tokenizer.h"

#include <algorithm>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/byte_alphabet.h"
#include "tokenizer/byte_pair_encoder.h"
#include "tokenizer/detokenizer.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/sentencepiece_encoder.h"
#include "tokenizer/special_tokens.h"
#include "tokenizer/spelling.h"
#include "tokenizer/text_encoder.h"
#include "tokenizer/text_table.h"
#include "tokenizer/token_roles.h"

namespace thaw {
namespace {

// Ids are int32 and merges may name as many texts again; the largest vocabularies have 0.3 million.
constexpr size_t kMaxTokens = size_t{1} << 24;

// How normal tokens spell their bytes.
enum class Spelling { kByteAlphabet, kSpaceMark };

Result<void> CheckLists(const VocabularyData& data) {
  const size_t count = data.tokens.size();
  if (count == 0) return Fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.tokens: empty", data.source);
  if (count > kMaxTokens || data.merges.size() > kMaxTokens) {
    return Fail(ErrorCode::kUnsupported,
                "{}: {} tokens and {} merges; at most {} of each are supported", data.source, count,
                data.merges.size(), kMaxTokens);
  }
  if (!data.scores.empty() && data.scores.size() != count) {
    return Fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.scores: expected {} entries, found {}",
                data.source, count, data.scores.size());
  }
  if (!data.kinds.empty() && data.kinds.size() != count) {
    return Fail(ErrorCode::kCorrupt, "{}: tokenizer.ggml.token_type: expected {} entries, found {}",
                data.source, count, data.kinds.size());
  }
  return {};
}

// A number that means nothing is taken for a token that is not used.
std::vector<TokenKind> ReadKinds(const VocabularyData& data) {
  std::vector<TokenKind> kinds(data.tokens.size(), TokenKind::kNormal);
  for (size_t i = 0; i < data.kinds.size(); ++i) {
    const int32_t number = data.kinds[i];
    kinds[i] = number >= 1 && number <= 6 ? static_cast<TokenKind>(number) : TokenKind::kUnused;
  }
  return kinds;
}

Result<const PreTokenizer*> ChoosePreTokenizer(const VocabularyData& data) {
  if (data.model == "gemma4") return FindPreTokenizer("gemma4");
  const std::string_view name = data.pre.empty() ? "default" : std::string_view(data.pre);
  const PreTokenizer* found = FindPreTokenizer(name);
  if (found == nullptr) {
    return Fail(ErrorCode::kUnsupported, "{}: tokenizer.ggml.pre '{}' is not known; known are {}",
                data.source, ReplaceInvalidUtf8(name), PreTokenizerNames());
  }
  return found;
}

// Which special tokens swallow the space around them. Files do not say; these models' own
// tokenizers do.
void SetStripping(const VocabularyData& data, std::vector<SpecialToken>& tokens) {
  std::string name = data.model_name;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  const auto contains = [](std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  };
  for (SpecialToken& token : tokens) {
    const std::string_view text = token.text;
    if (data.pre.starts_with("jina-v2-")) {
      token.strips_left = text == "<mask>";
    } else if (contains(name, "phi-3") || contains(name, "phi3")) {
      token.strips_right = text != "<unk>" && text != "<s>" && text != "<|endoftext|>";
    } else if (contains(name, "modern-bert")) {
      token.strips_left = text == "[MASK]";
    }
  }
}

}  // namespace

class Tokenizer::Impl {
 public:
  Result<void> Load(VocabularyData data) {
    THAW_TRY(CheckLists(data));
    size_t bytes = 0;
    for (const std::string& token : data.tokens) bytes += token.size();
    texts_.Reserve(data.tokens.size(), bytes);
    for (const std::string& token : data.tokens) texts_.Append(token);
    TokenRoles roles = AssignTokenRoles(data, texts_, ReadKinds(data));
    kinds_ = std::move(roles.kinds);
    end_of_generation_ = std::move(roles.end_of_generation);
    bos_ = ValidId(data.bos, n_tokens());
    eos_ = ValidId(data.eos, n_tokens());
    unk_ = ValidId(data.unk, n_tokens());
    if (data.model == "llama") {
      THAW_TRY(LoadSentencePiece(data));
    } else {
      THAW_TRY(LoadBytePairs(data));
    }
    add_eos_ = data.add_eos.value_or(false);
    IndexSpecialTokens(data);
    return {};
  }

  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options) const {
    if (text.size() > kMaxTextBytes) {
      return Fail(ErrorCode::kInvalidArgument, "a text of {} bytes; at most {} can be encoded",
                  text.size(), kMaxTextBytes);
    }
    const auto specials = (options.parse_special ? all_specials_ : user_defined_).FindIn(text);
    std::vector<int32_t> ids;
    const bool has_bos = !specials.empty() && specials[0].begin == 0 && specials[0].id == bos_;
    if (add_bos_ && bos_ && options.bos != EncodeOptions::Bos::kNever &&
        !(has_bos && options.bos == EncodeOptions::Bos::kRuleUnlessPresent)) {
      ids.push_back(*bos_);
    }
    size_t done = 0;
    const auto encode_until = [&](size_t end) -> Result<void> {
      if (done == end) return {};
      return encoder_->Encode(text.substr(done, end - done), ids);
    };
    for (const SpecialTokens::Found& special : specials) {
      THAW_TRY(encode_until(special.begin));
      ids.push_back(special.id);
      done = special.end;
    }
    THAW_TRY(encode_until(text.size()));
    if (add_eos_ && eos_ && options.add_eos) ids.push_back(*eos_);
    return ids;
  }

  std::string TokenToBytes(int32_t id, bool render_special) const {
    const std::string_view text = TokenText(id);
    switch (Kind(id)) {
      case TokenKind::kUnknown:
      case TokenKind::kControl:
        return render_special ? std::string(text) : std::string();
      case TokenKind::kUnused:
        return {};
      case TokenKind::kUserDefined:
        return std::string(text);
      case TokenKind::kByte:
        if (const auto byte = ByteOfToken(text)) return {static_cast<char>(*byte)};
        break;
      case TokenKind::kNormal:
        break;
    }
    if (spelling_ == Spelling::kSpaceMark) return UnescapeSpaces(text);
    std::string bytes;
    AppendFromByteAlphabet(text, bytes);
    return bytes;
  }

  int32_t n_tokens() const { return static_cast<int32_t>(kinds_.size()); }
  bool adds_bos() const { return add_bos_ && bos_; }
  bool adds_eos() const { return add_eos_ && eos_; }
  bool adds_space_prefix() const { return add_space_prefix_; }
  std::optional<int32_t> bos() const { return bos_; }
  std::optional<int32_t> eos() const { return eos_; }
  std::optional<int32_t> unk() const { return unk_; }
  const std::vector<int32_t>& end_of_generation() const { return end_of_generation_; }

  std::string_view TokenText(int32_t id) const {
    THAW_CHECK(id >= 0 && id < n_tokens());
    return texts_.At(id);
  }
  TokenKind Kind(int32_t id) const {
    THAW_CHECK(id >= 0 && id < n_tokens());
    return kinds_[static_cast<size_t>(id)];
  }
  std::optional<int32_t> Find(std::string_view token_text) const {
    const auto id = texts_.Find(token_text);
    return id && *id < n_tokens() ? id : std::nullopt;
  }

 private:
  // Where the file names none, these ids have always been <unk>, <s> and </s> in this family.
  Result<void> LoadSentencePiece(const VocabularyData& data) {
    if (!data.unk) unk_ = ValidId(0, n_tokens());
    if (!data.bos) bos_ = ValidId(1, n_tokens());
    if (!data.eos) eos_ = ValidId(2, n_tokens());
    add_bos_ = data.add_bos.value_or(true);
    add_space_prefix_ = data.add_space_prefix.value_or(true);
    spelling_ = Spelling::kSpaceMark;
    THAW_ASSIGN(encoder_, SentencePieceEncoder::Create(data, texts_, add_space_prefix_, unk_));
    return {};
  }

  Result<void> LoadBytePairs(const VocabularyData& data) {
    THAW_ASSIGN(const PreTokenizer* pre, ChoosePreTokenizer(data));
    add_bos_ = data.add_bos.value_or(pre->add_bos);
    spelling_ = pre->byte_level ? Spelling::kByteAlphabet : Spelling::kSpaceMark;
    THAW_ASSIGN(encoder_, BytePairEncoder::Create(data, *pre, texts_));
    return {};
  }

  void IndexSpecialTokens(const VocabularyData& data) {
    std::vector<SpecialToken> all;
    std::vector<SpecialToken> user_defined;
    for (int32_t id = 0; id < n_tokens(); ++id) {
      const TokenKind kind = Kind(id);
      const SpecialToken token = {.text = TokenText(id), .id = id};
      if (token.text.empty()) continue;
      if (kind == TokenKind::kUserDefined) user_defined.push_back(token);
      if (kind == TokenKind::kUserDefined || kind == TokenKind::kControl ||
          kind == TokenKind::kUnknown) {
        all.push_back(token);
      }
    }
    SetStripping(data, all);
    SetStripping(data, user_defined);
    all_specials_ = SpecialTokens(std::move(all));
    user_defined_ = SpecialTokens(std::move(user_defined));
  }

  TextTable texts_;  // the tokens, then texts that only merges name
  std::vector<TokenKind> kinds_;
  std::vector<int32_t> end_of_generation_;
  std::optional<int32_t> bos_, eos_, unk_;
  bool add_bos_ = false;
  bool add_eos_ = false;
  bool add_space_prefix_ = false;
  Spelling spelling_ = Spelling::kByteAlphabet;
  std::unique_ptr<TextEncoder> encoder_;
  SpecialTokens all_specials_;
  SpecialTokens user_defined_;
};

Result<std::unique_ptr<Tokenizer>> Tokenizer::Create(VocabularyData data) {
  if (!data.has_tokenizer()) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the file has no tokenizer (tokenizer.ggml.model '{}')", data.source,
                ReplaceInvalidUtf8(data.model));
  }
  if (data.model != "llama" && data.model != "gpt2" && data.model != "gemma4") {
    return Fail(ErrorCode::kUnsupported,
                "{}: tokenizer.ggml.model '{}' is not known; known are gemma4, gpt2, llama",
                data.source, ReplaceInvalidUtf8(data.model));
  }
  auto impl = std::make_unique<Impl>();
  THAW_TRY(impl->Load(std::move(data)));
  return std::unique_ptr<Tokenizer>(new Tokenizer(std::move(impl)));
}

Tokenizer::Tokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text,
                                               const EncodeOptions& options) const {
  return impl_->Encode(text, options);
}

int32_t Tokenizer::n_tokens() const { return impl_->n_tokens(); }
bool Tokenizer::adds_bos() const { return impl_->adds_bos(); }
bool Tokenizer::adds_eos() const { return impl_->adds_eos(); }
bool Tokenizer::adds_space_prefix() const { return impl_->adds_space_prefix(); }
std::optional<int32_t> Tokenizer::bos() const { return impl_->bos(); }
std::optional<int32_t> Tokenizer::eos() const { return impl_->eos(); }
std::optional<int32_t> Tokenizer::unk() const { return impl_->unk(); }

bool Tokenizer::IsEndOfGeneration(int32_t id) const {
  const auto ends = end_of_generation();
  return std::binary_search(ends.begin(), ends.end(), id);
}

std::span<const int32_t> Tokenizer::end_of_generation() const { return impl_->end_of_generation(); }

std::string_view Tokenizer::TokenText(int32_t id) const { return impl_->TokenText(id); }
TokenKind Tokenizer::Kind(int32_t id) const { return impl_->Kind(id); }

std::string Tokenizer::TokenToBytes(int32_t id, bool render_special) const {
  return impl_->TokenToBytes(id, render_special);
}

std::optional<int32_t> Tokenizer::Find(std::string_view token_text) const {
  return impl_->Find(token_text);
}

std::string Tokenizer::Decode(std::span<const int32_t> ids, bool render_special) const {
  Detokenizer detokenizer(*this, {.render_special = render_special, .at_text_start = true});
  std::string text;
  for (const int32_t id : ids) text += detokenizer.Push(id);
  return text + detokenizer.Finish();
}

}  // namespace thaw
