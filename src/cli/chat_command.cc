// thaw chat: a conversation in the terminal.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/interrupt.h"
#include "base/terminal.h"
#include "cli/answer_stream.h"
#include "cli/commands.h"
#include "cli/json_text.h"
#include "cli/model_loading.h"
#include "cli/plan_report.h"
#include "cli/profile.h"
#include "cli/prompt.h"
#include "cli/standard_output.h"
#include "cli/statistics_report.h"
#include "engine/session.h"

namespace thaw::cli {
namespace {

constexpr std::string_view kBudget = "/budget";

constexpr std::string_view kHelp =
    "/reset        forget the conversation\n"
    "/stats        what the conversation has cost, and how the weights were read\n"
    "/budget       where the memory goes\n"
    "/budget SIZE  change how much memory may be used, also while an answer is written\n"
    "/help         this list\n"
    "Ctrl+C stops an answer, Ctrl+D ends.\n";

// One conversation: what was said, the session that remembers it, and what it cost.
class Conversation {
 public:
  Conversation(Engine& engine, std::unique_ptr<Session> session, const ChatOptions& options,
               RunReport report)
      : engine_(engine),
        session_(std::move(session)),
        options_(options),
        is_interactive_(IsTerminal(StandardStream::kInput)),
        report_(std::move(report)) {
    StartAnew();
  }

  // Until the input ends.
  Result<void> Run() {
    if (is_interactive_ && !options_.report.quiet) WriteError("/help lists the commands.\n");
    for (;;) {
      if (is_interactive_) WriteError("> ");
      auto line = input_.Next();
      if (!line) {
        THAW_TRY(GoOnAfterInterrupt(line.error()));
        continue;
      }
      if (!*line) break;
      THAW_TRY(Handle(**line));
    }
    if (is_interactive_) WriteError("\n");
    return {};
  }

  RunReport Report() const {
    RunReport report = report_;
    DescribeEngine(engine_, report);
    return report;
  }

 private:
  void StartAnew() {
    messages_ = Json::array();
    if (!options_.system.empty()) messages_.push_back(Message("system", options_.system));
    session_->Reset();
  }

  // Ctrl+C at an empty line is no reason to lose a conversation; in a script it is one to end.
  Result<void> GoOnAfterInterrupt(const Error& error) {
    if (error.code != ErrorCode::kCancelled || !is_interactive_ || TerminationRequested()) {
      return Fail(error);
    }
    WriteError("\nCtrl+D ends.\n");
    CatchInterrupts();
    return {};
  }

  Result<void> Handle(const std::string& line) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) return {};
    if (!line.starts_with('/')) return Answer(line);
    const std::string_view command =
        std::string_view(line).substr(0, line.find_last_not_of(" \t\r") + 1);
    if (command == kBudget || command.starts_with("/budget ")) {
      ShowOrChangeBudget(command.substr(kBudget.size()));
    } else if (command == "/reset") {
      StartAnew();
      WriteError("The conversation starts anew.\n");
    } else if (command == "/stats") {
      WriteError(StatisticsTable(Report()));
    } else {
      if (command != "/help") WriteError(fmt::format("There is no command {}.\n", command));
      WriteError(kHelp);
    }
    return {};
  }

  // A budget need not wait for the end of the answer, whose text it does not change.
  void HandleBudgetNow() {
    if (const auto line = input_.Next(); line && *line) static_cast<void>(Handle(**line));
  }

  // A budget that is refused is no reason to end a conversation.
  void ShowOrChangeBudget(std::string_view size) {
    size.remove_prefix(std::min(size.find_first_not_of(" \t"), size.size()));
    if (!size.empty()) {
      if (const auto changed = ChangeBudget(size); !changed) {
        WriteError(changed.error().message + '\n');
        return;
      }
    }
    WriteError(PlanLine(engine_.plan()) + '\n');
  }

  Result<void> ChangeBudget(std::string_view size) {
    THAW_ASSIGN(const BudgetRequest budget, ParseBudget(size));
    return engine_.SetBudget(budget);
  }

  Result<void> Answer(const std::string& question) {
    messages_.push_back(Message("user", question));
    THAW_ASSIGN(const std::vector<int32_t> prompt, EncodeConversation(engine_, messages_));
    if (const auto fits = CheckFitsContext("the conversation", prompt.size(), session_->capacity());
        !fits) {
      messages_.erase(messages_.size() - 1);
      WriteError(fmt::format("{}; /reset starts anew\n", fits.error().message));
      return {};
    }
    AnswerStream stream;
    ProfileRecorder recorder(engine_, report_.profile);
    GenerationOptions generation = Generation();
    generation.on_prompt_done = [&recorder] { recorder.EndPrompt(); };
    const auto result = session_->Generate(prompt, generation, [&](std::string_view text) {
      stream.Push(text);
      if (input_.HasLine(kBudget)) HandleBudgetNow();
    });
    THAW_TRY(stream.Finish());
    if (!result) return Fail(result.error());
    messages_.push_back(Message("assistant", result->text));
    AddGeneration(result->statistics, report_.generation);
    recorder.EndAnswer(result->statistics);
    report_.finish = result->finish;
    return AfterAnswer(*result);
  }

  Result<void> AfterAnswer(const GenerationResult& result) {
    if (result.finish == FinishReason::kContextFull) {
      WriteError("The context is full: /reset starts anew, a larger -c holds more.\n");
    }
    if (Interrupted()) {
      if (TerminationRequested()) return Fail(ErrorCode::kCancelled, "interrupted");
      if (!options_.report.quiet) WriteError("(stopped)\n");
      CatchInterrupts();
    }
    return {};
  }

  // Every answer draws from the same seed, moved on by the answers before it.
  GenerationOptions Generation() {
    GenerationOptions generation = options_.generation;
    generation.sampling.seed = report_.seed + answer_count_++;
    generation.cancel = &StopFlag();
    return generation;
  }

  Engine& engine_;
  const std::unique_ptr<Session> session_;
  const ChatOptions& options_;
  const bool is_interactive_;
  LineReader input_;
  Json messages_;
  uint64_t answer_count_ = 0;
  RunReport report_;
};

}  // namespace

Result<void> Execute(const ChatOptions& options) {
  RunReport report;
  report.model = options.model.path;
  report.seed = options.seed ? *options.seed : RandomSeed();
  THAW_ASSIGN(LoadedModel engine, LoadEngine(options.model, options.report));
  report.load_seconds = engine.load_seconds();
  THAW_ASSIGN(const ChatTemplate* chat_template, engine->chat_template());
  if (chat_template == nullptr) {
    return Fail(ErrorCode::kUnsupported,
                "{}: the model has no chat template; `thaw run` continues plain text",
                engine->path());
  }
  THAW_ASSIGN(auto session, engine->NewSession());
  Conversation conversation(*engine, std::move(session), options, std::move(report));
  auto ended = conversation.Run();
  if (!ended && ended.error().code != ErrorCode::kCancelled) return ended;
  // The line would only repeat the last answer's figures under a conversation; /stats has them.
  ReportOptions closing = options.report;
  closing.quiet = true;
  THAW_TRY(PublishReport(conversation.Report(), closing));
  THAW_TRY(engine.CloseTrace());
  return ended;
}

}  // namespace thaw::cli
