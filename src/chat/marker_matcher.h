// Finds markers in text that comes a byte at a time, and holds back what may still become one.
//
// Where several markers fit, the longest is taken; a marker is known as soon as no longer one can
// follow. Not thread safe. Time for a byte is bounded by the number and length of the markers,
// which are a dozen of some dozens of bytes; at most a marker less one byte is held.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/function_ref.h"

namespace thaw {

enum class MarkerKind : uint8_t {
  kReasoningOpen,
  kReasoningClose,
  kDropped,
  kSection,
  kCallOpen,
  kCallClose,
  kHeader,      // begins the header of a message (harmony)
  kMessageEnd,  // ends a message (harmony)
};

struct Marker {
  std::string_view text;
  MarkerKind kind;
};

class MarkerMatcher {
 public:
  // What is known after a byte: nothing yet, text, or a marker. `rest` follows it and has to be
  // given to the matcher again.
  struct Found {
    const Marker* marker = nullptr;
    std::string text = {};
    std::string rest = {};
  };

  // `markers` must outlive the matcher's use of them; `allowed` says which count at this place.
  Found Step(char c, const std::vector<Marker>& markers, FunctionRef<bool(const Marker&)> allowed);
  // The end of the text; call it until empty().
  Found Finish() { return Resolve(); }

  bool empty() const { return held_.empty(); }

 private:
  Found Resolve();

  std::string held_;
  const Marker* longest_ = nullptr;  // whose text held_ begins with
};

}  // namespace thaw
