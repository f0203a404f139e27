#include "sampling/sampler.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/round_up.h"
#include "sampling/reproducible_exp.h"

namespace thaw {
namespace {

constexpr float kBanned = -std::numeric_limits<float>::infinity();
constexpr float kLargest = std::numeric_limits<float>::max();

// Tokens whose largest logit is kept: most passes look at that alone.
constexpr size_t kBlock = 64;

// A finite logit or kBanned.
float AsNumber(float logit) {
  if (!(logit > kBanned)) return kBanned;  // NaN too
  return std::min(logit, kLargest);
}

// Copies a block and returns its largest number: in loops that a compiler turns into vectors.
float CopyNumbers(const float* logits, float* numbers) {
  int any_odd = 0;  // NaN or +inf
  for (size_t i = 0; i < kBlock; ++i) any_odd |= !(logits[i] <= kLargest);
  if (any_odd != 0) {
    std::transform(logits, logits + kBlock, numbers, AsNumber);
  } else {
    std::copy(logits, logits + kBlock, numbers);
  }
  float rest[kBlock / 2];
  for (size_t i = 0; i < kBlock / 2; ++i) {
    rest[i] = numbers[i] > numbers[i + kBlock / 2] ? numbers[i] : numbers[i + kBlock / 2];
  }
  for (size_t half = kBlock / 4; half > 0; half /= 2) {
    for (size_t i = 0; i < half; ++i) rest[i] = rest[i] > rest[i + half] ? rest[i] : rest[i + half];
  }
  return rest[0];
}

// A total order, so that the result of a partial selection does not depend on the library's choice.
bool Likelier(const Sampler::Candidate& a, const Sampler::Candidate& b) {
  return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// e^(logit - best), the likelihood relative to the best token's.
double RelativeLikelihood(float logit, float best) {
  return ReproducibleExp(static_cast<double>(logit) - static_cast<double>(best));
}

}  // namespace

Sampler::Sampler(SamplingOptions options, int32_t n_vocab)
    : options_(std::move(options)),
      n_vocab_(n_vocab),
      penalizes_(options_.repeat_window > 0 &&
                 (options_.repeat_penalty != 1 || options_.frequency_penalty != 0 ||
                  options_.presence_penalty != 0)),
      random_(options_.seed),
      logits_(RoundUp(static_cast<size_t>(n_vocab), kBlock), kBanned),
      block_best_(logits_.size() / kBlock) {}

Result<Sampler> Sampler::Create(SamplingOptions options, int32_t n_vocab) {
  THAW_CHECK(n_vocab > 0);
  THAW_TRY(Validate(options, n_vocab));
  return Sampler(std::move(options), n_vocab);
}

void Sampler::Accept(int32_t token) {
  THAW_CHECK(token >= 0 && token < n_vocab_);
  if (!penalizes_) return;
  history_.push_back(token);
  ++counts_[token];
  if (history_.size() > static_cast<size_t>(options_.repeat_window)) {
    const auto oldest = counts_.find(history_.front());
    if (--oldest->second == 0) counts_.erase(oldest);
    history_.pop_front();
  }
}

void Sampler::Reset() {
  history_.clear();
  counts_.clear();
  random_ = SplitMix64(options_.seed);
}

Result<int32_t> Sampler::Sample(std::span<const float> logits) {
  THAW_ASSIGN(const std::span<const Candidate> candidates, Distribution(logits));
  const double drawn = random_.NextUnit();
  double passed = 0;
  int32_t token = candidates.front().token;
  // The sum may end just short of 1 by rounding: then the last token that can be drawn is.
  for (const Candidate& c : candidates) {
    if (c.probability > 0) token = c.token;
    passed += c.probability;
    if (drawn < passed) break;
  }
  return token;
}

Result<std::span<const Sampler::Candidate>> Sampler::Distribution(std::span<const float> logits) {
  THAW_CHECK(logits.size() == static_cast<size_t>(n_vocab_));
  Adjust(logits);
  const int32_t likeliest = Likeliest();
  const float best_logit = logits_[static_cast<size_t>(likeliest)];
  if (best_logit == kBanned) {
    return Fail(ErrorCode::kInvalidArgument,
                "sampling: no token can be drawn: after bias and penalties all {} logits are -inf "
                "or not a number",
                n_vocab_);
  }
  candidates_.clear();
  if (options_.temperature == 0) {
    candidates_.push_back({likeliest, best_logit, 1.0});
    return std::span<const Candidate>(candidates_);
  }
  if (options_.top_k > 0 && options_.top_k < n_vocab_) {
    TakeTopK();
  } else {
    TakeAll();
  }
  if (options_.top_p < 1 || options_.min_p > 0) CutTail(best_logit);
  SetProbabilities(best_logit);
  return std::span<const Candidate>(candidates_);
}

// Fills logits_, numbers only, with bias and penalties applied, and block_best_.
void Sampler::Adjust(std::span<const float> logits) {
  const size_t whole = logits.size() / kBlock * kBlock;
  for (size_t i = 0; i < whole; i += kBlock) {
    block_best_[i / kBlock] = CopyNumbers(&logits[i], &logits_[i]);
  }
  if (whole < logits.size()) {
    std::ranges::transform(logits.subspan(whole), logits_.begin() + static_cast<ptrdiff_t>(whole),
                           AsNumber);
    FindBlockBest(whole / kBlock);
  }
  const auto set = [&](int32_t token, float logit) {
    const auto index = static_cast<size_t>(token);
    logits_[index] = AsNumber(logit);
    FindBlockBest(index / kBlock);
  };
  for (const auto& [token, bias] : options_.logit_bias) {
    set(token, logits_[static_cast<size_t>(token)] + bias);
  }
  for (const auto& [token, count] : counts_) {
    float logit = logits_[static_cast<size_t>(token)];
    // Keskar et al., "CTRL", 2019, section 4.1, with negative logits moved down as well.
    logit = logit > 0 ? logit / options_.repeat_penalty : logit * options_.repeat_penalty;
    set(token, logit - (static_cast<float>(count) * options_.frequency_penalty +
                        options_.presence_penalty));
  }
}

void Sampler::FindBlockBest(size_t block) {
  const auto begin = logits_.begin() + static_cast<ptrdiff_t>(block * kBlock);
  block_best_[block] = *std::max_element(begin, begin + kBlock);
}

int32_t Sampler::Likeliest() const {
  const auto best = std::ranges::max_element(block_best_);
  const auto begin = logits_.begin() + (best - block_best_.begin()) * ptrdiff_t{kBlock};
  return static_cast<int32_t>(std::find(begin, begin + kBlock, *best) - logits_.begin());
}

void Sampler::TakeAll() {
  for (int32_t token = 0; token < n_vocab_; ++token) {
    const float logit = logits_[static_cast<size_t>(token)];
    if (logit > kBanned) candidates_.push_back({token, logit, 0});
  }
}

// The top_k likeliest, in descending order. Collects up to twice as many, keeps the better half,
// and from then on looks only at what is better than the worst kept: nearly every block of tokens
// costs one comparison.
void Sampler::TakeTopK() {
  const auto k = static_cast<size_t>(options_.top_k);
  const auto keep_best = [&] {
    const auto end = candidates_.begin() + static_cast<ptrdiff_t>(k);
    std::nth_element(candidates_.begin(), end - 1, candidates_.end(), Likelier);
    candidates_.erase(end, candidates_.end());
  };
  float threshold = kBanned;
  for (size_t block = 0; block < block_best_.size(); ++block) {
    // A later token that equals the threshold loses the tie by its higher id.
    if (!(block_best_[block] > threshold)) continue;
    for (size_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      if (!(logits_[i] > threshold)) continue;
      candidates_.push_back({static_cast<int32_t>(i), logits_[i], 0});
      if (candidates_.size() == 2 * k) {
        keep_best();
        threshold = candidates_.back().logit;
      }
    }
  }
  if (candidates_.size() > k) keep_best();
  std::ranges::sort(candidates_, Likelier);
}

// Applies top-p and min-p: both keep a run of the likeliest, so the shorter run stays.
void Sampler::CutTail(float best_logit) {
  double total = 0;
  for (Candidate& c : candidates_) {
    c.probability = RelativeLikelihood(c.logit, best_logit);
    total += c.probability;
  }
  const double top_p = options_.top_p;
  // Candidates of less than a share (1 - top_p) / n hold less than 1 - top_p together, so the
  // others reach top_p without them: only what is above needs to be put in order.
  const double outside = (1 - top_p) * total / static_cast<double>(candidates_.size());
  const double lowest = std::max<double>(options_.min_p, outside);
  std::erase_if(candidates_, [&](const Candidate& c) { return c.probability < lowest; });
  if (top_p >= 1) return;

  // Sorted in runs of doubling length, until the share is reached. 64 candidates suffice on most
  // tokens of a real text.
  double held = 0;
  auto end = candidates_.begin();
  for (ptrdiff_t run = 64; end != candidates_.end(); run *= 2) {
    const auto begin = end;
    end += std::min(run, candidates_.end() - begin);
    if (end != candidates_.end()) std::nth_element(begin, end, candidates_.end(), Likelier);
    std::sort(begin, end, Likelier);
    for (auto c = begin; c != end; ++c) {
      held += c->probability;
      if (held >= top_p * total) {
        candidates_.erase(c + 1, candidates_.end());
        return;
      }
    }
  }
}

void Sampler::SetProbabilities(float best_logit) {
  double total = 0;
  const double temperature = options_.temperature;
  for (Candidate& c : candidates_) {
    const double distance = static_cast<double>(c.logit) - static_cast<double>(best_logit);
    c.probability = ReproducibleExp(distance / temperature);
    total += c.probability;
  }
  for (Candidate& c : candidates_) c.probability /= total;
}

}  // namespace thaw
