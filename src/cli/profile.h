// What the time of an answer went to: reading, thawing, waiting, multiplying, attention, the rest.
//
// The differences of the engine's own counters, so everything that the engine did meanwhile is
// counted, other sessions' work too. Taking one costs about a microsecond a tile, twice an answer.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/json_text.h"
#include "engine/engine.h"
#include "engine/generation.h"

namespace thaw::cli {

// Seconds. matmul, attention and the rest add up to the total; reading and thawing go on beside
// them on threads of their own. Stalls and products of coded weights, summed over threads, are part
// of matmul.
struct WorkTimes {
  double total = 0;
  double matmul = 0;
  double attention = 0;
  double stall = 0;
  double read = 0;
  double thaw = 0;
  double coded_products = 0;

  double rest() const { return total - matmul - attention; }
};

struct Profile {
  WorkTimes prompts;
  int64_t prompt_tokens = 0;  // computed
  WorkTimes steps;
  int64_t step_count = 0;  // from one token to the next
};

// Adds what happens in an answer to a profile.
class ProfileRecorder {
 public:
  // The answer begins. Both must outlive this.
  ProfileRecorder(const Engine& engine, Profile& profile);

  void EndPrompt();
  // With what Session::Generate reported.
  void EndAnswer(const GenerationStatistics& generation);

 private:
  WorkTimes Now() const;
  // Adds what has passed since the last call.
  void AddTo(WorkTimes& sum);

  const Engine& engine_;
  Profile& profile_;
  const std::chrono::steady_clock::time_point start_;
  WorkTimes last_;
  bool prompt_is_done_ = false;
};

// A column for the prompts, and one for a step of a decode.
std::string ProfileTable(const Profile& profile);

// {"prompt": {"tokens", "total_s", ...}, "decode_step": {"count", "total_s", ...}}, the seconds of
// the latter being those of one step.
Json ProfileJson(const Profile& profile);

}  // namespace thaw::cli
