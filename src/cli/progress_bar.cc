#include "cli/progress_bar.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/standard_output.h"

namespace thaw::cli {
namespace {

constexpr auto kRedrawInterval = std::chrono::milliseconds(100);
constexpr uint64_t kBarColumns = 30;
constexpr uint64_t kBarColumnsBesideDetail = 10;

}  // namespace

std::string FormatTokens(uint64_t count) { return fmt::format("{} tokens", count); }

std::string FormatProgress(std::string_view label, uint64_t done, uint64_t total,
                           std::string (*format)(uint64_t), std::string_view detail) {
  const double share =
      total == 0 ? 1 : std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  const uint64_t columns = detail.empty() ? kBarColumns : kBarColumnsBesideDetail;
  const auto filled = static_cast<size_t>(share * static_cast<double>(columns));
  return fmt::format("{} [{:.<{}}] {:.0f} %, {} of {}{}{}", label, std::string(filled, '#'),
                     columns, 100 * share, format(done), format(total), detail.empty() ? "" : ", ",
                     detail);
}

ProgressBar::ProgressBar(std::string_view label, std::string (*format)(uint64_t), bool visible)
    : label_(label), format_(format), visible_(visible) {}

ProgressBar::~ProgressBar() {
  if (drawn_) WriteError("\r\x1b[K");
}

void ProgressBar::Show(uint64_t done, uint64_t total, std::string_view detail) {
  if (!visible_) return;
  const auto now = std::chrono::steady_clock::now();
  if (drawn_ && now - last_drawn_ < kRedrawInterval) return;
  WriteError(fmt::format("\r{}\x1b[K", FormatProgress(label_, done, total, format_, detail)));
  drawn_ = true;
  last_drawn_ = now;
}

}  // namespace thaw::cli
