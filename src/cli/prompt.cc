#include "cli/prompt.h"

#include <ctime>
#include <optional>

#include "chat/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace thaw::cli {
namespace {

std::string SpecialText(const Tokenizer& tokenizer, std::optional<int32_t> id) {
  return id ? std::string(tokenizer.TokenText(*id)) : "";
}

// An EOS behind a prompt would end what is to be continued, whatever the file's rule says.
Result<std::vector<int32_t>> EncodePrompt(const Tokenizer& tokenizer, std::string_view text,
                                          EncodeOptions::Bos bos) {
  return tokenizer.Encode(text, {.bos = bos, .add_eos = false, .parse_special = true});
}

}  // namespace

Json Message(std::string_view role, std::string_view content) {
  return {{"role", role}, {"content", content}};
}

Result<std::vector<int32_t>> EncodeConversation(Engine& engine, const Json& messages) {
  THAW_ASSIGN(const Tokenizer* tokenizer, engine.tokenizer());
  THAW_ASSIGN(const ChatTemplate* chat_template, engine.chat_template());
  if (chat_template == nullptr) {
    return Fail(ErrorCode::kUnsupported, "{}: the model has no chat template", engine.path());
  }
  RenderMessagesOptions options;
  options.bos_token = SpecialText(*tokenizer, tokenizer->bos());
  options.eos_token = SpecialText(*tokenizer, tokenizer->eos());
  options.render.now = LocalTime(std::time(nullptr));
  THAW_ASSIGN(const std::string text, RenderMessages(*chat_template, messages, options));
  return EncodePrompt(*tokenizer, text, EncodeOptions::Bos::kRuleUnlessPresent);
}

Result<std::vector<int32_t>> EncodeText(Engine& engine, std::string_view text) {
  THAW_ASSIGN(const Tokenizer* tokenizer, engine.tokenizer());
  return EncodePrompt(*tokenizer, text, EncodeOptions::Bos::kRule);
}

}  // namespace thaw::cli
