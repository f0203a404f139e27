// How the configuration of a model is read from the fields of its file: what the files beside
// config.cc share. ReadModelConfig calls the functions below in their order; each fills in its part
// of the configuration from what those before it have read. Errors name file and field.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "model/config.h"

namespace thaw {

// No model comes near these; they keep products of two sizes far inside int64_t.
inline constexpr uint64_t kMaxLayers = 4096;
inline constexpr uint64_t kMaxWidth = uint64_t{1} << 28;
inline constexpr uint64_t kMaxContext = uint64_t{1} << 31;
inline constexpr uint64_t kMaxExperts = 4096;
inline constexpr uint64_t kMaxTaps = 64;
inline constexpr uint64_t kMaxStateKeys = 65536;

// Reads the metadata of one architecture: keys are "ARCHITECTURE.key". `file` must outlive it.
class MetadataReader {
 public:
  MetadataReader(const GgufFile& file, std::string_view architecture)
      : file_(file), prefix_(std::string(architecture) + ".") {}

  std::string Key(std::string_view key) const { return prefix_ + std::string(key); }
  bool Has(std::string_view key) const { return file_.Find(Key(key)) != nullptr; }

  // A number in [1, max].
  Result<int64_t> Size(std::string_view key, uint64_t max) const;
  Result<int64_t> SizeOr(std::string_view key, uint64_t max, int64_t missing) const;

  // The same, where 0 stands for a field that is missing.
  Result<int64_t> SizeOrNone(std::string_view key, uint64_t max, int64_t missing) const;

  // One number in [least, max] for each of the layers that run: an array of one for each layer of
  // the file, or a number that holds for all.
  Result<std::vector<int64_t>> OfLayers(std::string_view key, const ModelConfig& config,
                                        int64_t least, uint64_t max) const;

  // Likewise a finite number, or -infinity where that is `least`; `name` is the whole one of the
  // field.
  Result<std::vector<float>> FloatsOfLayers(
      const std::string& name, const ModelConfig& config,
      float least = std::numeric_limits<float>::lowest()) const;

  // A finite number above zero.
  Result<float> Positive(std::string_view key) const;
  Result<float> PositiveOr(std::string_view key, float missing) const;

  // A finite number that is not negative; 0 stands for "none".
  Result<float> PositiveOrNone(std::string_view key, float missing) const;

 private:
  // A number, or an array of one number a layer as long as they are all the same.
  Result<uint64_t> Number(std::string_view key) const;

  // Whether a field has so many elements as the file has layers.
  Result<void> CheckOneALayer(const std::string& name, int64_t count,
                              const ModelConfig& config) const;

  Result<int64_t> Checked(std::string_view key, uint64_t value, uint64_t max) const;

  const GgufFile& file_;
  std::string prefix_;
};

// Heads, latent attention and the indexer.
Result<void> ReadAttention(const GgufFile& file, const MetadataReader& metadata,
                           ModelConfig& config);

// Windows and ropes of all layers.
Result<void> ReadLayers(const GgufFile& file, const MetadataReader& metadata, ModelConfig& config);

// Which of the last layers see the keys and values of the last one before them that sees as far.
Result<void> ReadSharing(const GgufFile& file, const MetadataReader& metadata, ModelConfig& config);

// The experts, of which layers, and the width of dense blocks. Layers have experts where the file
// has a router for them.
Result<void> ReadFeedForward(const GgufFile& file, const MetadataReader& metadata,
                             ModelConfig& config);

// Which layers recur, and the shape of what they remember.
Result<void> ReadRecurrence(const GgufFile& file, const MetadataReader& metadata,
                            ModelConfig& config);

// What blocks do with their hidden layers.
Result<void> ReadActivations(const GgufFile& file, const MetadataReader& metadata,
                             ModelConfig& config);

}  // namespace thaw
