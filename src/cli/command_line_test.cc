#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

namespace thaw::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

const char* const kCommands[] = {"run",        "chat", "inspect", "tokenize", "template", "logits",
                                 "perplexity", "plan", "bench",   "freeze",   "doctor"};

template <typename Options>
Options Parse(const std::vector<std::string>& arguments) {
  const auto parsed = ParseCommandLine(arguments);
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    ADD_FAILURE() << early->errors;
    return {};
  }
  return std::get<Options>(std::get<CommandOptions>(parsed));
}

EarlyExit ParseToExit(const std::vector<std::string>& arguments) {
  const auto parsed = ParseCommandLine(arguments);
  const auto* early = std::get_if<EarlyExit>(&parsed);
  if (early == nullptr) {
    ADD_FAILURE() << "a command was understood";
    return {};
  }
  return *early;
}

TEST(CommandLine, TakesAPromptThatBeginsWithADash) {
  const auto options = Parse<RunOptions>({"run", "m.gguf", "-p", "- a list"});
  EXPECT_EQ(options.model.path, "m.gguf");
  EXPECT_EQ(options.prompt.text, "- a list");
}

TEST(CommandLine, TellsAnEmptyPromptFromNone) {
  EXPECT_EQ(Parse<RunOptions>({"run", "m.gguf", "-p", ""}).prompt.text, "");
  EXPECT_EQ(Parse<RunOptions>({"run", "m.gguf"}).prompt.text, std::nullopt);
}

TEST(CommandLine, CollectsStopsAsTheyAreWithoutSwallowingTheModel) {
  const auto options =
      Parse<RunOptions>({"run", "--stop", "[a,b]", "--stop", "\\n", "m.gguf", "--stop", ""});
  EXPECT_EQ(options.model.path, "m.gguf");
  EXPECT_THAT(options.generation.stops, ElementsAre("[a,b]", "\\n", ""));
}

TEST(CommandLine, ReadsEverySamplingOption) {
  const auto options = Parse<RunOptions>({"run",
                                          "m.gguf",
                                          "-n",
                                          "7",
                                          "--temp",
                                          "0.5",
                                          "--top-k",
                                          "3",
                                          "--top-p",
                                          "0.25",
                                          "--min-p",
                                          "0.125",
                                          "--repeat-penalty",
                                          "1.5",
                                          "--presence-penalty",
                                          "0.75",
                                          "--frequency-penalty",
                                          "-0.5",
                                          "--seed",
                                          "18446744073709551615",
                                          "--logit-bias",
                                          "5=-2.5",
                                          "--logit-bias",
                                          "6=-inf"});
  const SamplingOptions& sampling = options.generation.sampling;
  EXPECT_EQ(options.generation.max_tokens, 7);
  EXPECT_EQ(sampling.temperature, 0.5F);
  EXPECT_EQ(sampling.top_k, 3);
  EXPECT_EQ(sampling.top_p, 0.25F);
  EXPECT_EQ(sampling.min_p, 0.125F);
  EXPECT_EQ(sampling.repeat_penalty, 1.5F);
  EXPECT_EQ(sampling.presence_penalty, 0.75F);
  EXPECT_EQ(sampling.frequency_penalty, -0.5F);
  EXPECT_EQ(options.seed, UINT64_MAX);
  EXPECT_THAT(
      sampling.logit_bias,
      ElementsAre(std::pair(5, -2.5F), std::pair(6, -std::numeric_limits<float>::infinity())));
}

TEST(CommandLine, ReadsTheOptionsOfTheModel) {
  const auto options = Parse<ChatOptions>({"chat", "m.gguf", "-c", "512", "-t", "3", "--kernels",
                                           "portable", "--kv-type", "f32", "--prefill-chunk", "9"});
  const EngineOptions& engine = options.model.engine;
  EXPECT_EQ(engine.context, 512);
  EXPECT_EQ(engine.threads, 3);
  EXPECT_EQ(engine.kernels, "portable");
  EXPECT_EQ(engine.kv_type, KvType::kF32);
  EXPECT_EQ(engine.prefill_chunk, 9);
}

