#include "cli/command_line.h"

#include <CLI/CLI.hpp>
#include <limits>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "cli/argument_checks.h"
#include "cli/residency_arguments.h"
#include "cli/version.h"
#include "codec/type_error.h"
#include "engine/freeze_allocation.h"
#include "engine/shape_model.h"
#include "sampling/sampling_options.h"

namespace thaw::cli {
namespace {

constexpr int kWrongUsage = 2;

// The options of all commands, filled by the one that was named.
struct AllOptions {
  RunOptions run;
  ChatOptions chat;
  InspectOptions inspect;
  TokenizeOptions tokenize;
  TemplateOptions chat_template;
  LogitsOptions logits;
  PerplexityOptions perplexity;
  PlanOptions plan;
  BenchOptions bench;
  FreezeCommandOptions freeze;
  DoctorOptions doctor;
};

// ID=VALUE
std::optional<std::pair<int32_t, float>> ParseLogitBias(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) return std::nullopt;
  const auto id = ParseNumber<int32_t>(text.substr(0, equals));
  const auto value = ParseNumber<float>(text.substr(equals + 1));
  if (!id || !value) return std::nullopt;
  return std::pair(*id, *value);
}

// YYYY-MM-DD
std::optional<std::chrono::year_month_day> ParseDate(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return std::nullopt;
  const auto year = ParseNumber<int>(text.substr(0, 4));
  const auto month = ParseNumber<unsigned>(text.substr(5, 2));
  const auto day = ParseNumber<unsigned>(text.substr(8, 2));
  if (!year || !month || !day) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  return date.ok() ? std::optional(date) : std::nullopt;
}

// What is measured at most: far beyond any context, and far from overflowing where counts are
// multiplied.
constexpr int64_t kMostTokens = int64_t{1} << 24;

// N,N,...: counts of tokens; 0 stands for none.
std::optional<std::vector<int64_t>> ParseTokenCounts(std::string_view text) {
  std::vector<int64_t> counts;
  while (true) {
    const size_t comma = text.find(',');
    const auto count = ParseNumber<int64_t>(text.substr(0, comma));
    if (!count || *count < 0 || *count > kMostTokens) return std::nullopt;
    if (*count > 0) counts.push_back(*count);
    if (comma == std::string_view::npos) return counts;
    text.remove_prefix(comma + 1);
  }
}

std::optional<double> ParseBits(std::string_view text) {
  const auto bits = ParseNumber<double>(text);
  // Not a number lies nowhere.
  return bits && *bits >= kLeastBits && *bits <= kMostBits ? bits : std::nullopt;
}

// A size in bytes, of a file.
Result<BudgetRequest> ParseFileSize(std::string_view text) {
  const auto size = ParseBudget(text);
  if (size && size->base == BudgetRequest::Base::kNothing && size->bytes > 0) return size;
  return Fail(ErrorCode::kInvalidArgument,
              "'{}' is no size of a file: expected bytes, or a size such as 600MiB or 14GiB", text);
}

// A type whose error is known and that frozen tensors can have: Q8_0 errs less.
Result<ElementType> FindErrorType(std::string_view name) {
  std::string known;
  for (const ElementType type : TypesWithError()) {
    if (type == ElementType::kQ8_0) continue;
    if (name == Info(type).name) return type;
    known += (known.empty() ? "" : ", ") + std::string(Info(type).name);
  }
  return Fail(ErrorCode::kNotFound,
              "'{}' is no type whose error tensors can be frozen with: expected {} (the finest is "
              "Q6_K, at about 6 bits; --lossless keeps BF16 exactly)",
              name, known);
}

std::optional<KvType> ParseKvType(std::string_view name) {
  for (const KvType type : {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0}) {
    if (name == KvTypeName(type)) return type;
  }
  return std::nullopt;
}

// `details` and one example stand below the options of every command.
CLI::App* AddCommand(CLI::App& app, const std::string& name, const std::string& summary,
                     const std::string& details, const std::string& example) {
  CLI::App* command = app.add_subcommand(name, summary);
  command->footer(details + "\n\nExample:\n  " + example);
  return command;
}

// A text may be given once, from one place.
void AddText(CLI::App& command, TextSource& source) {
  CLI::Option* text = command.add_option("-p,--prompt", source.text, "The text itself");
  command.add_option("-f,--file", source.file, "A file with the text")
      ->excludes(text)
      ->type_name("FILE");
}

void AddEngine(CLI::App& command, EngineOptions& engine, const std::string& context_help,
               const std::string& kv_default) {
  const std::string group = "Model";
  command.add_option("-c,--context", engine.context, context_help)
      ->check(Between<int64_t>(1, int64_t{1} << 31))
      ->type_name("N")
      ->group(group);
  command.add_option("-t,--threads", engine.threads, "Threads (default: all that may be used)")
      ->check(Between(1, 1024))
      ->type_name("N")
      ->group(group);
  command
      .add_option("--kernels", engine.kernels,
                  "Instruction set (default: the best here; `thaw doctor` lists them)")
      ->type_name("NAME")
      ->group(group);
  command
      .add_option_function<std::string>(
          "--kv-type", [&engine](const std::string& name) { engine.kv_type = *ParseKvType(name); },
          "Numbers of the KV cache (default: " + kv_default + ")")
      ->check(Accepts(ParseKvType, "f32, f16, bf16 or q8_0"))
      ->type_name("f32|f16|bf16|q8_0")
      ->group(group);
  command
      .add_option("--prefill-chunk", engine.prefill_chunk,
                  "Tokens of a prompt computed at once; changes memory and speed, never results")
      ->check(Between<int64_t>(1, int64_t{1} << 31))
      ->type_name("N")
      ->group(group);
  AddPlanning(command, engine);
}

constexpr const char* kUsualContext =
    "Context length (default: the model's, at most 4096, less where the budget is small)";

void AddGeneration(CLI::App& command, GenerationOptions& generation,
                   std::optional<uint64_t>& seed) {
  SamplingOptions& sampling = generation.sampling;
  const auto add = [&command](const std::string& name, auto& value, const std::string& help,
                              const std::string& type) {
    return command.add_option(name, value, help)->type_name(type)->group("Generation");
  };
  add("-n,--max-tokens", generation.max_tokens,
      "Tokens to generate at most (default: until the context is full)", "N");
  add("--temp", sampling.temperature, "Temperature; 0: always the likeliest token", "T")
      ->capture_default_str();
  add("--top-k", sampling.top_k, "Draw from the K likeliest tokens; 0: from all", "K")
      ->capture_default_str();
  add("--top-p", sampling.top_p, "Draw from the likeliest tokens that hold this share", "P")
      ->capture_default_str();
  add("--min-p", sampling.min_p, "Drop tokens less likely than this share of the likeliest", "P")
      ->capture_default_str();
  add("--repeat-penalty", sampling.repeat_penalty, "Penalty for tokens that came lately; 1: none",
      "X")
      ->capture_default_str();
  add("--presence-penalty", sampling.presence_penalty,
      "Taken off the logits of tokens that came lately", "X")
      ->capture_default_str();
  add("--frequency-penalty", sampling.frequency_penalty, "The same for each time that they came",
      "X")
      ->capture_default_str();
  command
      .add_option_function<std::vector<std::string>>(
          "--logit-bias",
          [&sampling](const std::vector<std::string>& biases) {
            for (const std::string& bias : biases) {
              sampling.logit_bias.push_back(*ParseLogitBias(bias));
            }
          },
          "Added to the logit of a token; may be given several times")
      ->check(Accepts(ParseLogitBias, "of the form ID=VALUE"))
      ->allow_extra_args(false)
      ->type_name("ID=VALUE")
      ->group("Generation");
  add("--seed", seed, "Equal seeds give equal answers (default: random)", "N")
      ->check(Accepts(ParseNumber<uint64_t>, "a whole number of at least 0"));
  add("--stop", generation.stops, "The answer ends before this text; may be given several times",
      "TEXT")
      ->allow_extra_args(false);
}

void AddQuiet(CLI::App& command, ReportOptions& report) {
  command
      .add_flag_callback(
          "--no-progress", [&report] { report.progress = false; }, "No progress bar")
      ->group("Reporting");
  command.add_flag("-v,--verbose", report.verbose, "Log what is done")->group("Reporting");
  command.add_flag("--quiet", report.quiet, "Nothing on stderr but warnings and errors")
      ->group("Reporting");
}

void AddReport(CLI::App& command, ReportOptions& report) {
  command.add_flag("--stats", report.statistics, "Print all statistics on stderr")
      ->group("Reporting");
  command.add_option("--stats-json", report.statistics_file, "Write the statistics to a file")
      ->type_name("FILE")
      ->group("Reporting");
  command
      .add_flag("--profile", report.profile,
                "Print what the time of a token went to; statistics have it too (default: off)")
      ->group("Reporting");
  command
      .add_option("--trace", report.trace_file,
                  "Write a line of JSON for every visit of weights to a file (default: none)")
      ->type_name("FILE")
      ->group("Reporting");
  AddQuiet(command, report);
}

void AddModel(CLI::App& command, std::string& path) {
  command.add_option("MODEL", path, "A GGUF file (the first part of a split one)")
      ->required()
      ->type_name("");
}

void AddRun(CLI::App& app, RunOptions& options) {
  CLI::App* command = AddCommand(
      app, "run", "Answers one prompt",
      "A model with a chat template gets it unless --raw is given. The text comes from -p, -f,\n"
      "--messages or standard input; one newline at the end of a file or of standard input is\n"
      "no part of it. The answer goes to stdout as it comes, with a newline at its end; one line\n"
      "of statistics goes to stderr.",
      "thaw run model.gguf -p \"What is the capital of Japan?\"");
  AddModel(*command, options.model.path);
  AddText(*command, options.prompt);
  CLI::Option* messages =
      command
          ->add_option("--messages", options.messages_file,
                       "A JSON list of {\"role\", \"content\"}: a conversation to continue")
          ->type_name("FILE")
          ->excludes("-p")
          ->excludes("-f");
  CLI::Option* system =
      command->add_option("--system", options.system, "A system message in front");
  command
      ->add_flag("--raw", options.raw,
                 "Continue the text as it is, without a chat template; special tokens in it count")
      ->excludes(messages)
      ->excludes(system);
  AddGeneration(*command, options.generation, options.seed);
  AddEngine(*command, options.model.engine, kUsualContext, "f16");
  AddReading(*command, options.model.engine);
  AddReport(*command, options.report);
}

void AddChat(CLI::App& app, ChatOptions& options) {
  CLI::App* command = AddCommand(
      app, "chat", "A conversation in the terminal",
      "Each line is a message; /help lists the commands between them. Ctrl+C stops an answer,\n"
      "Ctrl+D ends. Answers go to stdout, everything else to stderr.",
      "thaw chat model.gguf --system \"You answer in one sentence.\"");
  AddModel(*command, options.model.path);
  command->add_option("--system", options.system, "A system message in front");
  AddGeneration(*command, options.generation, options.seed);
  AddEngine(*command, options.model.engine, kUsualContext, "f16");
  AddReading(*command, options.model.engine);
  AddReport(*command, options.report);
}

void AddInspect(CLI::App& app, InspectOptions& options) {
  CLI::App* command = AddCommand(
      app, "inspect", "Prints what a file holds: metadata and tensors",
      "Long arrays show their count and first elements, 64 of them with --json. With --tensor,\n"
      "prints what the values of one tensor are like, as float32.",
      "thaw inspect model.gguf --tensor token_embd.weight --npy embedding.npy");
  AddModel(*command, options.path);
  command->add_flag("--json", options.json, "Print JSON");
  CLI::Option* tensor =
      command->add_option("--tensor", options.tensor, "Only this tensor")->type_name("NAME");
  command
      ->add_option("--npy", options.npy_file,
                   "Write the tensor to a NumPy file, dequantized to float32, rows before columns")
      ->type_name("FILE")
      ->needs(tensor);
}

void AddTokenize(CLI::App& app, TokenizeOptions& options) {
  CLI::App* command = AddCommand(
      app, "tokenize", "Prints the token ids of a text",
      "The ids stand on one line, separated by spaces. The text comes from -p, -f or standard\n"
      "input and is taken as it is, newlines included. --texts prints a JSON list of lists.",
      "thaw tokenize model.gguf -p \"Hello world\" --json");
  AddModel(*command, options.path);
  AddText(*command, options.text);
  command->add_option("--texts", options.texts_file, "A JSON list of texts")
      ->type_name("FILE")
      ->excludes("-p")
      ->excludes("-f");
  command->add_flag("--json", options.json, "Print a JSON list");
  command->add_flag_callback(
      "--no-bos", [&options] { options.add_bos = false; },
      "Without the BOS and EOS tokens that the file's rule puts around a text");
  command->add_flag_callback(
      "--no-special", [&options] { options.parse_special = false; },
      "Control tokens written in the text are plain text");
}

void AddTemplate(CLI::App& app, TemplateOptions& options) {
  CLI::App* command = AddCommand(
      app, "template", "Renders a chat template",
      "Prints the text and adds nothing. The members of the context, a JSON object, are the\n"
      "variables of the template.",
      "thaw template model.gguf --context context.json");
  command->add_option("MODEL|FILE.jinja", options.path, "A GGUF file, or a template as a text file")
      ->required()
      ->type_name("");
  command->add_option("--context", options.context_file, "The context")
      ->type_name("FILE")
      ->required();
  command
      ->add_option_function<std::string>(
          "--now", [&options](const std::string& date) { options.today = ParseDate(date); },
          "What the template takes for today (default: the clock's date and time)")
      ->check(Accepts(ParseDate, "a date of the form YYYY-MM-DD"))
      ->type_name("YYYY-MM-DD");
}

void AddLogits(CLI::App& app, LogitsOptions& options) {
  CLI::App* command = AddCommand(
      app, "logits", "Writes the logits after every token of a list",
      "The file is a NumPy array, float32 [n_tokens, n_vocab]. The tokens are taken as they are:\n"
      "no BOS is added.",
      "thaw logits model.gguf --tokens tokens.json --out logits.npy");
  AddModel(*command, options.model.path);
  command->add_option("--tokens", options.tokens_file, "A JSON list of token ids")
      ->type_name("FILE")
      ->required();
  command->add_option("--out", options.out_file, "The file to write")
      ->type_name("FILE")
      ->required();
  options.model.engine.kv_type = KvType::kF32;
  AddEngine(*command, options.model.engine, "Context length (default: the number of tokens)",
            "f32");
  AddReading(*command, options.model.engine);
  AddReport(*command, options.report);
}

void AddPerplexity(CLI::App& app, PerplexityOptions& options) {
  CLI::App* command = AddCommand(
      app, "perplexity", "Tells how likely a model finds a text",
      "A text longer than the context is cut into windows of that length, each seen alone; the\n"
      "first token of a window is not scored. Control tokens in the text are plain text.",
      "thaw perplexity model.gguf -f text.txt");
  AddModel(*command, options.model.path);
  command->add_option("-f,--file", options.text_file, "A file with the text")
      ->type_name("FILE")
      ->required();
  command->add_flag("--json", options.json, "Print JSON");
  AddEngine(*command, options.model.engine, kUsualContext, "f16");
  AddReading(*command, options.model.engine);
  AddReport(*command, options.report);
}

void AddPlan(CLI::App& app, PlanOptions& options) {
  CLI::App* command = AddCommand(
      app, "plan", "Tells what a budget would give",
      "Prints where the bytes of the budget go, which part of the weights stays in memory, and "
      "how\n"
      "much is read for each token: what the other commands would do with the same options. "
      "Predicts\n"
      "the speed of that budget and of others from rates measured on this machine once.",
      "thaw plan model.gguf --budget 450MiB");
  AddModel(*command, options.model.path);
  command->add_flag("--json", options.json, "Print JSON");
  command->add_flag("--remeasure", options.remeasure, "Measure the machine's rates again");
  AddEngine(*command, options.model.engine, kUsualContext, "f16");
}

void AddTokenCounts(CLI::App& command, const std::string& name, std::vector<int64_t>& counts,
                    const std::string& help) {
  command
      .add_option_function<std::string>(
          name, [&counts](const std::string& text) { counts = *ParseTokenCounts(text); }, help)
      ->check(Accepts(ParseTokenCounts, "a list of numbers of tokens such as 128,512"))
      ->type_name("N,N");
}

std::string ShapeNames() {
  std::string names;
  for (const ModelShape& shape : KnownShapes()) {
    names += (names.empty() ? "" : ", ") + std::string(shape.name);
  }
  return names;
}

void AddBench(CLI::App& app, BenchOptions& options) {
  CLI::App* command = AddCommand(
      app, "bench", "Measures how fast a model runs",
      "Prints the speed of reading prompts and of decoding, and beside it what the machine's\n"
      "memory, its disk and its int8 arithmetic gave in the same seconds. Output is checked "
      "before\n"
      "its time counts. With --shape, a model of a published shape is generated, with random\n"
      "weights of any type: " +
          ShapeNames() + ".",
      "thaw bench model.gguf --budget 450MiB --prefill 512 --decode 64,256");
  CLI::Option_group* source = command->add_option_group("Source");
  source->add_option("MODEL", options.model.path, "A GGUF file (the first part of a split one)")
      ->type_name("");
  CLI::Option* shape = source->add_option("--shape", options.shape, "Generate a model")
                           ->check(Passes(FindShape))
                           ->type_name("NAME");
  source->require_option(1);
  options.type = "Q4_0";
  command->add_option("--type", options.type, "Of the generated weights")
      ->check(Passes(FindWeightType))
      ->needs(shape)
      ->capture_default_str()
      ->type_name("TYPE");
  command->add_option("--out", options.out_file, "Keep the generated model in this file")
      ->needs(shape)
      ->type_name("FILE");
  AddTokenCounts(*command, "--prefill", options.speed.prefill_tokens,
                 "Lengths of prompts; 0: none (default: 512)");
  AddTokenCounts(*command, "--decode", options.speed.decode_tokens,
                 "Tokens to decode; 0: none (default: 64)");
  command->add_option("--decode-after", options.speed.decode_after, "Tokens before those")
      ->check(Between(int64_t{1}, kMostTokens))
      ->capture_default_str()
      ->type_name("N");
  command->add_option("--runs", options.speed.runs, "Times that each is measured")
      ->check(Between(1, 1000))
      ->capture_default_str()
      ->type_name("N");
  command->add_flag("--cold", options.cold, "Take the file out of the page cache first");
  command->add_flag("--simulate", options.simulate,
                    "Also tell what every policy would find in memory");
  command->add_flag("--json", options.json, "Print JSON");
  AddEngine(*command, options.model.engine, "Context length (default: what the longest run needs)",
            "f16");
  AddReading(*command, options.model.engine);
  AddReport(*command, options.report);
}

// Which of the four says how many bits tensors get.
void AddFreezeGoal(CLI::App& command, FreezeGoal& goal) {
  using Kind = FreezeGoal::Kind;
  CLI::Option_group* goals = command.add_option_group("Goal");
  goals
      ->add_option_function<std::string>(
          "--like",
          [&goal](const std::string& name) {
            goal.kind = Kind::kLikeType;
            goal.type = *FindErrorType(name);
          },
          "Each tensor with the relative error that quantizing it to this type has, values and the "
          "output matrix with a quarter of it; Q6_K is the finest (default: Q4_K)")
      ->check(Passes(FindErrorType))
      ->type_name("TYPE");
  goals
      ->add_option_function<std::string>(
          "--bits",
          [&goal](const std::string& text) {
            goal.kind = Kind::kBits;
            goal.bits = *ParseBits(text);
          },
          "Each tensor with so many bits a weight, all counted, 2 to 6.5, where 8-bit integers end")
      ->check(
          Accepts(ParseBits,
                  "a number of bits from 2 to 6.5 (frozen integers end at about 6.4; --lossless "
                  "keeps BF16 exactly)"))
      ->type_name("B");
  goals
      ->add_option_function<std::string>(
          "--fit",
          [&goal](const std::string& text) {
            goal.kind = Kind::kFileSize;
            goal.file_bytes = ParseBudget(text)->bytes;
          },
          "The least error that a file of this size allows: bytes, 600MiB, 14GiB")
      ->check(Passes(ParseFileSize))
      ->type_name("SIZE");
  goals->add_flag_callback(
      "--lossless", [&goal] { goal.kind = Kind::kLossless; },
      "BF16 tensors, and F32 ones that hold no more, exactly; others stay as they are");
  goals->require_option(0, 1);
}

void AddFreeze(CLI::App& app, FreezeCommandOptions& options) {
  CLI::App* command = AddCommand(
      app, "freeze", "Writes a model with its matrices entropy-coded",
      "The matrices that a pass multiplies become entropy-coded tiles, smaller than quantized\n"
      "tensors of the same error; all others are copied as they are. Prints the bits and the\n"
      "relative error of each, against the weights of the input: a quantized one is quantized\n"
      "again. A run that was stopped goes on when it is started again; OUT.gguf.freezing holds\n"
      "its finished tensors until then.",
      "thaw freeze model-bf16.gguf model-frozen.gguf --fit 14GiB");
  FreezeOptions& freeze = options.freeze;
  command->add_option("IN.gguf", freeze.input, "A GGUF file (the first part of a split one)")
      ->required()
      ->type_name("");
  command->add_option("OUT.gguf", freeze.output, "The file to write")->required()->type_name("");
  AddFreezeGoal(*command, freeze.goal);
  command
      ->add_option("--keep", freeze.kept,
                   "Tensors that stay as they are, by name, * for any characters; may be given "
                   "several times (default: none)")
      ->allow_extra_args(false)
      ->type_name("PATTERN");
  command
      ->add_option("--imatrix", freeze.importance,
                   "An importance matrix (GGUF): columns weigh as much as it says (default: none)")
      ->type_name("FILE");
  command->add_flag("--verify", freeze.verify,
                    "Read the output again, decode all of it and compare it with the input");
  command->add_flag("--json", options.json, "Print JSON");
  command
      ->add_option_function<std::string>(
          "--budget", [&freeze](const std::string& text) { freeze.budget = *ParseBudget(text); },
          "Memory of the whole process at most: 600MiB, 50% of what the machine leaves, floor "
          "(default: what the machine leaves, less a margin)")
      ->check(Passes(ParseBudget))
      ->type_name("SIZE");
  command->add_option("-t,--threads", freeze.threads, "Threads (default: all that may be used)")
      ->check(Between(1, 1024))
      ->type_name("N");
  AddQuiet(*command, options.report);
}

void AddDoctor(CLI::App& app, DoctorOptions& options) {
  CLI::App* command =
      AddCommand(app, "doctor", "Tells what this machine can do, and what a model takes",
                 "Prints CPU features, the kernels that are chosen and why, threads, memory and "
                 "limits, huge\n"
                 "pages, the way of reading, and the rates of memory, int8 arithmetic and, with a "
                 "model, its\n"
                 "disk; for a model, whether it is supported, its weights by type, the size of its "
                 "KV cache\n"
                 "and whether it is read past the page cache. Computes for half a second and warns "
                 "of what\n"
                 "makes runs slow, each with the number that shows it.",
                 "thaw doctor model.gguf");
  command->add_option("MODEL", options.path, "A GGUF file")->type_name("");
  command
      ->add_option("-t,--threads", options.threads,
                   "Threads of the runs that it is about (default: all that may be used)")
      ->check(Between(1, 1024))
      ->type_name("N");
  command->add_flag("--remeasure", options.remeasure,
                    "Measure memory and disk again (default: once for each machine)");
  command->add_flag("--json", options.json, "Print JSON");
}

CommandOptions Chosen(const CLI::App& app, const AllOptions& all) {
  const std::string name = app.get_subcommands().front()->get_name();
  if (name == "run") return all.run;
  if (name == "chat") return all.chat;
  if (name == "inspect") return all.inspect;
  if (name == "tokenize") return all.tokenize;
  if (name == "template") return all.chat_template;
  if (name == "logits") return all.logits;
  if (name == "perplexity") return all.perplexity;
  if (name == "plan") return all.plan;
  if (name == "bench") return all.bench;
  if (name == "freeze") return all.freeze;
  return all.doctor;
}

EarlyExit WrongUsage(const CLI::App& app, std::string_view complaint) {
  const auto named = app.get_subcommands();
  const std::string command = named.empty() ? "thaw" : "thaw " + named.front()->get_name();
  return {.status = kWrongUsage,
          .errors = fmt::format("thaw: {} (`{} --help` tells more)\n", complaint, command)};
}

// What the sampling options get wrong beside each other's types; ids of tokens are looked at when
// the vocabulary is known.
Result<void> CheckSampling(const AllOptions& all) {
  for (const GenerationOptions* generation : {&all.run.generation, &all.chat.generation}) {
    SamplingOptions sampling = generation->sampling;
    sampling.logit_bias.clear();
    THAW_TRY(Validate(sampling, std::numeric_limits<int32_t>::max()));
  }
  return {};
}

}  // namespace

