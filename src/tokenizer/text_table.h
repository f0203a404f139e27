// Texts numbered from 0, with a lookup from text to number: the tokens of a vocabulary.
//
// All text lies in one block; beside it a text costs 8 bytes and its place in the index 12 to 24.
// Lookups take constant time. Views stay valid until the next Append or Intern. Not thread-safe
// while it is filled; const afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thaw {

class TextTable {
 public:
  // Room for `count` texts of `bytes` bytes together.
  void Reserve(size_t count, size_t bytes);

  // Adds `text` under the next number. Of equal texts Find gives the first; an empty text is never
  // found.
  void Append(std::string_view text);
  // The number of `text`, added if it is not there.
  int32_t Intern(std::string_view text);

  std::optional<int32_t> Find(std::string_view text) const;
  std::string_view At(int32_t number) const {
    const auto i = static_cast<size_t>(number);
    return std::string_view(bytes_).substr(ends_[i], ends_[i + 1] - ends_[i]);
  }
  int32_t size() const { return static_cast<int32_t>(ends_.size() - 1); }

 private:
  struct Slot {
    uint32_t hash = 0;
    int32_t number = -1;  // -1: free
  };

  // The slot that holds `text`, or the free one where it belongs.
  size_t SlotOf(std::string_view text, uint32_t hash) const;
  void Rehash(size_t slot_count);

  std::string bytes_;
  std::vector<size_t> ends_ = {0};  // text i is [ends_[i], ends_[i + 1])
  std::vector<Slot> slots_;         // a power of two, at most two thirds in use, linear probing
  size_t used_ = 0;
};

}  // namespace thaw
