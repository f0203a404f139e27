// The golden models: token ids in, logits of another program out.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace thaw {

inline std::string ReadWholeFile(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The numbers of the first JSON list of integers in `text`.
inline std::vector<int32_t> ReadIntegerList(const std::string& text) {
  const size_t begin = text.find('[') + 1;
  std::string list = text.substr(begin, text.find(']') - begin);
  for (char& c : list) c = c == ',' ? ' ' : c;
  std::istringstream stream(list);
  return {std::istream_iterator<int32_t>(stream), {}};
}

// The number after `"key": ` in `text`.
inline double ReadJsonNumber(const std::string& text, const std::string& key) {
  return std::stod(text.substr(text.find("\"" + key + "\":") + key.size() + 3));
}

// The float32 values of a .npy file (format 1.0: 10 bytes, then a header of the length they state).
inline std::vector<float> ReadNpy(const std::filesystem::path& path) {
  const std::string bytes = ReadWholeFile(path);
  const size_t header = 10 + static_cast<uint8_t>(bytes[8]) + 256 * static_cast<uint8_t>(bytes[9]);
  std::vector<float> values((bytes.size() - header) / sizeof(float));
  std::memcpy(values.data(), bytes.data() + header, values.size() * sizeof(float));
  return values;
}

// sqrt(mean((got - expected)^2) / mean(expected^2)); infinite for different lengths.
inline double RelativeRmse(std::span<const float> got, std::span<const float> expected) {
  if (got.size() != expected.size()) return INFINITY;
  double difference = 0;
  double size = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double d = static_cast<double>(got[i]) - static_cast<double>(expected[i]);
    difference += d * d;
    size += static_cast<double>(expected[i]) * static_cast<double>(expected[i]);
  }
  return std::sqrt(difference / size);
}

}  // namespace thaw
