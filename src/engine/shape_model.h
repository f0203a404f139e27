// Model files of a stated shape with random weights, for benchmarks and tests: as large and as slow
// as a real model of that shape, and as meaningless as random weights are.
//
// Every matrix has the same element type, the embedding and the output matrix included, but routers
// to experts, which are F32; weights have a standard deviation of 1 / sqrt(columns), so that
// activations neither grow nor vanish (engine/random_weights.h) and experts are chosen nearly alike
// often, unless the shape says otherwise. Norms are 1 and biases 0, as F32. The vocabulary is a
// SentencePiece one of all bytes and of words of letters, so that other programs load the file too.
//
// The same shape, type and seed give the same bytes on every machine. Memory: some MiB, whatever
// the shape.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/function_ref.h"
#include "base/result.h"
#include "tensor/element_type.h"

namespace thaw {

struct ModelShape {
  std::string_view name;
  std::string_view family = "llama";  // a row of model/family.h
  int64_t n_layers = 0;
  int64_t d_model = 0;
  int64_t d_ff = 0;  // of each expert, where there are any
  int64_t n_heads = 0;
  int64_t n_kv_heads = 0;
  int64_t head_dim = 0;  // of queries, keys and values; with latents what does not turn
  int64_t n_vocab = 0;   // at least 260: three special tokens, 256 bytes and the space
  int64_t context_length = 0;
  float rope_freq_base = 10000;
  bool tied_output = false;  // the embedding is the output matrix too
  int64_t window = 0;        // of the layers that have one in this family
  int64_t n_experts = 0;     // of each layer; 0: the feed-forward blocks are dense
  int64_t n_experts_used = 0;
  // Of a family with latent attention, which is absorbed.
  int64_t kv_rank = 0;
  int64_t q_rank = 0;
  int64_t rope_dim = 0;  // of a head's own numbers, or with latents beside them; 0: head_dim
  // Of a family whose choice has a bias: that of the expert of rank r, counted from 0 in an order
  // of each layer's own, is -skew ln(1 + r).
  float expert_skew = 0;
};

// Shapes of published models, and two small mixtures that differ in how evenly experts are chosen.
std::span<const ModelShape> KnownShapes();

// kNotFound, with the names that there are, for a name that is not known.
Result<const ModelShape*> FindShape(std::string_view name);

// The type of that name, in letters of either case, that matrices can have. kNotFound, with the
// names that there are, for any other.
Result<ElementType> FindWeightType(std::string_view name);

// Bytes of the tensors. kInvalidArgument for a shape that makes no sense, for a type that cannot be
// multiplied, and, with the tensor's name, for one whose blocks do not divide a row.
Result<uint64_t> ShapeModelBytes(const ModelShape& shape, ElementType type);

// Writes the file; it appears at `path` when it is whole. `on_progress(done, total)` gets bytes of
// tensors and returns whether to go on; kCancelled when it said no. The errors of
// ShapeModelBytes; kResourceExhausted, before anything is written, where the file system has no
// room for it.
Result<void> WriteShapeModel(const ModelShape& shape, ElementType type, uint64_t seed,
                             const std::string& path,
                             FunctionRef<bool(uint64_t done, uint64_t total)> on_progress);

}  // namespace thaw
