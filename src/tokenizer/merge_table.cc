#include "tokenizer/merge_table.h"

#include <algorithm>
#include <bit>

namespace thaw {

MergeTable::MergeTable(size_t merge_count)
    : slots_(std::bit_ceil(std::max<size_t>(16, merge_count + merge_count / 2 + 1))) {}

void MergeTable::Add(int32_t left, int32_t right, Merge merge) {
  Slot& slot = slots_[SlotOf(left, right)];
  if (slot.left >= 0) return;
  slot = {left, right, merge};
}

}  // namespace thaw
