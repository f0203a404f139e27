#include "model/family.h"

namespace thaw {
namespace {

using enum Presence;

constexpr Family kFamilies[] = {
    {.name = "llama",
     .rope_pairing = RopePairing::kAdjacent,
     .qkv_bias = kOptional,
     .attention_output_bias = kOptional,
     .qk_norm = kAbsent,
     .ffn_bias = kOptional,
     .output_bias = kAbsent},
    {.name = "qwen2",
     .rope_pairing = RopePairing::kHalves,
     .qkv_bias = kRequired,
     .attention_output_bias = kAbsent,
     .qk_norm = kAbsent,
     .ffn_bias = kAbsent,
     .output_bias = kOptional},
    {.name = "qwen3",
     .rope_pairing = RopePairing::kHalves,
     .qkv_bias = kOptional,
     .attention_output_bias = kAbsent,
     .qk_norm = kRequired,
     .ffn_bias = kAbsent,
     .output_bias = kAbsent},
};

}  // namespace

std::span<const Family> AllFamilies() { return kFamilies; }

const Family* FindFamily(std::string_view name) {
  for (const Family& family : kFamilies) {
    if (family.name == name) return &family;
  }
  return nullptr;
}

}  // namespace thaw