TEST(CommandLine, ReadsHowWeightsAreHeld) {
  const auto options =
      Parse<RunOptions>({"run", "--pin", "blk.0.*", "m.gguf", "--budget", "floor+20MiB", "--policy",
                         "lfu", "--pin", "[a,b]", "--frequency-window", "8", "--prefetch-ahead",
                         "0", "--sync-prefetch", "--io-threads", "3", "--preload", "--verify"});
  EXPECT_EQ(options.model.path, "m.gguf");
  const EngineOptions& engine = options.model.engine;
  EXPECT_EQ(engine.budget.base, BudgetRequest::Base::kFloor);
  EXPECT_EQ(engine.budget.bytes, uint64_t{20} << 20);
  EXPECT_EQ(engine.policy, "lfu");
  EXPECT_THAT(engine.pinned, ElementsAre("blk.0.*", "[a,b]"));
  EXPECT_EQ(engine.frequency_window, 8);
  EXPECT_EQ(engine.prefetch_ahead, 0);
  EXPECT_TRUE(engine.synchronous_prefetch);
  EXPECT_EQ(engine.io_threads, 3);
  EXPECT_TRUE(engine.preload);
  EXPECT_TRUE(engine.verify);
}

TEST(CommandLine, LeavesHowWeightsAreHeldToTheEngine) {
  const EngineOptions engine = Parse<RunOptions>({"run", "m.gguf"}).model.engine;
  const EngineOptions defaults;
  EXPECT_EQ(engine.budget.base, BudgetRequest::Base::kDefault);
  EXPECT_EQ(engine.policy, defaults.policy);
  EXPECT_THAT(engine.pinned, IsEmpty());
  EXPECT_EQ(engine.frequency_window, defaults.frequency_window);
  EXPECT_EQ(engine.prefetch_ahead, defaults.prefetch_ahead);
  EXPECT_EQ(engine.io_threads, defaults.io_threads);
  EXPECT_FALSE(engine.synchronous_prefetch || engine.preload || engine.verify);
}

TEST(CommandLine, ReadsWhatABenchmarkMeasures) {
  const auto given = Parse<BenchOptions>({"bench", "--prefill", "16,0,512", "--decode", "0",
                                          "m.gguf", "--runs", "7", "--cold", "--simulate", "--json",
                                          "--budget", "floor", "--decode-after", "8192"});
  EXPECT_EQ(given.model.path, "m.gguf");
  EXPECT_EQ(given.speed.decode_after, 8192);
  EXPECT_THAT(given.speed.prefill_tokens, ElementsAre(16, 512));
  EXPECT_THAT(given.speed.decode_tokens, IsEmpty());
  EXPECT_EQ(given.speed.runs, 7);
  EXPECT_TRUE(given.cold && given.simulate && given.json);
  EXPECT_EQ(given.model.engine.budget.base, BudgetRequest::Base::kFloor);
  const auto usual = Parse<BenchOptions>({"bench", "--shape", "tinyllama-1.1b", "--type", "Q8_0"});
  EXPECT_EQ(usual.shape, "tinyllama-1.1b");
  EXPECT_EQ(usual.type, "Q8_0");
  EXPECT_THAT(usual.speed.prefill_tokens, ElementsAre(512));
  EXPECT_THAT(usual.speed.decode_tokens, ElementsAre(64));
  EXPECT_EQ(usual.speed.decode_after, 1);
  EXPECT_EQ(usual.speed.runs, 5);
  EXPECT_FALSE(usual.cold || usual.simulate || usual.json);
}

