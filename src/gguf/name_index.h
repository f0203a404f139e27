// Finds the items of a list by their names: 4 bytes an item, binary search, and no hashing that a
// hostile file could aim at. The list itself belongs to the caller, who hands it to every call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thaw {

template <typename Item, std::string Item::*kName>
class NameIndex {
 public:
  NameIndex() = default;
  explicit NameIndex(std::span<const Item> items) : order_(items.size()) {
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(),
                     [&](uint32_t a, uint32_t b) { return items[a].*kName < items[b].*kName; });
  }

  // nullptr when no item has this name.
  const Item* Find(std::span<const Item> items, std::string_view name) const {
    const auto found = std::lower_bound(
        order_.begin(), order_.end(), name,
        [&](uint32_t i, std::string_view wanted) { return items[i].*kName < wanted; });
    if (found == order_.end() || items[*found].*kName != name) return nullptr;
    return &items[*found];
  }

  // An item whose name an earlier item has, or nullptr.
  const Item* FindDuplicate(std::span<const Item> items) const {
    const auto found = std::adjacent_find(
        order_.begin(), order_.end(),
        [&](uint32_t a, uint32_t b) { return items[a].*kName == items[b].*kName; });
    return found == order_.end() ? nullptr : &items[*std::next(found)];
  }

 private:
  std::vector<uint32_t> order_;  // positions of the items, sorted by name
};

}  // namespace thaw
