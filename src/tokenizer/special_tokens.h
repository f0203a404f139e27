// Finds the tokens that are cut out of a text before it is encoded.
//
// Where tokens overlap, the longest one anywhere in the text wins, then the leftmost; so "<|a|>x"
// is found in "<<|a|>x" even if "<<|a" is a token too. A search takes time proportional to the text
// times the length of the longest token that begins like it, and memory only where tokens are
// found. Const after construction.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace thaw {

struct SpecialToken {
  std::string_view text;  // not empty; must outlive the SpecialTokens
  int32_t id;
  bool strips_left = false;  // swallows the white space (ASCII) before it
  bool strips_right = false;
};

class SpecialTokens {
 public:
  SpecialTokens() = default;
  explicit SpecialTokens(std::vector<SpecialToken> tokens);

  struct Found {
    size_t begin;  // of the part of the text that the token stands for, with the stripped space
    size_t end;
    int32_t id;
  };
  // In the order of the text, without overlap.
  std::vector<Found> FindIn(std::string_view text) const;

 private:
  // The index in tokens_ of the longest token, of at most `limit` bytes, at the start of `text`.
  // kNone when there is none.
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t LongestAtStart(std::string_view text, size_t limit) const;

  std::vector<SpecialToken> tokens_;                       // sorted by text, one of each
  std::vector<uint32_t> priority_;                         // of each token: 0 is the longest
  std::vector<uint32_t> by_priority_;                      // the inverse
  std::array<std::array<uint32_t, 2>, 256> first_byte_{};  // tokens_ [from, to) by first byte
};

}  // namespace thaw
