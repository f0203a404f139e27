// Any bytes as a template, rendered over a small context under tight limits: an error or a text,
// nothing else.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "chat/chat_template.h"

namespace {

const nlohmann::ordered_json& Context() {
  static const nlohmann::ordered_json context = nlohmann::ordered_json::parse(R"({
    "messages": [{"role": "user", "content": "Grüße, 日本 "}, {"role": "assistant", "content": "x"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"a": [1, 2.5, null]}}}],
    "bos_token": "<s>", "n": 7, "add_generation_prompt": true})");
  return context;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = thaw::ChatTemplate::Parse(source, "fuzz");
  if (!parsed) return 0;
  thaw::RenderOptions options;
  // Small enough that no input takes more than some milliseconds.
  options.limits = {.work_units = 20'000,
                    .value_bytes = 1 << 20,
                    .total_bytes = 8 << 20,
                    .output_bytes = 1 << 20};
  (void)parsed->Render(Context(), options);
  return 0;
}
