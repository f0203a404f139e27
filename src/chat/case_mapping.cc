#include "chat/case_mapping.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

namespace thaw::jinja {
namespace {

// The characters first, first + stride, ... last each map to themselves plus `delta`.
struct CaseRange {
  char32_t first, last;
  int32_t stride, delta;
};
struct SpecialCase {
  char32_t character;
  const char32_t* mapped;
};

#include "chat/case_tables.inc"

char32_t Map(char32_t c, const CaseRange* begin, const CaseRange* end) {
  const CaseRange* range = std::lower_bound(
      begin, end, c, [](const CaseRange& r, char32_t wanted) { return r.last < wanted; });
  const bool inside = range != end && c >= range->first && (c - range->first) % range->stride == 0;
  return inside ? c + range->delta : c;
}

}  // namespace

char32_t UpperCase(char32_t c) {
  if (c < 0x80) return c >= 'a' && c <= 'z' ? c - 0x20 : c;
  return Map(c, std::begin(kToUpper), std::end(kToUpper));
}

char32_t LowerCase(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 0x20 : c;
  return Map(c, std::begin(kToLower), std::end(kToLower));
}

std::u32string_view SpecialUpperCase(char32_t c) {
  if (c < 0x80) return {};
  const SpecialCase* found = std::lower_bound(
      std::begin(kSpecialUpper), std::end(kSpecialUpper), c,
      [](const SpecialCase& special, char32_t wanted) { return special.character < wanted; });
  if (found == std::end(kSpecialUpper) || found->character != c) return {};
  return found->mapped;
}

}  // namespace thaw::jinja
