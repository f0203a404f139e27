// The model families as data: what tells one architecture's forward pass from another's.
//
// There is one forward pass (model/model.h). A family is a row of this table; to add one whose
// operations all exist is to add a row.
#pragma once

#include <span>
#include <string_view>

#include "kernels/rope.h"

namespace thaw {

// Whether the files of a family carry a tensor.
enum class Presence { kAbsent, kOptional, kRequired };

struct Family {
  std::string_view name;  // as general.architecture gives it
  RopePairing rope_pairing;
  Presence qkv_bias;               // blk.N.attn_{q,k,v}.bias
  Presence attention_output_bias;  // blk.N.attn_output.bias
  Presence qk_norm;                // blk.N.attn_{q,k}_norm.weight: RMS norm of each head
  Presence ffn_bias;               // blk.N.ffn_{gate,up,down}.bias
  Presence output_bias;            // output.bias
};

std::span<const Family> AllFamilies();

// nullptr when no family has this name.
const Family* FindFamily(std::string_view name);

}  // namespace thaw
