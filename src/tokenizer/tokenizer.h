// Text to token ids and back, for the vocabularies of real model files.
//
// Two families: SentencePiece-style ("llama": scores, spaces written as U+2581, byte fallback) and
// byte-pair encoding with ranked merges ("gpt2": byte-level, the text first cut into words by the
// expressions that tokenizer.ggml.pre names; "gemma4": the same merging over whole lines).
//
// A Tokenizer owns its vocabulary (one block of text and hash indexes; about 30 bytes a token
// beside the text, 24 a merge) and never changes: every method is const and safe from any thread.
// Encoding takes O(n log n) time at worst and O(n) memory for any text; ordinary text runs at
// several MB/s.
//
// Text that is not UTF-8: byte-pair encoding reads each stray byte as U+FFFD, SentencePiece spells
// it with its byte token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tokenizer/vocabulary_data.h"

namespace thaw {

struct EncodeOptions {
  enum class Bos {
    kRule,               // put a BOS in front where the file's rule says so
    kRuleUnlessPresent,  // the same, but not before text that begins with BOS: templated prompts
    kNever,
  };
  Bos bos = Bos::kRule;
  bool add_eos = true;        // append EOS where the file's rule says so (few do)
  bool parse_special = true;  // false: control tokens written in the text are plain text
};

class Tokenizer {
 public:
  // Errors name data.source: kUnsupported for a model or pre-tokenizer that is not known (with the
  // list of those that are) and for a file without a tokenizer; kCorrupt for lists that disagree.
  static Result<std::unique_ptr<Tokenizer>> Create(VocabularyData data);
  ~Tokenizer();
  Tokenizer(const Tokenizer&) = delete;
  Tokenizer& operator=(const Tokenizer&) = delete;

  // Longest text that Encode takes, in bytes.
  static constexpr size_t kMaxTextBytes = size_t{1} << 30;

  // kInvalidArgument when the text is longer than kMaxTextBytes.
  Result<std::vector<int32_t>> Encode(std::string_view text,
                                      const EncodeOptions& options = {}) const;

  int32_t n_tokens() const;
  // Whether the file's rule puts BOS in front or EOS behind.
  bool adds_bos() const;
  bool adds_eos() const;
  // Whether encoded text begins with a space of its own, which decoding takes off again.
  bool adds_space_prefix() const;
  std::optional<int32_t> bos() const;
  std::optional<int32_t> eos() const;
  std::optional<int32_t> unk() const;

  // EOS, end of turn, end of message and the like: sampling any of them ends an answer.
  bool IsEndOfGeneration(int32_t id) const;
  std::span<const int32_t> end_of_generation() const;  // ascending

  // `id` in [0, n_tokens()) for all of these.
  std::string_view TokenText(int32_t id) const;  // as the file spells it
  TokenKind Kind(int32_t id) const;
  // What the token adds to a text; may be part of a UTF-8 character. Control, unknown and unused
  // tokens add nothing, or their name with `render_special`.
  std::string TokenToBytes(int32_t id, bool render_special = false) const;

  // The token of exactly this text in the file's spelling; the lowest id where several have it.
  std::optional<int32_t> Find(std::string_view token_text) const;

  // The text of a whole sequence, invalid UTF-8 replaced; see detokenizer.h for streams.
  std::string Decode(std::span<const int32_t> ids, bool render_special = false) const;

 private:
  class Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace thaw
