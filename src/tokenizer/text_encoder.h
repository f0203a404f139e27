// Spells a run of text, in which no special tokens are left, in tokens. One implementation a family
// of vocabularies. Const, safe from any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thaw {

class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of `text`, which stands at the start of the whole text or behind a special
  // token.
  virtual Result<void> Encode(std::string_view text, std::vector<int32_t>& ids) const = 0;
};

}  // namespace thaw
