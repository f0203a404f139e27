#include "model/vocabulary.h"

#include <string_view>

namespace thaw {
namespace {

constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
constexpr std::string_view kScores = "tokenizer.ggml.scores";
constexpr std::string_view kKinds = "tokenizer.ggml.token_type";
constexpr std::string_view kMerges = "tokenizer.ggml.merges";

struct IdField {
  std::string_view key;
  std::optional<int64_t> VocabularyData::*id;
};

// The last three are how older files call the same.
constexpr IdField kIdFields[] = {
    {"tokenizer.ggml.bos_token_id", &VocabularyData::bos},
    {"tokenizer.ggml.eos_token_id", &VocabularyData::eos},
    {"tokenizer.ggml.eot_token_id", &VocabularyData::eot},
    {"tokenizer.ggml.eom_token_id", &VocabularyData::eom},
    {"tokenizer.ggml.unknown_token_id", &VocabularyData::unk},
    {"tokenizer.ggml.fim_pre_token_id", &VocabularyData::fim_prefix},
    {"tokenizer.ggml.fim_suf_token_id", &VocabularyData::fim_suffix},
    {"tokenizer.ggml.fim_mid_token_id", &VocabularyData::fim_middle},
    {"tokenizer.ggml.fim_pad_token_id", &VocabularyData::fim_pad},
    {"tokenizer.ggml.fim_rep_token_id", &VocabularyData::fim_repository},
    {"tokenizer.ggml.fim_sep_token_id", &VocabularyData::fim_separator},
    {"tokenizer.ggml.prefix_token_id", &VocabularyData::fim_prefix},
    {"tokenizer.ggml.suffix_token_id", &VocabularyData::fim_suffix},
    {"tokenizer.ggml.middle_token_id", &VocabularyData::fim_middle},
};

struct FlagField {
  std::string_view key;
  std::optional<bool> VocabularyData::*flag;
};

constexpr FlagField kFlagFields[] = {
    {"tokenizer.ggml.add_bos_token", &VocabularyData::add_bos},
    {"tokenizer.ggml.add_eos_token", &VocabularyData::add_eos},
    {"tokenizer.ggml.add_space_prefix", &VocabularyData::add_space_prefix},
};

// Kinds are small numbers; one that does not fit means as little as any other unknown number.
Result<std::vector<int32_t>> ReadKinds(const GgufFile& file) {
  THAW_ASSIGN(const std::vector<int64_t> wide, file.ReadInts(kKinds));
  std::vector<int32_t> kinds;
  kinds.reserve(wide.size());
  for (const int64_t kind : wide) {
    kinds.push_back(kind >= 0 && kind <= INT32_MAX ? static_cast<int32_t>(kind) : 0);
  }
  return kinds;
}

}  // namespace

Result<VocabularyData> ReadVocabulary(const GgufFile& file) {
  VocabularyData data;
  data.source = file.path();
  THAW_ASSIGN(data.model, file.GetStringOr("tokenizer.ggml.model", ""));
  if (!data.has_tokenizer()) return data;
  THAW_ASSIGN(data.pre, file.GetStringOr("tokenizer.ggml.pre", ""));
  THAW_ASSIGN(data.model_name, file.GetStringOr("general.name", ""));
  THAW_ASSIGN(data.tokens, file.ReadStrings(kTokens));
  if (file.Find(kScores) != nullptr) {
    THAW_ASSIGN(data.scores, file.ReadFloats(kScores));
  }
  if (file.Find(kKinds) != nullptr) {
    THAW_ASSIGN(data.kinds, ReadKinds(file));
  }
  if (data.model == "gpt2" || data.model == "gemma4") {
    THAW_ASSIGN(data.merges, file.ReadStrings(kMerges));
  }
  for (const IdField& field : kIdFields) {
    if (file.Find(field.key) == nullptr) continue;
    THAW_ASSIGN(data.*field.id, file.GetInt(field.key));
  }
  for (const FlagField& field : kFlagFields) {
    if (file.Find(field.key) == nullptr) continue;
    THAW_ASSIGN(data.*field.flag, file.GetBool(field.key));
  }
  return data;
}

}  // namespace thaw
