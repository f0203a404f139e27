// Finds stop strings in streamed text and holds back text that may still become one.
//
// Not thread safe. Costs: proportional to the text times the number of stop strings; at most the
// longest stop string less one byte is held back.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thaw {

class StopMatcher {
 public:
  // Empty stop strings are ignored.
  explicit StopMatcher(std::vector<std::string> stops);

  // The text that may be shown after `text` has come: nothing of the earliest stop string, nor of
  // what follows it. Once stopped() it returns nothing more.
  std::string Push(std::string_view text);

  // What was held back, at the end of the text.
  std::string Finish();

  bool stopped() const { return stopped_; }

 private:
  // How many bytes at the end of held_ begin some stop string.
  size_t PendingBytes() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace thaw
