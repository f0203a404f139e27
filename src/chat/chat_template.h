// Chat templates: the Jinja program in a model file that turns messages into prompt text.
//
// The language is Jinja2 set up as model files expect it: trim_blocks, lstrip_blocks, break and
// continue, `generation` blocks, `tojson` without ASCII or HTML escaping,
// `raise_exception(message)`, `strftime_now(format)`; undefined values print as nothing; values
// behave as Python's do. Lists and dicts cannot be changed by a template (the sandbox of Jinja2
// forbids it too).
//
// A ChatTemplate owns its parsed program and is immutable: any number of threads may render it.
// Hostile templates and contexts end with an error, bounded by RenderLimits. Errors read
// "name:line:column: what", lines and columns counted from 1, columns in bytes.
#pragma once

#include <chrono>
#include <ctime>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/result.h"
#include "chat/render_limits.h"

namespace thaw {

namespace jinja {
struct Program;
}

struct RenderOptions {
  // Local time of `strftime_now`. Stated by the caller, so that a rendering can be repeated.
  std::chrono::local_seconds now{};
  RenderLimits limits;
};

class ChatTemplate {
 public:
  // `name` stands for the template in errors. kCorrupt where the source is not a template.
  static Result<ChatTemplate> Parse(std::string_view source, std::string name);

  // The text for a context, which must be a JSON object: its members are the template's variables.
  // kInvalidArgument where the template or the context is at fault (also for raise_exception, whose
  // message is kept), kResourceExhausted where a limit was reached.
  Result<std::string> Render(const nlohmann::ordered_json& context,
                             const RenderOptions& options = {}) const;

 private:
  explicit ChatTemplate(std::shared_ptr<const jinja::Program> program);

  std::shared_ptr<const jinja::Program> program_;
};

struct RenderMessagesOptions {
  std::string bos_token;  // text, "" where the model has none
  std::string eos_token;
  bool add_generation_prompt = true;
  RenderOptions render;
};

// Renders `messages`, a JSON array of {"role", "content", ...}, as prompt text.
Result<std::string> RenderMessages(const ChatTemplate& chat_template,
                                   const nlohmann::ordered_json& messages,
                                   const RenderMessagesOptions& options);

// `time` on the clock of this machine's time zone, for RenderOptions::now.
std::chrono::local_seconds LocalTime(std::time_t time);

}  // namespace thaw
