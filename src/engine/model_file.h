// What a model file holds beside its weights: the tokenizer, the chat template, the shape of the
// model. For callers that need no engine; the engine uses the same functions.
#pragma once

#include <cstdint>
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

struct ModelSummary {
  int64_t n_layers = 0;
  int64_t context_length = 0;          // trained for
  uint64_t kv_bytes_per_position = 0;  // in a KV cache of float16
};

// Checks the file as Engine::Load does, and fails with its errors, but reads no matrix.
Result<ModelSummary> SummarizeModel(const GgufFile& file);

}  // namespace thaw
