// The merging that byte-pair encoding and SentencePiece share: of all neighbours that a rule lets
// merge, the pair of the lowest rank is merged first, the leftmost of equals, until none is left.
//
// O(n log n) for n symbols, by a heap of candidate pairs. A merger keeps its memory from one word
// to the next (20 bytes a symbol, 16 a candidate); one thread at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace thaw {

// A run of the word that is one unit so far.
struct Symbol {
  static constexpr uint32_t kNone = UINT32_MAX;

  int32_t id;       // its number in the vocabulary's text table; -1: none
  uint32_t begin;   // its place in the word, in bytes
  uint32_t length;  // 0: merged into its left neighbour
  uint32_t previous;
  uint32_t next;  // kNone at the ends
};

struct Merge {
  uint32_t rank;
  int32_t id;  // of the merged symbol
};

class SymbolMerger {
 public:
  void Clear() { symbols_.clear(); }

  // Adds a symbol behind the last one, `length` > 0 bytes of the word.
  void Add(int32_t id, uint32_t length) {
    const auto index = static_cast<uint32_t>(symbols_.size());
    uint32_t begin = 0;
    uint32_t previous = Symbol::kNone;
    if (!symbols_.empty()) {
      begin = symbols_.back().begin + symbols_.back().length;
      previous = index - 1;
      symbols_.back().next = index;
    }
    symbols_.push_back({id, begin, length, previous, Symbol::kNone});
  }

  // Rule: std::optional<Merge>(const Symbol& left, const Symbol& right).
  template <typename Rule>
  void Run(const Rule& rule) {
    candidates_.clear();
    for (uint32_t i = 0; i < symbols_.size(); ++i) Consider(i, rule);
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    while (!candidates_.empty()) {
      std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
      const Candidate candidate = candidates_.back();
      candidates_.pop_back();
      if (!IsCurrent(candidate)) continue;
      Join(candidate);
      PushIfConsidered(symbols_[candidate.left].previous, rule);
      PushIfConsidered(candidate.left, rule);
    }
  }

  // The symbols that are left, in order.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (uint32_t i = symbols_.empty() ? Symbol::kNone : 0; i != Symbol::kNone;
         i = symbols_[i].next) {
      visit(symbols_[i]);
    }
  }

 private:
  struct Candidate {
    uint32_t rank;
    uint32_t left;
    uint32_t length;  // of both together: tells whether either has changed since
    int32_t id;

    bool operator>(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : left > other.left;
    }
  };

  // Appends the pair that begins with `left` to the candidates, without ordering them.
  template <typename Rule>
  bool Consider(uint32_t left, const Rule& rule) {
    if (left == Symbol::kNone || symbols_[left].next == Symbol::kNone) return false;
    const Symbol& a = symbols_[left];
    const Symbol& b = symbols_[a.next];
    const std::optional<Merge> merge = rule(a, b);
    if (!merge) return false;
    candidates_.push_back({merge->rank, left, a.length + b.length, merge->id});
    return true;
  }

  template <typename Rule>
  void PushIfConsidered(uint32_t left, const Rule& rule) {
    if (Consider(left, rule)) {
      std::push_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    }
  }

  bool IsCurrent(const Candidate& candidate) const {
    const Symbol& left = symbols_[candidate.left];
    return left.length != 0 && left.next != Symbol::kNone &&
           left.length + symbols_[left.next].length == candidate.length;
  }

  void Join(const Candidate& candidate) {
    Symbol& left = symbols_[candidate.left];
    Symbol& right = symbols_[left.next];
    left.id = candidate.id;
    left.length += right.length;
    left.next = right.next;
    right.length = 0;
    if (left.next != Symbol::kNone) symbols_[left.next].previous = candidate.left;
  }

  std::vector<Symbol> symbols_;
  std::vector<Candidate> candidates_;  // a heap, the next to merge in front
};

}  // namespace thaw
