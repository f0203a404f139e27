// The shape of a model: what its file's metadata says of it, checked.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "kernels/rope.h"
#include "model/family.h"

namespace thaw {

struct ModelConfig {
  const Family* family = nullptr;
  std::string name;  // general.name, for people; may be empty
  int64_t n_layers = 0;
  int64_t d_model = 0;
  int64_t d_ff = 0;
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;      // n_heads is a multiple
  int64_t head_dim = 0;        // of queries and keys
  int64_t v_head_dim = 0;      // of values
  int64_t n_vocab = 0;         // rows of the embedding
  int64_t context_length = 0;  // trained for, scaling included
  float norm_epsilon = 0;
  RopeConfig rope;  // the frequency factors come with the weights

  int64_t group() const { return n_heads / n_kv_heads; }
};

// Reads the metadata. kUnsupported for an architecture or a feature that Thaw does not run, with
// the list of those it does; kCorrupt for metadata that is missing or contradicts itself.
Result<ModelConfig> ReadModelConfig(const GgufFile& file);

}  // namespace thaw
