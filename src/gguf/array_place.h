// Finds out where an array of a field ends without keeping its elements.
//
// Arrays of numbers are jumped over. Strings and inner arrays carry their own lengths, so these are
// visited one by one; the limits below keep the time that takes bounded for hostile files.
#pragma once

#include <cstdint>

#include "base/result.h"
#include "gguf/gguf_types.h"
#include "gguf/window_reader.h"

namespace thaw {

// Strings and inner arrays visited for one directory. Real vocabularies with their merges have up
// to 2 million; this many cost about a second.
inline constexpr uint64_t kMaxVisitedElements = 64 << 20;

// Arrays inside arrays inside arrays: the format allows any depth, no known file goes beyond 2.
inline constexpr int kMaxArrayDepth = 8;

// The types that a file may name, as an enumerator; kCorrupt for other numbers.
Result<GgufType> ReadGgufType(WindowReader& reader);

// Reads the element type and count at the reader's position and moves to the array's end.
// `visits_left` is what is left of kMaxVisitedElements.
Result<GgufArray> ReadArrayPlace(WindowReader& reader, uint64_t& visits_left, int depth = 1);

}  // namespace thaw
