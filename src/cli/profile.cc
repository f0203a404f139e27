#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/stopwatch.h"

namespace thaw::cli {
namespace {

WorkTimes AStep(const Profile& profile) {
  const auto n = static_cast<double>(std::max<int64_t>(profile.step_count, 1));
  const WorkTimes& all = profile.steps;
  return {.total = all.total / n,
          .matmul = all.matmul / n,
          .attention = all.attention / n,
          .stall = all.stall / n,
          .read = all.read / n,
          .thaw = all.thaw / n,
          .coded_products = all.coded_products / n};
}

void AddSeconds(const WorkTimes& times, Json& json) {
  json["total_s"] = times.total;
  json["matmul_s"] = times.matmul;
  json["attention_s"] = times.attention;
  json["rest_s"] = times.rest();
  json["stall_s"] = times.stall;
  json["read_s"] = times.read;
  json["thaw_s"] = times.thaw;
  json["coded_product_s"] = times.coded_products;
}

}  // namespace

ProfileRecorder::ProfileRecorder(const Engine& engine, Profile& profile)
    : engine_(engine), profile_(profile), start_(std::chrono::steady_clock::now()), last_(Now()) {}

WorkTimes ProfileRecorder::Now() const {
  const CacheStatistics cache = engine_.cache_statistics();
  const PassTimes passes = engine_.pass_times();
  return {.total = SecondsSince(start_),
          .matmul = passes.matmul,
          .attention = passes.attention,
          .stall = cache.stall_seconds,
          .read = cache.read_seconds,
          .thaw = cache.thaw_seconds,
          .coded_products = passes.coded_products};
}

void ProfileRecorder::AddTo(WorkTimes& sum) {
  const WorkTimes now = Now();
  sum.total += now.total - last_.total;
  sum.matmul += now.matmul - last_.matmul;
  sum.attention += now.attention - last_.attention;
  sum.stall += now.stall - last_.stall;
  sum.read += now.read - last_.read;
  sum.thaw += now.thaw - last_.thaw;
  sum.coded_products += now.coded_products - last_.coded_products;
  last_ = now;
}

void ProfileRecorder::EndPrompt() {
  AddTo(profile_.prompts);
  prompt_is_done_ = true;
}

void ProfileRecorder::EndAnswer(const GenerationStatistics& generation) {
  // An answer that was cancelled early has nothing but a part of its prompt.
  AddTo(prompt_is_done_ ? profile_.steps : profile_.prompts);
  profile_.prompt_tokens += generation.prompt_tokens - generation.reused_tokens;
  profile_.step_count += static_cast<int64_t>(generation.step_seconds.size());
}

std::string ProfileTable(const Profile& profile) {
  const WorkTimes step = AStep(profile);
  const WorkTimes& prompt = profile.prompts;
  std::string table = fmt::format("{:<14}{:>14}{:>14}\n", "profile", "prompt", "a token");
  const auto row = [&table](std::string_view name, double of_prompt, double of_step) {
    table += fmt::format("{:<14}{:>11.2f} ms{:>11.2f} ms\n", name, 1e3 * of_prompt, 1e3 * of_step);
  };
  row("  matmul", prompt.matmul, step.matmul);
  row("  attention", prompt.attention, step.attention);
  row("  rest", prompt.rest(), step.rest());
  row("  in all", prompt.total, step.total);
  row("stalled", prompt.stall, step.stall);
  row("reading", prompt.read, step.read);
  row("thawing", prompt.thaw, step.thaw);
  row("coded products", prompt.coded_products, step.coded_products);
  return table;
}

Json ProfileJson(const Profile& profile) {
  Json prompt = {{"tokens", profile.prompt_tokens}};
  AddSeconds(profile.prompts, prompt);
  Json step = {{"count", profile.step_count}};
  AddSeconds(AStep(profile), step);
  return {{"prompt", std::move(prompt)}, {"decode_step", std::move(step)}};
}

}  // namespace thaw::cli
