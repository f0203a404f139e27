#include "engine/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace thaw {

StopMatcher::StopMatcher(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase_if(stops_, [](const std::string& stop) { return stop.empty(); });
}

std::string StopMatcher::Push(std::string_view text) {
  if (stopped_) return "";
  held_.append(text);
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) first = std::min(first, held_.find(stop));
  if (first != std::string::npos) {
    stopped_ = true;
    held_.resize(first);
    return std::exchange(held_, "");
  }
  const size_t pending = PendingBytes();
  std::string shown = held_.substr(0, held_.size() - pending);
  held_.erase(0, shown.size());
  return shown;
}

std::string StopMatcher::Finish() { return std::exchange(held_, ""); }

size_t StopMatcher::PendingBytes() const {
  size_t pending = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > pending; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) pending = n;
    }
  }
  return pending;
}

}  // namespace thaw
