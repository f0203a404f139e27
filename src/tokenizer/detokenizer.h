// Token ids to text, one at a time, for output that is shown while it is generated.
//
// Only whole UTF-8 characters come out: the first bytes of a character wait for the rest, bytes
// that can never become one come out as U+FFFD. Holds a reference to the tokenizer, which must
// outlive it; one detokenizer a stream, not thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace thaw {

class Detokenizer {
 public:
  struct Options {
    bool render_special = false;  // write control tokens by name
    // The stream begins a text, so the space that encoding put before it is taken off. False for a
    // stream that continues text shown before.
    bool at_text_start = true;
  };

  explicit Detokenizer(const Tokenizer& tokenizer) : Detokenizer(tokenizer, Options{}) {}
  Detokenizer(const Tokenizer& tokenizer, Options options);

  // The text that is complete after this token; may be empty.
  std::string Push(int32_t id);
  // What was held back, as U+FFFD.
  std::string Finish();

 private:
  const Tokenizer& tokenizer_;
  bool render_special_;
  bool drop_space_;  // the next text may lose one leading space
  Utf8Assembler assembler_;
};

}  // namespace thaw
