#include "tokenizer/token_roles.h"

#include <algorithm>
#include <string_view>

namespace thaw {
namespace {

using Texts = std::vector<std::string_view>;

// Each of these ends an answer, whatever id the file names.
const Texts& EndTexts() {
  static const auto& texts = *new Texts{"<|eot_id|>",
                                        "<|eom_id|>",
                                        "<|im_end|>",
                                        "<|end|>",
                                        "<|return|>",
                                        "<|call|>",
                                        "<|calls|>",
                                        "<|flush|>",
                                        "<|endoftext|>",
                                        "<|end_of_text|>",
                                        "<|tool_response>",
                                        "<end_of_turn>",
                                        "<end_of_utterance>",
                                        "<turn|>",
                                        "</s>",
                                        "<eos>",
                                        "<EOT>",
                                        "_<EOT>",
                                        "[EOT]",
                                        "[EOS]",
                                        "<\uff5cend\u2581of\u2581sentence\uff5c>",
                                        "[e~["};
  return texts;
}

// A token that files may name by id; where they do not, the first of these texts has the role.
struct NamedRole {
  std::optional<int64_t> VocabularyData::*id;
  bool ends_generation;
  Texts texts;
};

const std::vector<NamedRole>& NamedRoles() {
  static const auto& roles = *new std::vector<NamedRole>{
      {&VocabularyData::eos, true, {}},
      {&VocabularyData::eot, true, {}},
      {&VocabularyData::eom, true, {}},
      {&VocabularyData::fim_prefix,
       false,
       {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<\uff5cfim\u2581begin\uff5c>", "<PRE>",
        "\u2581<PRE>", "<|code_prefix|>", "<|prefix|>"}},
      {&VocabularyData::fim_suffix,
       false,
       {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<\uff5cfim\u2581hole\uff5c>", "<SUF>",
        "\u2581<SUF>", "<|code_suffix|>", "<|suffix|>"}},
      {&VocabularyData::fim_middle,
       false,
       {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<\uff5cfim\u2581end\uff5c>", "<MID>",
        "\u2581<MID>", "<|code_middle|>", "<|middle|>"}},
      {&VocabularyData::fim_pad, true, {"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"}},
      {&VocabularyData::fim_repository,
       true,
       {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}},
      {&VocabularyData::fim_separator, true, {"<|file_sep|>"}},
  };
  return roles;
}

class Assigner {
 public:
  Assigner(const VocabularyData& data, const TextTable& texts, std::vector<TokenKind> kinds)
      : data_(data), texts_(texts), token_count_(static_cast<int32_t>(kinds.size())) {
    roles_.kinds = std::move(kinds);
  }

  TokenRoles Run() {
    for (const NamedRole& role : NamedRoles()) AssignNamed(role);
    for (const std::string_view text : EndTexts()) {
      if (const auto id = TakeAsControl(text)) roles_.end_of_generation.push_back(*id);
    }
    CorrectHarmony();
    CorrectMarkup();
    auto& ends = roles_.end_of_generation;
    std::sort(ends.begin(), ends.end());
    ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
    return std::move(roles_);
  }

 private:
  std::optional<int32_t> Find(std::string_view text) const {
    const auto id = texts_.Find(text);
    if (!id || *id >= token_count_) return std::nullopt;
    return id;
  }

  TokenKind& KindOf(int32_t id) { return roles_.kinds[static_cast<size_t>(id)]; }

  // The token of this text, now of kind control. A normal token counts only when it begins with
  // "<|": "</s>" and "<EOT>" are also markup that vocabularies learned from ordinary text.
  std::optional<int32_t> TakeAsControl(std::string_view text) {
    const auto id = Find(text);
    if (!id) return std::nullopt;
    if (KindOf(*id) == TokenKind::kNormal && !text.starts_with("<|")) return std::nullopt;
    KindOf(*id) = TokenKind::kControl;
    return id;
  }

  void AssignNamed(const NamedRole& role) {
    std::optional<int32_t> id = ValidId(data_.*role.id, token_count_);
    for (auto text = role.texts.begin(); !id && text != role.texts.end(); ++text) {
      id = TakeAsControl(*text);
    }
    if (id && role.ends_generation) roles_.end_of_generation.push_back(*id);
  }

  bool Ends(std::string_view text) const {
    const auto id = Find(text);
    return id && std::find(roles_.end_of_generation.begin(), roles_.end_of_generation.end(), *id) !=
                     roles_.end_of_generation.end();
  }

  void KeepGoingAfter(std::string_view text, TokenKind kind) {
    const auto id = Find(text);
    if (!id || !Ends(text)) return;
    KindOf(*id) = kind;
    std::erase(roles_.end_of_generation, *id);
  }

  // Vocabularies with channels end an answer by return or call; "<|end|>" only ends a channel's
  // message. The markers of channels are part of the answer's text.
  void CorrectHarmony() {
    for (const std::string_view text :
         {"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}) {
      if (const auto id = Find(text)) KindOf(*id) = TokenKind::kUserDefined;
    }
    const bool calls = Ends("<|call|>") || Ends("<|calls|>");
    if (calls && (Ends("<|return|>") || Ends("<|flush|>"))) {
      KeepGoingAfter("<|end|>", TokenKind::kUserDefined);
    }
  }

  // "</s>" is strikethrough markup in vocabularies that end an answer otherwise.
  void CorrectMarkup() {
    if (Ends("<|tool_response>") || Ends("<|plamo:eos|>")) {
      KeepGoingAfter("</s>", TokenKind::kNormal);
    }
  }

  const VocabularyData& data_;
  const TextTable& texts_;
  int32_t token_count_;
  TokenRoles roles_;
};

}  // namespace

TokenRoles AssignTokenRoles(const VocabularyData& data, const TextTable& texts,
                            std::vector<TokenKind> kinds) {
  return Assigner(data, texts, std::move(kinds)).Run();
}

std::optional<int32_t> ValidId(std::optional<int64_t> id, int32_t token_count) {
  if (!id || *id < 0 || *id >= token_count) return std::nullopt;
  return static_cast<int32_t>(*id);
}

}  // namespace thaw
