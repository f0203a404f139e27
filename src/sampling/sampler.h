// Logits -> token: one sampler per sequence, with the sequence's options, history and random state.
//
//   THAW_ASSIGN(Sampler sampler, Sampler::Create(options, n_vocab));
//   for (int32_t token : prompt) sampler.Accept(token);
//   THAW_ASSIGN(const int32_t token, sampler.Sample(logits));
//   sampler.Accept(token);
//
// A value: copies go on independently from the same state. Not thread safe. Holds 4 bytes per
// vocabulary entry, and 16 more per entry where neither greedy nor top-k bounds the candidates.
// Costs one pass over the logits and a selection of the top k from those of the best blocks;
// without top-k one exponential for every token of the vocabulary; never a sort of the whole
// vocabulary unless top-p keeps it whole.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "sampling/sampling_options.h"
#include "sampling/split_mix.h"

namespace thaw {

class Sampler {
 public:
  struct Candidate {
    int32_t token;
    float logit;         // after bias and penalties, before temperature
    double probability;  // that this token is drawn
  };

  // kInvalidArgument as Validate() says. `n_vocab` is the length of every span of logits.
  static Result<Sampler> Create(SamplingOptions options, int32_t n_vocab);

  // Draws a token and advances the random state; the caller accepts it if it is used. A logit of
  // NaN counts as -inf, which is never drawn; +inf as the largest float. kInvalidArgument when
  // nothing is left to draw.
  Result<int32_t> Sample(std::span<const float> logits);

  // What Sample draws from: the tokens that may come next with their probabilities (sum 1), without
  // touching the random state. Valid until the next call of Sample or Distribution.
  Result<std::span<const Candidate>> Distribution(std::span<const float> logits);

  // Appends a token of the prompt or of the answer to what the penalties look back on.
  void Accept(int32_t token);

  // Forgets what was accepted and starts the random sequence again: as created.
  void Reset();

  const SamplingOptions& options() const { return options_; }

 private:
  Sampler(SamplingOptions options, int32_t n_vocab);

  void Adjust(std::span<const float> logits);
  void FindBlockBest(size_t block);
  int32_t Likeliest() const;
  void TakeAll();
  void TakeTopK();
  void CutTail(float best_logit);
  void SetProbabilities(float best_logit);

  SamplingOptions options_;
  int32_t n_vocab_;
  bool penalizes_;
  SplitMix64 random_;
  std::deque<int32_t> history_;              // the last repeat_window accepted tokens
  std::unordered_map<int32_t, int> counts_;  // how often each token occurs in history_
  std::vector<float> logits_;                // after bias and penalties; -inf beyond n_vocab
  std::vector<float> block_best_;            // the largest of each block of logits_
  std::vector<Candidate> candidates_;
};

}  // namespace thaw
