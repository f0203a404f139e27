// What a model file holds beside its weights: the tokenizer and the chat template. For callers that
// need no engine; the engine uses the same functions.
#pragma once

#include <memory>
#include <optional>

#include "base/result.h"
#include "chat/chat_template.h"
#include "gguf/gguf_file.h"
#include "tokenizer/tokenizer.h"

namespace thaw {

// Also for files without weights. kUnsupported for one without a tokenizer.
Result<std::unique_ptr<Tokenizer>> LoadTokenizer(const GgufFile& file);

// Nothing where the file has no template; an error where it has one that cannot be parsed.
Result<std::optional<ChatTemplate>> LoadChatTemplate(const GgufFile& file);

}  // namespace thaw
