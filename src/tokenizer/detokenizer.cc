#include "tokenizer/detokenizer.h"

namespace thaw {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer),
      render_special_(options.render_special),
      drop_space_(options.at_text_start && tokenizer.adds_space_prefix()) {}

std::string Detokenizer::Push(int32_t id) {
  std::string bytes = tokenizer_.TokenToBytes(id, render_special_);
  if (bytes.empty()) return {};
  if (drop_space_ && bytes.front() == ' ') bytes.erase(0, 1);
  drop_space_ = false;
  return assembler_.Push(bytes);
}

std::string Detokenizer::Finish() { return assembler_.Finish(); }

}  // namespace thaw
