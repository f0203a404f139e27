// Cuts text into words by a list of regular expressions, each applied to the pieces of the one
// before it. The engine is PCRE2: compiled to machine code where the system allows that, else
// interpreted with the same results.
//
// Syntax: PCRE2 in UTF mode. \s and \S mean Unicode's White_Space, as the models' own tokenizers
// take them, and \p{L}, \p{M}, \p{N}, \p{P}, \p{S} Unicode 15.1; every other class is PCRE2's, in
// which \d, \w and \b are ASCII. An expression never sees beyond its piece, so \A, \z and
// lookarounds stop at the piece's ends.
//
// Immutable; Split may be called from any thread. Time is linear in the text for expressions that
// do not backtrack over it again and again; no limit on steps is set, so the table of expressions
// is what keeps that promise. Memory does not depend on the text.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace thaw {

class RegexSplitter {
 public:
  // kInvalidArgument names the expression that is wrong and where.
  static Result<RegexSplitter> Create(const std::vector<std::string_view>& expressions);
  ~RegexSplitter();
  RegexSplitter(RegexSplitter&&) noexcept;
  RegexSplitter& operator=(RegexSplitter&&) noexcept;

  // Calls `emit` with the pieces of `text` (valid UTF-8) in order; together they are the text, and
  // none is empty. kResourceExhausted when the engine runs out of memory.
  Result<void> Split(std::string_view text, FunctionRef<void(std::string_view)> emit) const;

 private:
  struct Pass;
  class Session;
  RegexSplitter();

  std::vector<Pass> passes_;
};

}  // namespace thaw
