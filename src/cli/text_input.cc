#include "cli/text_input.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "base/interrupt.h"
#include "base/system_message.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/standard_output.h"

namespace thaw::cli {
namespace {

Result<std::string> ReadToEnd(std::FILE* file, std::string_view name, size_t max_bytes) {
  std::string text;
  std::array<char, 65536> chunk;
  for (;;) {
    const size_t got = std::fread(chunk.data(), 1, chunk.size(), file);
    if (got > max_bytes - text.size()) {
      return Fail(ErrorCode::kResourceExhausted, "{}: is longer than the {} that fit here", name,
                  FormatBytes(max_bytes));
    }
    text.append(chunk.data(), got);
    if (got == chunk.size()) continue;
    if (Interrupted()) return Fail(ErrorCode::kCancelled, "interrupted");
    if (std::ferror(file) != 0) {
      return Fail(ErrorCode::kIo, "{}: cannot be read: {}", name, SystemMessage(errno));
    }
    return text;
  }
}

}  // namespace

Result<std::string> ReadTextFile(const std::string& path, size_t max_bytes) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             &std::fclose);
  if (file == nullptr) {
    const int error_number = errno;
    if (error_number == ENOENT) return Fail(ErrorCode::kNotFound, "{}: no such file", path);
    return Fail(ErrorCode::kIo, "{}: cannot be opened: {}", path, SystemMessage(error_number));
  }
  return ReadToEnd(file.get(), path, max_bytes);
}

Result<std::string> ReadText(const TextSource& source, bool quiet) {
  if (source.text) return *source.text;
  if (source.file) return ReadTextFile(*source.file);
  if (!quiet && IsTerminal(StandardStream::kInput)) {
    WriteError("Type the text; Ctrl+D on a line of its own ends it.\n");
  }
  return ReadToEnd(stdin, "standard input", size_t{1} << 30);
}

void DropLastNewline(std::string& text) {
  if (!text.ends_with('\n')) return;
  text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

}  // namespace thaw::cli
