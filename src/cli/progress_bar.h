// One line on a terminal that shows how far some work has come, drawn over itself.
//
// Owned by the thread that does the work. Costs: at most ten writes a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/function_ref.h"

namespace thaw::cli {

// "512 tokens": a count for bars of those.
std::string FormatTokens(uint64_t count);

class ProgressBar {
 public:
  // Draws nothing unless `visible`. `format` makes text of a count ("93.8 MiB", "512 tokens").
  ProgressBar(std::string_view label, std::string (*format)(uint64_t), bool visible);
  // Wipes the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  // `detail` follows the counts; a bar with one is shorter.
  void Show(uint64_t done, uint64_t total, std::string_view detail = {});

 private:
  const std::string label_;
  std::string (*const format_)(uint64_t);
  const bool visible_;
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_drawn_;
};

// "loading [=====>    ] 52 %, 48.9 of 93.8 MiB, 12.1 MiB/s", at most 79 columns for labels, counts
// and details of usual length. `done` may exceed `total`, and `total` may be 0.
std::string FormatProgress(std::string_view label, uint64_t done, uint64_t total,
                           std::string (*format)(uint64_t), std::string_view detail = {});

}  // namespace thaw::cli
