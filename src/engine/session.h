// One sequence of tokens and what the model remembers of it.
//
// A session owns its KV cache. Every generation states the whole prompt; what the session already
// holds of it, from its beginning on, is not computed again, so a conversation costs only what is
// new. Not thread safe; different sessions may be used from different threads.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"
#include "engine/engine.h"
#include "engine/generation.h"
#include "model/kv_cache.h"

namespace thaw {

class Session {
 public:
  ~Session();

  // Generates after `prompt`, which must have 1 to capacity() tokens. `on_text` gets whole UTF-8
  // characters as they come, nothing of a stop string. Cancelling is a finish, not an error.
  Result<GenerationResult> Generate(std::span<const int32_t> prompt,
                                    const GenerationOptions& options,
                                    FunctionRef<void(std::string_view text)> on_text);

  // Computes `tokens`, taken as they are, after those that are held: the logits of the last,
  // [n_vocab], until the session is used again. kInvalidArgument for no tokens, more than there are
  // positions left, or ids that are not in the vocabulary; kCancelled soon after `cancel` (may be
  // null) became true, with the chunks before it held.
  Result<std::span<const float>> Feed(std::span<const int32_t> tokens,
                                      const std::atomic<bool>* cancel = nullptr);

  // Forgets everything.
  void Reset();

  int64_t capacity() const { return kv_.capacity(); }

  // The tokens whose keys and values are held.
  std::span<const int32_t> tokens() const { return tokens_; }

 private:
  friend class Engine;
  class Generation;

  Session(Engine& engine, Engine::SequenceMemory memory)
      : engine_(engine), reservation_(std::move(memory.reservation)), kv_(std::move(memory.kv)) {}

  // Engine::Extend, with tokens_ kept in step; leaves the logits of the last token in logits_.
  Result<void> Extend(std::span<const int32_t> tokens, const std::atomic<bool>* cancel);
  // Keeps what is held of the beginning of `prompt`; returns how many tokens that is.
  int64_t KeepCommonPrefix(std::span<const int32_t> prompt);

  Engine& engine_;
  Reservation reservation_;  // of kv_
  KvCache kv_;
  std::vector<int32_t> tokens_;  // kv_.length() of them
  std::vector<float> logits_;    // [n_vocab]
};

}  // namespace thaw