TEST(CommandLine, ReadsHowAModelIsFrozen) {
  using Kind = FreezeGoal::Kind;
  const auto goal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"freeze", "in", "out"});
    return Parse<FreezeCommandOptions>(arguments).freeze.goal;
  };
  EXPECT_EQ(goal({}).kind, Kind::kLikeType);
  EXPECT_EQ(goal({}).type, ElementType::kQ4_K);
  EXPECT_EQ(goal({"--like", "Q3_K"}).type, ElementType::kQ3_K);
  EXPECT_EQ(goal({"--bits", "3.5"}).kind, Kind::kBits);
  EXPECT_EQ(goal({"--bits", "3.5"}).bits, 3.5);
  EXPECT_EQ(goal({"--fit", "2GiB"}).kind, Kind::kFileSize);
  EXPECT_EQ(goal({"--fit", "2GiB"}).file_bytes, uint64_t{2} << 30);
  EXPECT_EQ(goal({"--lossless"}).kind, Kind::kLossless);
  const auto given = Parse<FreezeCommandOptions>({"freeze", "in", "--keep", "a*", "out", "--keep",
                                                  "b", "--imatrix", "i", "--verify", "--json",
                                                  "--budget", "floor", "-t", "3"});
  EXPECT_EQ(given.freeze.input, "in");
  EXPECT_EQ(given.freeze.output, "out");
  EXPECT_THAT(given.freeze.kept, ElementsAre("a*", "b"));
  EXPECT_EQ(given.freeze.importance, "i");
  EXPECT_TRUE(given.freeze.verify && given.json);
  EXPECT_EQ(given.freeze.budget.base, BudgetRequest::Base::kFloor);
  EXPECT_EQ(given.freeze.threads, 3);
}

TEST(CommandLine, FreezesToOneGoalWithinItsBounds) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--bits", "1.9"},
                                             {"--bits", "6.6"},
                                             {"--bits", "nan"},
                                             {"--like", "Q4_X"},
                                             {"--fit", "50%"},
                                             {"--fit", "floor"},
                                             {"--fit", "0"},
                                             {"--lossless", "--bits", "3"},
                                             {"--like", "Q4_K", "--fit", "1GiB"}}) {
    std::vector<std::string> arguments = {"freeze", "in", "out"};
    arguments.insert(arguments.end(), wrong.begin(), wrong.end());
    EXPECT_EQ(ParseToExit(arguments).status, 2) << wrong.front() << " " << wrong.back();
  }
  EXPECT_EQ(ParseToExit({"freeze", "in"}).status, 2);
}

TEST(CommandLine, EveryCommandThatRunsAModelTakesABudget) {
  EXPECT_EQ(Parse<RunOptions>({"run", "m", "--budget", "7"}).model.engine.budget.bytes, 7U);
  EXPECT_EQ(Parse<ChatOptions>({"chat", "m", "--budget", "7"}).model.engine.budget.bytes, 7U);
  EXPECT_EQ(Parse<LogitsOptions>({"logits", "m", "--tokens", "t", "--out", "o", "--budget", "7"})
                .model.engine.budget.bytes,
            7U);
  EXPECT_EQ(Parse<PerplexityOptions>({"perplexity", "m", "-f", "t", "--budget", "7"})
                .model.engine.budget.bytes,
            7U);
}

TEST(CommandLine, PlansWithTheOptionsThatAPlanDependsOn) {
  const auto options =
      Parse<PlanOptions>({"plan", "m.gguf", "--json", "-c", "512", "-t", "2", "--kv-type", "f32",
                          "--budget", "floor+50%", "--policy", "lru", "--pin", "output.*"});
  EXPECT_TRUE(options.json);
  const EngineOptions& engine = options.model.engine;
  EXPECT_EQ(engine.context, 512);
  EXPECT_EQ(engine.threads, 2);
  EXPECT_EQ(engine.kv_type, KvType::kF32);
  EXPECT_EQ(engine.budget.fraction, 0.5);
  EXPECT_EQ(engine.policy, "lru");
  EXPECT_THAT(engine.pinned, ElementsAre("output.*"));
}

TEST(CommandLine, EveryCommandThatRunsAModelReports) {
  const auto with = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--stats-json", "s", "--profile", "--trace", "t"});
    return arguments;
  };
  const ReportOptions reports[] = {
      Parse<RunOptions>(with({"run", "m"})).report,
      Parse<ChatOptions>(with({"chat", "m"})).report,
      Parse<LogitsOptions>(with({"logits", "m", "--tokens", "t", "--out", "o"})).report,
      Parse<PerplexityOptions>(with({"perplexity", "m", "-f", "t"})).report,
  };
  for (const ReportOptions& report : reports) {
    EXPECT_EQ(report.statistics_file, "s");
    EXPECT_TRUE(report.profile);
    EXPECT_EQ(report.trace_file, "t");
  }
}

