// What a model file says about its tokenizer: the input of Tokenizer::Create.
//
// Plain data, filled by model/vocabulary.h from GGUF metadata or by a test by hand. The names in
// brackets are the GGUF keys. Nothing here has been checked; Tokenizer::Create does that.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace thaw {

// The numbers of `tokenizer.ggml.token_type`.
enum class TokenKind : uint8_t {
  kNormal = 1,
  kUnknown = 2,      // stands for what the vocabulary cannot spell
  kControl = 3,      // steers the model; no text of its own
  kUserDefined = 4,  // cut out of the text before anything else, even where control tokens are not
  kUnused = 5,
  kByte = 6,  // text "<0xNN>": one byte
};

struct VocabularyData {
  std::string source;      // the file, for error messages
  std::string model;       // [tokenizer.ggml.model] "llama", "gpt2", "gemma4"; "none": no tokenizer
  std::string pre;         // [tokenizer.ggml.pre]; empty: absent
  std::string model_name;  // [general.name]; some names change how special tokens strip spaces

  std::vector<std::string> tokens;  // [tokenizer.ggml.tokens] the text of id 0, 1, ...
  std::vector<float> scores;        // [tokenizer.ggml.scores] one a token, or empty: all 0
  std::vector<int32_t> kinds;       // [tokenizer.ggml.token_type] one a token, or empty: normal
  std::vector<std::string> merges;  // [tokenizer.ggml.merges] "left right", most urgent first

  // Ids as the file states them. One outside the vocabulary counts as absent: real files write -1.
  std::optional<int64_t> bos, eos, eot, eom, unk;
  std::optional<int64_t> fim_prefix, fim_suffix, fim_middle, fim_pad, fim_repository, fim_separator;

  std::optional<bool> add_bos, add_eos, add_space_prefix;  // absent: the rule of `model` and `pre`

  bool has_tokenizer() const { return !model.empty() && model != "none" && model != "no_vocab"; }
};

}  // namespace thaw
