// Which keys a token attends to where a model chooses: those of the best scores by small queries
// and keys of their own (DeepSeek's sparse attention).
//
// Pure functions of the scores of one token, so the choice depends on nothing else. Ties go to the
// earlier position.
#pragma once

#include <cstdint>
#include <span>

namespace thaw {

// The score of a position: the sum of its heads' weights, which come of the token, times q . k
// where that is above 0.
struct IndexerConfig {
  int64_t top_k = 0;  // keys that a token attends to at most; 0: all
  int64_t n_heads = 0;
  int64_t key_size = 0;

  // Whether a token at `position` attends to fewer keys than there are.
  bool Chooses(int64_t position) const { return top_k != 0 && position >= top_k; }
};

// The positions of the chosen.size() best scores, ascending. `scores` are overwritten where they
// are no numbers; `order` [scores.size()] is scratch.
void ChooseKeys(std::span<float> scores, std::span<int32_t> order, std::span<int32_t> chosen);

}  // namespace thaw
