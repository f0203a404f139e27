#include "engine/session.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "base/stopwatch.h"
#include "engine/stop_matcher.h"
#include "sampling/sampler.h"
#include "tokenizer/detokenizer.h"

namespace thaw {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

// One run of Generate: the state that its parts share.
class Session::Generation {
 public:
  Generation(Session& session, const Tokenizer& tokenizer, Sampler sampler,
             const GenerationOptions& options, FunctionRef<void(std::string_view)> on_text)
      : session_(session),
        tokenizer_(tokenizer),
        sampler_(std::move(sampler)),
        options_(options),
        on_text_(on_text),
        detokenizer_(tokenizer, {.at_text_start = false}),
        stops_(options.stops) {}

  Result<GenerationResult> Run(std::span<const int32_t> prompt) {
    THAW_ASSIGN(const bool prompt_done, ReadPrompt(prompt));
    if (prompt_done && options_.on_prompt_done) options_.on_prompt_done();
    if (prompt_done && options_.max_tokens != 0) {
      const uint64_t bytes_before = BytesMissed();
      THAW_TRY(Decode());
      result_.statistics.decode_bytes_read = BytesMissed() - bytes_before;
    } else {
      result_.finish = prompt_done ? FinishReason::kMaxTokens : FinishReason::kCancelled;
    }
    Show(stops_.Push(detokenizer_.Finish()));
    Show(stops_.Finish());
    return std::move(result_);
  }

 private:
  // False when it was cancelled.
  Result<bool> ReadPrompt(std::span<const int32_t> prompt) {
    const int64_t reused = session_.KeepCommonPrefix(prompt);
    GenerationStatistics& s = result_.statistics;
    s.prompt_tokens = static_cast<int64_t>(prompt.size());
    s.reused_tokens = reused;
    for (const int32_t token : prompt) sampler_.Accept(token);
    const auto extended =
        session_.Extend(prompt.subspan(static_cast<size_t>(reused)), options_.cancel);
    s.prompt_seconds = SecondsSince(start_);
    return NotCancelled(extended);
  }

  Result<void> Decode() {
    for (;;) {
      THAW_ASSIGN(const int32_t token, NextToken());
      if (tokenizer_.IsEndOfGeneration(token)) return Finish(FinishReason::kEndOfGeneration);
      Show(stops_.Push(detokenizer_.Push(token)));
      if (stops_.stopped()) return Finish(FinishReason::kStopText);
      if (std::cmp_equal(result_.tokens.size(), options_.max_tokens)) {
        return Finish(FinishReason::kMaxTokens);
      }
      if (session_.kv_.length() == session_.capacity()) return Finish(FinishReason::kContextFull);
      THAW_ASSIGN(const bool go_on, NotCancelled(session_.Extend({&token, 1}, options_.cancel)));
      if (!go_on) return Finish(FinishReason::kCancelled);
    }
  }

  Result<int32_t> NextToken() {
    const auto n_tokens = static_cast<size_t>(tokenizer_.n_tokens());
    THAW_ASSIGN(const int32_t token, sampler_.Sample(std::span(session_.logits_).first(n_tokens)));
    sampler_.Accept(token);
    result_.tokens.push_back(token);
    GenerationStatistics& s = result_.statistics;
    const auto now = Clock::now();
    if (s.decode_tokens++ == 0) {
      s.ttft_seconds = std::chrono::duration<double>(now - start_).count();
    } else {
      s.step_seconds.push_back(std::chrono::duration<double>(now - last_token_).count());
    }
    last_token_ = now;
    return token;
  }

  // Whether to go on after a forward pass; errors other than cancelling stay errors.
  static Result<bool> NotCancelled(const Result<void>& extended) {
    if (extended) return true;
    if (extended.error().code == ErrorCode::kCancelled) return false;
    return Fail(extended.error());
  }

  Result<void> Finish(FinishReason reason) {
    result_.finish = reason;
    return {};
  }

  void Show(const std::string& text) {
    if (text.empty()) return;
    result_.text += text;
    on_text_(text);
  }

  uint64_t BytesMissed() const { return session_.engine_.cache_statistics().miss_bytes; }

  Session& session_;
  const Tokenizer& tokenizer_;
  Sampler sampler_;
  const GenerationOptions& options_;
  FunctionRef<void(std::string_view)> on_text_;
  Detokenizer detokenizer_;
  StopMatcher stops_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point last_token_;
  GenerationResult result_;
};

Result<GenerationResult> Session::Generate(std::span<const int32_t> prompt,
                                           const GenerationOptions& options,
                                           FunctionRef<void(std::string_view)> on_text) {
  THAW_ASSIGN(const Tokenizer* tokenizer, engine_.tokenizer());
  if (prompt.empty()) return Fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  if (static_cast<int64_t>(prompt.size()) > capacity()) {
    return Fail(ErrorCode::kInvalidArgument,
                "the prompt has {} tokens, but the context holds only {}: shorten the prompt or "
                "ask for a longer context",
                prompt.size(), capacity());
  }
  THAW_TRY(engine_.CheckTokens(prompt));
  THAW_ASSIGN(Sampler sampler, Sampler::Create(options.sampling, tokenizer->n_tokens()));
  return Generation(*this, *tokenizer, std::move(sampler), options, on_text).Run(prompt);
}

Result<std::span<const float>> Session::Feed(std::span<const int32_t> tokens,
                                             const std::atomic<bool>* cancel) {
  THAW_TRY(engine_.CheckTokens(tokens));
  const int64_t left = capacity() - kv_.length();
  if (std::cmp_greater(tokens.size(), left)) {
    return Fail(ErrorCode::kInvalidArgument,
                "{} tokens do not fit: {} of the context's {} positions are left", tokens.size(),
                left, capacity());
  }
  THAW_TRY(Extend(tokens, cancel));
  return logits_;
}

Session::~Session() {
  // The memory first, then the claim to it, then what the weights make of both.
  (void)std::exchange(kv_, KvCache());
  (void)std::exchange(reservation_, Reservation());
  engine_.ReturnToWeights();
}

void Session::Reset() {
  kv_.GoBack(0);
  tokens_.clear();
}

int64_t Session::KeepCommonPrefix(std::span<const int32_t> prompt) {
  const auto differs = std::ranges::mismatch(tokens_, prompt).in1;
  // The last token is computed in any case: its logits are not kept.
  const int64_t common = kv_.GoBack(
      std::min<int64_t>(differs - tokens_.begin(), static_cast<int64_t>(prompt.size()) - 1));
  tokens_.resize(static_cast<size_t>(common));
  return common;
}

Result<void> Session::Extend(std::span<const int32_t> tokens, const std::atomic<bool>* cancel) {
  auto extended = engine_.Extend(
      kv_, tokens, /*only_last=*/true, logits_,
      [](std::span<const float>) -> Result<void> { return {}; }, cancel);
  // Also after an error: the chunks before it are held.
  const auto added = static_cast<size_t>(kv_.length()) - tokens_.size();
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(added));
  return extended;
}

}  // namespace thaw
