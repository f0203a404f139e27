#include "engine/model_file.h"

#include <string>
#include <utility>

#include "model/kv_cache.h"
#include "model/vocabulary.h"
#include "model/weights.h"

namespace thaw {

Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const GgufFile& file) {
  THAW_ASSIGN(VocabularyData data, ReadVocabulary(file));
  return Tokenizer::Create(std::move(data));
}

Result<std::optional<ChatTemplate>> LoadChatTemplate(const GgufFile& file) {
  constexpr std::string_view kKey = "tokenizer.chat_template";
  if (file.Find(kKey) == nullptr) return std::nullopt;
  THAW_ASSIGN(const std::string source, file.GetString(kKey));
  THAW_ASSIGN(ChatTemplate parsed,
              ChatTemplate::Parse(source, fmt::format("{}: {}", file.path(), kKey)));
  return parsed;
}

Result<ModelSummary> SummarizeModel(const GgufFile& file) {
  THAW_ASSIGN(const ModelDescription description, DescribeModel(file));
  const ModelConfig& config = description.config;
  // Of many positions, because the memory of each head is rounded up to cache lines.
  constexpr int64_t kPositions = 1024;
  return ModelSummary{
      .n_layers = config.n_layers,
      .context_length = config.context_length,
      .kv_bytes_per_position = KvCache::Bytes(config, KvType::kF16, kPositions) / kPositions};
}

}  // namespace thaw
