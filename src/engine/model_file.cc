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
  // Beyond every window, and of many positions, because the memory of each head is rounded up to
  // cache lines.
  constexpr int64_t kPositions = int64_t{1} << 20;
  const auto bytes = [&](int64_t positions) {
    return KvCache::Bytes(config, {.type = KvType::kF16, .n_positions = positions});
  };
  return ModelSummary{
      .n_layers = config.n_layers,
      .context_length = config.context_length,
      .kv_bytes_per_position = (bytes(2 * kPositions) - bytes(kPositions)) / kPositions};
}

}  // namespace thaw