TEST(CommandLine, KeepsTheKvCacheOfLogitsInF32UnlessToldOtherwise) {
  const std::vector<std::string> logits = {"logits", "m.gguf", "--tokens", "t", "--out", "o"};
  EXPECT_EQ(Parse<LogitsOptions>(logits).model.engine.kv_type, KvType::kF32);
  auto with_f16 = logits;
  with_f16.insert(with_f16.end(), {"--kv-type", "f16"});
  EXPECT_EQ(Parse<LogitsOptions>(with_f16).model.engine.kv_type, KvType::kF16);
  EXPECT_EQ(Parse<RunOptions>({"run", "m.gguf"}).model.engine.kv_type, KvType::kF16);
  const std::vector<std::string> with_blocks = {"run", "m.gguf", "--kv-type", "q8_0"};
  EXPECT_EQ(Parse<RunOptions>(with_blocks).model.engine.kv_type, KvType::kQ8_0);
}

TEST(CommandLine, ReadsReporting) {
  const auto options =
      Parse<RunOptions>({"run", "m.gguf", "--stats", "--stats-json", "s.json", "--no-progress",
                         "-v", "--quiet", "--profile", "--trace", "t.jsonl"});
  EXPECT_TRUE(options.report.statistics);
  EXPECT_EQ(options.report.statistics_file, "s.json");
  EXPECT_FALSE(options.report.progress);
  EXPECT_TRUE(options.report.verbose);
  EXPECT_TRUE(options.report.quiet);
  EXPECT_TRUE(options.report.profile);
  EXPECT_EQ(options.report.trace_file, "t.jsonl");
  const auto plain = Parse<RunOptions>({"run", "m.gguf"});
  EXPECT_TRUE(plain.report.progress);
  EXPECT_FALSE(plain.report.profile);
}

TEST(CommandLine, ReadsDates) {
  using std::chrono_literals::operator""y;
  using std::chrono_literals::operator""d;
  const auto options =
      Parse<TemplateOptions>({"template", "t.jinja", "--context", "c", "--now", "2026-11-21"});
  EXPECT_EQ(options.today, 2026y / std::chrono::November / 21d);
}

TEST(CommandLine, TakesTheRulesOfTokenizeAway) {
  const auto plain = Parse<TokenizeOptions>({"tokenize", "m.gguf"});
  EXPECT_TRUE(plain.add_bos && plain.parse_special);
  const auto bare = Parse<TokenizeOptions>({"tokenize", "m.gguf", "--no-bos", "--no-special"});
  EXPECT_FALSE(bare.add_bos || bare.parse_special);
}

TEST(CommandLine, EveryCommandHelpsWithOneExample) {
  for (const std::string command : kCommands) {
    const EarlyExit help = ParseToExit({command, "--help"});
    EXPECT_EQ(help.status, 0);
    EXPECT_EQ(help.errors, "");
    EXPECT_THAT(help.output, HasSubstr("Example:\n  thaw " + command)) << command;
  }
}

TEST(CommandLine, ListsEveryCommandInItsHelp) {
  const EarlyExit help = ParseToExit({"--help"});
  EXPECT_EQ(help.status, 0);
  for (const std::string command : kCommands) EXPECT_THAT(help.output, HasSubstr(command));
}

