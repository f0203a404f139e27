#include "tokenizer/text_table.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace thaw {
namespace {

uint32_t HashOf(std::string_view text) {
  const uint64_t hash = std::hash<std::string_view>{}(text);
  return static_cast<uint32_t>(hash ^ (hash >> 32));
}

// The smallest table that `count` entries fill to two thirds at most.
size_t SlotsFor(size_t count) { return std::bit_ceil(std::max<size_t>(16, count + count / 2 + 1)); }

}  // namespace

void TextTable::Reserve(size_t count, size_t bytes) {
  bytes_.reserve(bytes);
  ends_.reserve(count + 1);
  if (SlotsFor(count) > slots_.size()) Rehash(SlotsFor(count));
}

void TextTable::Append(std::string_view text) {
  bytes_.append(text);
  ends_.push_back(bytes_.size());
  if (text.empty()) return;
  if (SlotsFor(used_ + 1) > slots_.size()) Rehash(SlotsFor(used_ + 1));
  const uint32_t hash = HashOf(text);
  Slot& slot = slots_[SlotOf(text, hash)];
  if (slot.number >= 0) return;
  slot = {hash, size() - 1};
  ++used_;
}

int32_t TextTable::Intern(std::string_view text) {
  if (const auto number = Find(text)) return *number;
  Append(text);
  return size() - 1;
}

std::optional<int32_t> TextTable::Find(std::string_view text) const {
  if (slots_.empty() || text.empty()) return std::nullopt;
  const int32_t number = slots_[SlotOf(text, HashOf(text))].number;
  if (number < 0) return std::nullopt;
  return number;
}

size_t TextTable::SlotOf(std::string_view text, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].number >= 0 && (slots_[i].hash != hash || At(slots_[i].number) != text)) {
    i = (i + 1) & mask;
  }
  return i;
}

void TextTable::Rehash(size_t slot_count) {
  std::vector<Slot> old(slot_count);
  old.swap(slots_);
  const size_t mask = slot_count - 1;
  for (const Slot& slot : old) {
    if (slot.number < 0) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].number >= 0) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

}  // namespace thaw
