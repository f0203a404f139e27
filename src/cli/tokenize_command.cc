// thaw tokenize: texts as token ids.
#include <memory>
#include <string>
#include <vector>

#include "base/interrupt.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/standard_output.h"
#include "cli/text_input.h"
#include "engine/model_file.h"
#include "gguf/gguf_file.h"

namespace thaw::cli {
namespace {

std::string JsonList(const std::vector<int32_t>& ids) {
  return fmt::format("[{}]", fmt::join(ids, ", "));
}

// A list of lists, one text a line.
Result<void> PrintAll(const Tokenizer& tokenizer, const std::vector<std::string>& texts,
                      const EncodeOptions& encoding) {
  THAW_TRY(WriteOutput("["));
  const char* separator = "\n";
  for (const std::string& text : texts) {
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    THAW_ASSIGN(const auto ids, tokenizer.Encode(text, encoding));
    THAW_TRY(WriteOutput(separator + JsonList(ids)));
    separator = ",\n";
  }
  return WriteOutput(texts.empty() ? "]\n" : "\n]\n");
}

}  // namespace

Result<void> Execute(const TokenizeOptions& options) {
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(options.path));
  THAW_ASSIGN(const auto tokenizer, LoadTokenizer(file));
  using Bos = EncodeOptions::Bos;
  const EncodeOptions encoding = {.bos = options.add_bos ? Bos::kRule : Bos::kNever,
                                  .add_eos = options.add_bos,
                                  .parse_special = options.parse_special};
  if (!options.texts_file.empty()) {
    THAW_ASSIGN(const auto texts, ReadStringList(options.texts_file));
    return PrintAll(*tokenizer, texts, encoding);
  }
  THAW_ASSIGN(const std::string text, ReadText(options.text));
  THAW_ASSIGN(const auto ids, tokenizer->Encode(text, encoding));
  return WriteOutput(options.json ? JsonList(ids) + "\n"
                                  : fmt::format("{}\n", fmt::join(ids, " ")));
}

}  // namespace thaw::cli