TEST(CommandLine, TellsItsVersion) {
  const EarlyExit version = ParseToExit({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.output, StartsWith("thaw "));
}

struct Misuse {
  std::vector<std::string> arguments;
  const char* complaint;  // a part of it
};

TEST(CommandLine, RefusesWhatMakesNoSense) {
  const Misuse misuses[] = {
      {{}, "subcommand is required"},
      {{"melt", "m.gguf"}, "subcommand is required"},
      {{"run"}, "MODEL is required"},
      {{"run", "m.gguf", "extra"}, "extra"},
      {{"run", "m.gguf", "--no-such-option"}, "--no-such-option"},
      {{"run", "m.gguf", "-p", "a", "-f", "b"}, "excludes"},
      {{"run", "m.gguf", "--messages", "a", "-f", "b"}, "excludes"},
      {{"run", "m.gguf", "--messages", "a", "--raw"}, "excludes"},
      {{"run", "m.gguf", "--system", "a", "--raw"}, "excludes"},
      {{"run", "m.gguf", "-t", "0"}, "--threads"},
      {{"run", "m.gguf", "-t", "many"}, "many"},
      {{"run", "m.gguf", "-c", "-1"}, "--context"},
      {{"run", "m.gguf", "-n"}, "--max-tokens"},
      {{"run", "m.gguf", "--kv-type", "q4_0"}, "q4_0 is not f32, f16, bf16 or q8_0"},
      {{"run", "m.gguf", "--budget", "lots"}, "--budget: 'lots' is no budget: expected bytes"},
      {{"run", "m.gguf", "--budget", ""}, "'' is no budget"},
      {{"run", "m.gguf", "--policy", "fifo"}, "there is no policy 'fifo', only planned, "},
      {{"run", "m.gguf", "--prefetch-ahead", "-1"}, "--prefetch-ahead"},
      {{"run", "m.gguf", "--io-threads", "0"}, "--io-threads"},
      {{"run", "m.gguf", "--io-threads", "65"}, "--io-threads"},
      {{"run", "m.gguf", "--frequency-window", "65"}, "--frequency-window"},
      {{"run", "m.gguf", "--frequency-window", "0"}, "--frequency-window"},
      {{"run", "m.gguf", "--seed", "-1"}, "--seed"},
      {{"run", "m.gguf", "--temp", "-1"}, "temperature must be at least 0"},
      {{"run", "m.gguf", "--temp", "nan"}, "temperature must be a finite number"},
      {{"run", "m.gguf", "--top-p", "1.5"}, "top-p must be between 0 and 1"},
      {{"run", "m.gguf", "--logit-bias", "5"}, "ID=VALUE"},
      {{"run", "m.gguf", "--logit-bias", "x=1"}, "ID=VALUE"},
      {{"inspect", "m.gguf", "--npy", "x.npy"}, "requires --tensor"},
      {{"bench"}, "Exactly 1 option from [MODEL,--shape] is required"},
      {{"bench", "m.gguf", "--shape", "tinyllama-1.1b"}, "[MODEL,--shape]"},
      {{"bench", "--shape", "giraffe"}, "there is no shape"},
      {{"bench", "m.gguf", "--type", "Q4_0"}, "requires --shape"},
      {{"bench", "m.gguf", "--out", "o.gguf"}, "requires --shape"},
      {{"bench", "--shape", "tinyllama-1.1b", "--type", "Q9_9"},
       "no weights of type \"Q9_9\"; known are: F32"},
      {{"bench", "--shape", "tinyllama-1.1b", "--type", "I32"}, "no weights of type"},
      {{"bench", "m.gguf", "--decode", "8,"}, "8, is not a list"},
      {{"bench", "m.gguf", "--prefill", "-8"}, "-8 is not a list"},
      {{"bench", "m.gguf", "--runs", "0"}, "--runs"},
      {{"logits", "m.gguf", "--out", "o"}, "--tokens is required"},
      {{"perplexity", "m.gguf"}, "--file is required"},
      {{"template", "t", "--context", "c", "--now", "2026-13-01"}, "YYYY-MM-DD"},
      {{"template", "t", "--context", "c", "--now", "2026-02-30"}, "YYYY-MM-DD"},
      {{"template", "t", "--context", "c", "--now", "yesterday"}, "YYYY-MM-DD"},
      {{"tokenize", "m.gguf", "--texts", "a", "-p", "b"}, "excludes"},
  };
  for (const Misuse& misuse : misuses) {
    const EarlyExit refused = ParseToExit(misuse.arguments);
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.output, "");
    EXPECT_THAT(refused.errors, StartsWith("thaw: "));
    EXPECT_THAT(refused.errors, HasSubstr(misuse.complaint));
    EXPECT_EQ(std::count(refused.errors.begin(), refused.errors.end(), '\n'), 1) << refused.errors;
  }
}

}  // namespace
}  // namespace thaw::cli
