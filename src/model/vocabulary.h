// The tokenizer's part of a model file.
#pragma once

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

// Reads the tokenizer.ggml.* fields. A file without tokenizer.ggml.model, or with "none", gives
// data whose has_tokenizer() is false. kCorrupt when a field has the wrong type, kNotFound when one
// that the family needs is missing: its tokens, and the merges of byte-pair vocabularies.
Result<VocabularyData> ReadVocabulary(const GgufFile& file);

}  // namespace thaw
