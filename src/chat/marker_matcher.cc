#include "chat/marker_matcher.h"

namespace thaw {

MarkerMatcher::Found MarkerMatcher::Step(char c, const std::vector<Marker>& markers,
                                         FunctionRef<bool(const Marker&)> allowed) {
  held_ += c;
  bool may_grow = false;
  for (const Marker& marker : markers) {
    if (!marker.text.starts_with(held_) || !allowed(marker)) continue;
    if (marker.text.size() > held_.size()) {
      may_grow = true;
    } else {
      longest_ = &marker;
    }
  }
  return may_grow ? Found{} : Resolve();
}

// What held_ begins with: a marker, or a byte of text.
MarkerMatcher::Found MarkerMatcher::Resolve() {
  Found found{.marker = longest_};
  const size_t used = longest_ != nullptr ? longest_->text.size() : 1;
  if (longest_ == nullptr) found.text = held_.substr(0, used);
  found.rest = held_.substr(used);
  held_.clear();
  longest_ = nullptr;
  return found;
}

}  // namespace thaw
