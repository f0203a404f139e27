// How each kind of byte-pair vocabulary wants its text cut into words before merging: one table,
// keyed by the names that files write into tokenizer.ggml.pre. Constant data.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace thaw {

struct PreTokenizer {
  std::vector<std::string_view> names;
  // Applied one after another, each to the pieces that the one before it made: every match is a
  // piece, and so is what lies between two matches. Syntax: regex_splitter.h.
  std::vector<std::string_view> passes;
  // A word that is a token as a whole is not built by merges.
  bool ignore_merges = false;
  // Whether BOS comes in front when the file does not say.
  bool add_bos = false;
  // Words are spelled in the 256 characters of byte_alphabet.h. Otherwise they are spelled as they
  // are, a space as U+2581, and what is not a token falls back to byte tokens.
  bool byte_level = true;
  // A run of newlines that is a token as a whole is not built by merges.
  bool whole_newline_runs = false;
};

// nullptr when no entry has this name.
const PreTokenizer* FindPreTokenizer(std::string_view name);

// All names, sorted, for messages.
std::string PreTokenizerNames();

}  // namespace thaw
