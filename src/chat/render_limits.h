// What one rendering of a template may use before it ends with an error.
//
// Templates come out of model files, so they are hostile until shown otherwise. The defaults leave
// an order of magnitude above what the largest real templates need on long conversations, and bound
// the worst case to about a second and a quarter of a gibibyte.
#pragma once

#include <cstdint>

namespace thaw {

struct RenderLimits {
  // One unit is one evaluated expression or statement, one element visited, or kBytesPerWorkUnit
  // bytes scanned or copied. Real templates need about 200 units a message; 10 million units take
  // about a second.
  uint64_t work_units = 10'000'000;
  // Of one string, list or dict. A prompt of 32 MiB is five million tokens, beyond every context.
  uint64_t value_bytes = uint64_t{32} << 20;
  // Of all values made during the rendering, freed or not; eight copies of the largest value.
  uint64_t total_bytes = uint64_t{256} << 20;
  // Of the rendered text; a prompt is a value too.
  uint64_t output_bytes = uint64_t{32} << 20;
};

}  // namespace thaw
