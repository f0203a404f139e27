#include "chat/chat_template.h"

#include "chat/interpreter.h"
#include "chat/json.h"
#include "chat/parser.h"

namespace thaw {

ChatTemplate::ChatTemplate(std::shared_ptr<const jinja::Program> program)
    : program_(std::move(program)) {}

Result<ChatTemplate> ChatTemplate::Parse(std::string_view source, std::string name) {
  THAW_ASSIGN(auto program, jinja::ParseTemplate(source, std::move(name)));
  return ChatTemplate(std::move(program));
}

Result<std::string> ChatTemplate::Render(const nlohmann::ordered_json& context,
                                         const RenderOptions& options) const {
  auto variables = jinja::FromJson(context);
  if (!variables) return Fail(std::move(variables).error().In(program_->name));
  if (!variables->is_dict()) {
    return Fail(ErrorCode::kInvalidArgument, "{}: the context must be a JSON object, found {}",
                program_->name, context.type_name());
  }
  return jinja::Interpreter(*program_, options.limits, options.now).Run(variables->dict());
}

Result<std::string> RenderMessages(const ChatTemplate& chat_template,
                                   const nlohmann::ordered_json& messages,
                                   const RenderMessagesOptions& options) {
  nlohmann::ordered_json context = nlohmann::ordered_json::object();
  context["messages"] = messages;
  context["bos_token"] = options.bos_token;
  context["eos_token"] = options.eos_token;
  context["add_generation_prompt"] = options.add_generation_prompt;
  return chat_template.Render(context, options.render);
}

std::chrono::local_seconds LocalTime(std::time_t time) {
  std::tm local{};
  localtime_r(&time, &local);
  const std::chrono::year_month_day date(
      std::chrono::year(local.tm_year + 1900),
      std::chrono::month(static_cast<unsigned>(local.tm_mon + 1)),
      std::chrono::day(static_cast<unsigned>(local.tm_mday)));
  return std::chrono::local_days(date) + std::chrono::hours(local.tm_hour) +
         std::chrono::minutes(local.tm_min) + std::chrono::seconds(local.tm_sec);
}

}  // namespace thaw
