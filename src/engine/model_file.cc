#include "engine/model_file.h"

#include <string>
#include <utility>

#include "model/vocabulary.h"

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

}  // namespace thaw