std::variant<CommandOptions, EarlyExit> ParseCommandLine(
    const std::vector<std::string>& arguments) {
  CLI::App app("Runs GGUF language models.", "thaw");
  app.set_version_flag("--version", std::string(kVersionLine));
  app.require_subcommand(1);
  app.footer(
      "Results go to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 "
      "wrong usage,\n130 interrupted.\n\nExample:\n  thaw run model.gguf -p \"What is the "
      "capital of Japan?\"");
  AllOptions all;
  AddRun(app, all.run);
  AddChat(app, all.chat);
  AddInspect(app, all.inspect);
  AddTokenize(app, all.tokenize);
  AddTemplate(app, all.chat_template);
  AddLogits(app, all.logits);
  AddPerplexity(app, all.perplexity);
  AddPlan(app, all.plan);
  AddBench(app, all.bench);
  AddFreeze(app, all.freeze);
  AddDoctor(app, all.doctor);
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::Success& request) {
    std::ostringstream output;
    std::ostringstream errors;
    app.exit(request, output, errors);
    return EarlyExit{.output = output.str(), .errors = errors.str()};
  } catch (const CLI::Error& error) {
    return WrongUsage(app, error.what());
  }
  if (const auto sampling = CheckSampling(all); !sampling) {
    return WrongUsage(app, sampling.error().message);
  }
  return Chosen(app, all);
}

}  // namespace thaw::cli
