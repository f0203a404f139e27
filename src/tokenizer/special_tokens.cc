#include "tokenizer/special_tokens.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace thaw {
namespace {

bool IsAsciiSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// A token that may be cut out at a place; of several the one of lowest priority number is next,
// then the leftmost.
struct Candidate {
  uint32_t priority;
  size_t begin;

  bool operator>(const Candidate& other) const {
    return priority != other.priority ? priority > other.priority : begin > other.begin;
  }
};

}  // namespace

SpecialTokens::SpecialTokens(std::vector<SpecialToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const SpecialToken& a, const SpecialToken& b) {
    return a.text != b.text ? a.text < b.text : a.id < b.id;
  });
  const auto same_text = [](const SpecialToken& a, const SpecialToken& b) {
    return a.text == b.text;
  };
  tokens_.erase(std::unique(tokens_.begin(), tokens_.end(), same_text), tokens_.end());

  by_priority_.resize(tokens_.size());
  std::iota(by_priority_.begin(), by_priority_.end(), 0);
  std::sort(by_priority_.begin(), by_priority_.end(), [&](uint32_t a, uint32_t b) {
    const SpecialToken& x = tokens_[a];
    const SpecialToken& y = tokens_[b];
    return x.text.size() != y.text.size() ? x.text.size() > y.text.size() : x.id < y.id;
  });
  priority_.resize(tokens_.size());
  for (uint32_t i = 0; i < by_priority_.size(); ++i) priority_[by_priority_[i]] = i;

  for (uint32_t i = 0; i < tokens_.size(); ++i) {
    auto& range = first_byte_[static_cast<uint8_t>(tokens_[i].text.front())];
    if (range[1] == 0) range[0] = i;
    range[1] = i + 1;
  }
}

uint32_t SpecialTokens::LongestAtStart(std::string_view text, size_t limit) const {
  limit = std::min(limit, text.size());
  if (limit == 0) return kNone;
  auto [from, to] = first_byte_[static_cast<uint8_t>(text.front())];
  uint32_t longest = kNone;
  // tokens_[from, to) are those that share the first `depth` bytes of `text`; one that ends there
  // sorts first.
  for (size_t depth = 1; from < to; ++depth) {
    if (tokens_[from].text.size() == depth) longest = from++;
    if (depth == limit) break;
    const auto byte_at_depth = [&](uint32_t i) {
      return static_cast<uint8_t>(tokens_[i].text[depth]);
    };
    const auto wanted = static_cast<uint8_t>(text[depth]);
    const auto first_not_less = [&](uint32_t low, uint32_t high, int byte) {
      while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (byte_at_depth(middle) < byte) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      return low;
    };
    from = first_not_less(from, to, wanted);
    to = first_not_less(from, to, wanted + 1);
  }
  return longest;
}

std::vector<SpecialTokens::Found> SpecialTokens::FindIn(std::string_view text) const {
  std::vector<Found> found;
  if (tokens_.empty()) return found;
  std::vector<Candidate> starts;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t token = LongestAtStart(text.substr(i), text.size());
    if (token != kNone) starts.push_back({priority_[token], i});
  }
  if (starts.empty()) return found;

  std::vector<bool> taken(text.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates(
      std::greater<>(), std::move(starts));
  while (!candidates.empty()) {
    const Candidate candidate = candidates.top();
    candidates.pop();
    const SpecialToken& token = tokens_[by_priority_[candidate.priority]];
    size_t begin = candidate.begin;
    size_t end = begin + token.text.size();
    if (taken[begin]) continue;
    // What was taken before is at least as long, so it cannot lie strictly inside: both ends free
    // means free throughout.
    if (taken[end - 1]) {
      const uint32_t shorter = LongestAtStart(text.substr(begin), token.text.size() - 1);
      if (shorter != kNone) candidates.push({priority_[shorter], begin});
      continue;
    }
    if (token.strips_left) {
      while (begin > 0 && !taken[begin - 1] && IsAsciiSpace(text[begin - 1])) --begin;
    }
    if (token.strips_right) {
      while (end < text.size() && !taken[end] && IsAsciiSpace(text[end])) ++end;
    }
    std::fill(taken.begin() + static_cast<ptrdiff_t>(begin),
              taken.begin() + static_cast<ptrdiff_t>(end), true);
    found.push_back({begin, end, token.id});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.begin < b.begin; });
  return found;
}

}  // namespace thaw
