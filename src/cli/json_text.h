// JSON files that the user hands over, and JSON as the commands print it.
//
// Errors name the file and, where the text is not JSON, line and column.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace thaw::cli {

using Json = nlohmann::ordered_json;

// `name` stands for the text in errors.
Result<Json> ParseJson(std::string_view text, std::string_view name);
Result<Json> ReadJsonFile(const std::string& path);

// A list of integers, or of strings, in a file. kInvalidArgument names the element that is not one.
Result<std::vector<int32_t>> ReadTokenList(const std::string& path);
Result<std::vector<std::string>> ReadStringList(const std::string& path);

// With two columns of indentation, lists of plain values on one line, and a newline at the end.
// Bytes that are not UTF-8 come out as U+FFFD.
std::string PrettyJson(const Json& value);

// On one line, without a newline.
std::string CompactJson(const Json& value);

}  // namespace thaw::cli
