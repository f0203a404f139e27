// The ranked merges of a byte-pair vocabulary: (left, right) -> rank and merged symbol.
//
// Symbols are numbers of a TextTable. 24 to 48 bytes a merge; a lookup takes constant time. Const
// after Add.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tokenizer/symbol_merger.h"

namespace thaw {

class MergeTable {
 public:
  explicit MergeTable(size_t merge_count);

  // At most as many pairs as the constructor was told. A pair that is already there keeps its rank.
  void Add(int32_t left, int32_t right, Merge merge);

  std::optional<Merge> Find(int32_t left, int32_t right) const {
    const Slot& slot = slots_[SlotOf(left, right)];
    if (slot.left < 0) return std::nullopt;
    return slot.merge;
  }

 private:
  struct Slot {
    int32_t left = -1;  // -1: free
    int32_t right = -1;
    Merge merge{};
  };

  size_t SlotOf(int32_t left, int32_t right) const {
    // Fibonacci hashing: 2^64 / golden ratio spreads the pairs over the high bits.
    const uint64_t key =
        (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) | static_cast<uint32_t>(right);
    const size_t mask = slots_.size() - 1;
    size_t i = static_cast<size_t>(((key ^ (key >> 29)) * 0x9e3779b97f4a7c15u) >> 32) & mask;
    while (slots_[i].left >= 0 && (slots_[i].left != left || slots_[i].right != right)) {
      i = (i + 1) & mask;
    }
    return i;
  }

  std::vector<Slot> slots_;  // a power of two, at most two thirds in use, linear probing
};

}  // namespace thaw
