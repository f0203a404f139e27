// The weights of a model by their role, found and checked by name and shape.
//
// Matrices stay in the file: a role holds the index under which the weight cache knows its matrix.
// Vectors (norms, biases) are small, are needed in every step, and are held here as floats.
#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "model/config.h"
#include "residency/tile_map.h"

namespace thaw {

// y = W x + b
struct LinearWeights {
  int32_t matrix = -1;           // of the weight cache
  int64_t rows = 0;              // length of y
  int64_t cols = 0;              // length of x
  std::vector<float> bias = {};  // [rows], or empty
};

struct LayerWeights {
  std::vector<float> attention_norm;  // [d_model]
  LinearWeights q, k, v, attention_output;
  std::vector<float> q_norm, k_norm;  // [head_dim], or empty
  std::vector<float> ffn_norm;        // [d_model]
  LinearWeights gate, up, down;
};

struct ModelWeights {
  int32_t embedding = -1;  // matrix of the weight cache: [n_vocab, d_model]
  std::vector<LayerWeights> layers;
  std::vector<float> output_norm;  // [d_model]
  LinearWeights output;            // the embedding's own matrix where the file has no other
};

struct ModelDescription {
  ModelConfig config;  // with the frequency factors of the file
  ModelWeights weights;
  std::vector<WeightMatrix> matrices;  // for the weight cache, in the order of a forward pass
  uint64_t vector_bytes = 0;           // held as floats in `weights`
};

// Reads metadata and vectors; no matrix is read. kCorrupt names a tensor that is missing, of a
// wrong shape, or of no use to this architecture (the output would be silently wrong); kUnsupported
// one whose element type cannot be multiplied.
Result<ModelDescription> DescribeModel(const GgufFile& file);

}  // namespace thaw
