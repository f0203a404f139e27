#include "model/config_reading.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace thaw {

Result<int64_t> MetadataReader::Size(std::string_view key, uint64_t max) const {
  THAW_ASSIGN(const uint64_t value, Number(key));
  return Checked(key, value, max);
}

Result<int64_t> MetadataReader::SizeOr(std::string_view key, uint64_t max, int64_t missing) const {
  if (!Has(key)) return missing;
  return Size(key, max);
}

Result<int64_t> MetadataReader::SizeOrNone(std::string_view key, uint64_t max,
                                           int64_t missing) const {
  if (!Has(key)) return missing;
  THAW_ASSIGN(const uint64_t value, Number(key));
  return value == 0 ? missing : Checked(key, value, max);
}

Result<std::vector<int64_t>> MetadataReader::OfLayers(std::string_view key,
                                                      const ModelConfig& config, int64_t least,
                                                      uint64_t max) const {
  std::vector<int64_t> values;
  const GgufField* field = file_.Find(Key(key));
  if (field == nullptr || field->array() == nullptr) {
    THAW_ASSIGN(const uint64_t value, file_.GetUint(Key(key)));
    values.assign(config.layers.size(), static_cast<int64_t>(std::min(value, max + 1)));
  } else {
    THAW_ASSIGN(values, file_.ReadInts(Key(key)));
    THAW_TRY(CheckOneALayer(Key(key), std::ssize(values), config));
    values.resize(config.layers.size());
  }
  for (const int64_t value : values) {
    if (value < least || std::cmp_greater(value, max)) {
      return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {}, expected {} to {}", file_.path(),
                  Key(key), value, least, max);
    }
  }
  return values;
}

Result<std::vector<float>> MetadataReader::FloatsOfLayers(const std::string& name,
                                                          const ModelConfig& config,
                                                          float least) const {
  std::vector<float> values;
  const GgufField* field = file_.Find(name);
  if (field == nullptr || field->array() == nullptr) {
    THAW_ASSIGN(const double value, file_.GetFloat(name));
    values.assign(config.layers.size(), static_cast<float>(value));
  } else {
    THAW_ASSIGN(values, file_.ReadFloats(name));
    THAW_TRY(CheckOneALayer(name, std::ssize(values), config));
    values.resize(config.layers.size());
  }
  for (const float value : values) {
    if (value >= least && value <= std::numeric_limits<float>::max()) continue;
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {}, expected finite numbers{}",
                file_.path(), name, value, std::isinf(least) ? " or -inf" : "");
  }
  return values;
}

Result<float> MetadataReader::Positive(std::string_view key) const {
  THAW_ASSIGN(const double value, file_.GetFloat(Key(key)));
  if (!std::isfinite(value) || value <= 0) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected a number above 0",
                file_.path(), Key(key), value);
  }
  return static_cast<float>(value);
}

Result<float> MetadataReader::PositiveOr(std::string_view key, float missing) const {
  if (!Has(key)) return missing;
  return Positive(key);
}

Result<float> MetadataReader::PositiveOrNone(std::string_view key, float missing) const {
  if (!Has(key)) return missing;
  THAW_ASSIGN(const double value, file_.GetFloat(Key(key)));
  if (value == 0) return 0.0F;
  return Positive(key);
}

Result<uint64_t> MetadataReader::Number(std::string_view key) const {
  const GgufField* field = file_.Find(Key(key));
  if (field == nullptr || field->array() == nullptr) return file_.GetUint(Key(key));
  THAW_ASSIGN(const std::vector<int64_t> values, file_.ReadInts(Key(key)));
  if (values.empty() || values.front() < 0) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' has no usable first element", file_.path(),
                Key(key));
  }
  if (std::ranges::any_of(values, [&](int64_t v) { return v != values.front(); })) {
    return Fail(ErrorCode::kUnsupported,
                "{}: field '{}' differs between layers, which this architecture cannot have here",
                file_.path(), Key(key));
  }
  return static_cast<uint64_t>(values.front());
}

Result<void> MetadataReader::CheckOneALayer(const std::string& name, int64_t count,
                                            const ModelConfig& config) const {
  const int64_t in_file = config.n_layers + config.n_unused_layers;
  if (count == in_file) return {};
  return Fail(ErrorCode::kCorrupt, "{}: field '{}' has {} elements, expected one a layer: {}",
              file_.path(), name, count, in_file);
}

Result<int64_t> MetadataReader::Checked(std::string_view key, uint64_t value, uint64_t max) const {
  if (value < 1 || value > max) {
    return Fail(ErrorCode::kCorrupt, "{}: field '{}' is {}, expected 1 to {}", file_.path(),
                Key(key), value, max);
  }
  return static_cast<int64_t>(value);
}

}  // namespace thaw
