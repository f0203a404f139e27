// thaw template: renders a chat template.
#include <ctime>
#include <optional>
#include <string>

#include "chat/chat_template.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/standard_output.h"
#include "cli/text_input.h"
#include "engine/model_file.h"
#include "gguf/gguf_file.h"
#include "io/file.h"

namespace thaw::cli {
namespace {

// The largest templates in model files have 30 KiB.
constexpr size_t kMaxTemplateBytes = size_t{16} << 20;

// Model files begin with a magic; whatever else there is, is a template. Files too short for one,
// and things that are no files, are left to the reader of templates.
bool IsGguf(const std::string& path) {
  const auto file = OpenFile(path);
  std::string magic(kGgufMagic.size(), '\0');
  return file && ReadExactlyAt(**file, 0, std::as_writable_bytes(std::span(magic))) &&
         magic == kGgufMagic;
}

Result<ChatTemplate> ReadTemplate(const std::string& path) {
  if (!IsGguf(path)) {
    THAW_ASSIGN(const std::string source, ReadTextFile(path, kMaxTemplateBytes));
    return ChatTemplate::Parse(source, path);
  }
  THAW_ASSIGN(const GgufFile file, GgufFile::Open(path));
  THAW_ASSIGN(std::optional<ChatTemplate> parsed, LoadChatTemplate(file));
  if (!parsed) {
    return Fail(ErrorCode::kNotFound, "{}: the model has no chat template", path);
  }
  return *std::move(parsed);
}

}  // namespace

Result<void> Execute(const TemplateOptions& options) {
  THAW_ASSIGN(const ChatTemplate chat_template, ReadTemplate(options.path));
  THAW_ASSIGN(const Json context, ReadJsonFile(options.context_file));
  if (!context.is_object()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: a JSON object is expected, this is of type {}",
                options.context_file, context.type_name());
  }
  RenderOptions render;
  render.now =
      options.today ? std::chrono::local_days(*options.today) : LocalTime(std::time(nullptr));
  THAW_ASSIGN(const std::string rendered, chat_template.Render(context, render));
  return WriteOutput(rendered);
}

}  // namespace thaw::cli
