// thaw run: answers one prompt.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/interrupt.h"
#include "base/log.h"
#include "base/process.h"
#include "base/stopwatch.h"
#include "base/units.h"
#include "cli/answer_stream.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_loading.h"
#include "cli/profile.h"
#include "cli/prompt.h"
#include "cli/standard_output.h"
#include "cli/statistics_report.h"
#include "cli/text_input.h"
#include "engine/session.h"

namespace thaw::cli {
namespace {

// What is to be answered: a text, or a conversation.
struct Question {
  std::string text;
  std::optional<Json> messages;
};

Result<Question> ReadQuestion(const RunOptions& options) {
  Question question;
  if (!options.messages_file.empty()) {
    THAW_ASSIGN(question.messages, ReadJsonFile(options.messages_file));
    if (!question.messages->is_array() || question.messages->empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: a JSON list of messages is expected, with at least one in it",
                  options.messages_file);
    }
    return question;
  }
  THAW_ASSIGN(question.text, ReadText(options.prompt, options.report.quiet));
  if (!options.prompt.text) DropLastNewline(question.text);
  if (question.text.empty()) return Fail(ErrorCode::kInvalidArgument, "the prompt is empty");
  return question;
}

Result<std::vector<int32_t>> EncodeQuestion(Engine& engine, const RunOptions& options,
                                            const Question& question) {
  bool raw = options.raw;
  if (!raw && !question.messages && options.system.empty()) {
    THAW_ASSIGN(const ChatTemplate* chat_template, engine.chat_template());
    raw = chat_template == nullptr;
  }
  if (raw) return EncodeText(engine, question.text);
  Json messages = Json::array();
  if (!options.system.empty()) messages.push_back(Message("system", options.system));
  if (question.messages) {
    messages.insert(messages.end(), question.messages->begin(), question.messages->end());
  } else {
    messages.push_back(Message("user", question.text));
  }
  return EncodeConversation(engine, messages);
}

Result<void> Answer(Engine& engine, const RunOptions& options, const Question& question,
                    RunReport& report) {
  THAW_ASSIGN(const std::vector<int32_t> prompt, EncodeQuestion(engine, options, question));
  THAW_TRY(CheckFitsContext("the prompt", prompt.size(), engine.options().context));
  THAW_ASSIGN(const auto session, engine.NewSession());
  ProfileRecorder recorder(engine, report.profile);
  GenerationOptions generation = options.generation;
  generation.sampling.seed = report.seed;
  generation.cancel = &StopFlag();
  generation.on_prompt_done = [&recorder] { recorder.EndPrompt(); };
  AnswerStream stream;
  const auto result =
      session->Generate(prompt, generation, [&](std::string_view text) { stream.Push(text); });
  auto output = stream.Finish();
  if (!result) return Fail(result.error());
  report.finish = result->finish;
  report.generation = result->statistics;
  recorder.EndAnswer(result->statistics);
  return output;
}

// What can be said of a model whose load was stopped.
Result<void> PublishStoppedLoad(const LoadProgress& progress, const RunOptions& options,
                                RunReport report) {
  report.cache.bytes_read = progress.done_bytes;
  report.cache.weight_bytes = progress.total_bytes;
  report.peak_resident_bytes = PeakResidentBytes();
  report.interrupted = true;
  ReportOptions how = options.report;
  if (!how.quiet) {
    WriteError(fmt::format("interrupted while loading, {} of {} read | peak memory {}\n",
                           FormatBytes(progress.done_bytes), FormatBytes(progress.total_bytes),
                           FormatBytes(report.peak_resident_bytes)));
  }
  how.quiet = true;
  how.statistics = false;
  return PublishReport(report, how);
}

}  // namespace

Result<void> Execute(const RunOptions& options) {
  RunReport report;
  report.model = options.model.path;
  report.seed = options.seed ? *options.seed : RandomSeed();
  THAW_ASSIGN(const Question question, ReadQuestion(options));

  const auto start = std::chrono::steady_clock::now();
  LoadProgress progress;
  auto engine = LoadEngine(options.model, options.report, &progress);
  report.load_seconds = SecondsSince(start);
  if (!engine) {
    if (engine.error().code == ErrorCode::kCancelled) {
      THAW_TRY(PublishStoppedLoad(progress, options, std::move(report)));
    }
    return Fail(std::move(engine).error());
  }
  auto answered = Answer(**engine, options, question, report);
  // After a failure its sentence stands alone, without figures that mean nothing.
  if (!answered && answered.error().code != ErrorCode::kCancelled) return answered;
  DescribeEngine(**engine, report);
  report.interrupted = Interrupted();
  LogInfo("seed {}", report.seed);
  THAW_TRY(PublishReport(report, options.report));
  if (report.interrupted) return Fail(ErrorCode::kCancelled, "interrupted");
  THAW_TRY(engine->CloseTrace());
  return answered;
}

}  // namespace thaw::cli
