#include "cli/json_text.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/utf8.h"
#include "cli/text_input.h"

namespace thaw::cli {
namespace {

// Larger than any list of tokens or conversation that fits a context, small enough to parse at
// once.
constexpr size_t kMaxJsonBytes = size_t{256} << 20;

// What the parser says, without its own numbering and place.
std::string ParserComplaint(std::string_view what) {
  const size_t place = what.find("column ");
  const size_t start = what.find(": ", place == std::string_view::npos ? 0 : place);
  if (start != std::string_view::npos) {
    what.remove_prefix(start + 2);
  } else if (const size_t tag_end = what.find("] "); tag_end != std::string_view::npos) {
    what.remove_prefix(tag_end + 2);
  }
  return ReplaceInvalidUtf8(what);
}

// Line and column of a byte, both from 1.
std::pair<size_t, size_t> LineAndColumn(std::string_view text, size_t position) {
  const std::string_view before = text.substr(0, position);
  const auto line = static_cast<size_t>(std::ranges::count(before, '\n')) + 1;
  const size_t newline = before.rfind('\n');
  return {line, newline == std::string_view::npos ? before.size() + 1 : before.size() - newline};
}

bool IsPlain(const Json& value) { return !value.is_structured(); }

void AppendPretty(const Json& value, size_t indent, std::string& out) {
  const bool on_one_line = value.empty() || !value.is_structured() ||
                           (value.is_array() && std::ranges::all_of(value, IsPlain));
  if (on_one_line) {
    out += CompactJson(value);
    return;
  }
  const std::string inner(indent + 2, ' ');
  out += value.is_object() ? "{" : "[";
  const char* separator = "\n";
  for (const auto& [key, element] : value.items()) {
    out += separator + inner;
    if (value.is_object()) out += CompactJson(key) + ": ";
    AppendPretty(element, indent + 2, out);
    separator = ",\n";
  }
  out += '\n' + std::string(indent, ' ') + (value.is_object() ? '}' : ']');
}

// An element for an error message. Lists and objects may be deeper than a printer can follow.
std::string Describe(const Json& element) {
  return element.is_structured() ? fmt::format("of type {}", element.type_name())
                                 : CompactJson(element);
}

Result<Json> ReadList(const std::string& path, std::string_view of_what) {
  THAW_ASSIGN(Json list, ReadJsonFile(path));
  if (!list.is_array()) {
    return Fail(ErrorCode::kInvalidArgument,
                "{}: a JSON list of {} is expected, this is of type {}", path, of_what,
                list.type_name());
  }
  return list;
}

}  // namespace

Result<Json> ParseJson(std::string_view text, std::string_view name) {
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const Json::parse_error& error) {
    const size_t byte = std::min(error.byte == 0 ? 0 : error.byte - 1, text.size());
    const auto [line, column] = LineAndColumn(text, byte);
    return Fail(ErrorCode::kInvalidArgument, "{}:{}:{}: this is not JSON: {}", name, line, column,
                ParserComplaint(error.what()));
  } catch (const Json::exception& error) {
    return Fail(ErrorCode::kInvalidArgument, "{}: this is not JSON: {}", name,
                ParserComplaint(error.what()));
  }
}

Result<Json> ReadJsonFile(const std::string& path) {
  THAW_ASSIGN(const std::string text, ReadTextFile(path, kMaxJsonBytes));
  return ParseJson(text, path);
}

Result<std::vector<int32_t>> ReadTokenList(const std::string& path) {
  THAW_ASSIGN(const Json list, ReadList(path, "token ids"));
  std::vector<int32_t> tokens;
  tokens.reserve(list.size());
  for (const Json& element : list) {
    const bool fits = element.is_number_unsigned()
                          ? element.get<uint64_t>() <= uint64_t{std::numeric_limits<int32_t>::max()}
                          : element.is_number_integer() &&
                                element.get<int64_t>() >= std::numeric_limits<int32_t>::min();
    if (!fits) {
      return Fail(ErrorCode::kInvalidArgument, "{}: element {} is {}, which is no token id", path,
                  tokens.size(), Describe(element));
    }
    tokens.push_back(element.get<int32_t>());
  }
  return tokens;
}

Result<std::vector<std::string>> ReadStringList(const std::string& path) {
  THAW_ASSIGN(const Json list, ReadList(path, "strings"));
  std::vector<std::string> strings;
  strings.reserve(list.size());
  for (const Json& element : list) {
    if (!element.is_string()) {
      return Fail(ErrorCode::kInvalidArgument, "{}: element {} is {}, which is no string", path,
                  strings.size(), Describe(element));
    }
    strings.push_back(element.get<std::string>());
  }
  return strings;
}

std::string CompactJson(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string PrettyJson(const Json& value) {
  std::string out;
  AppendPretty(value, 0, out);
  return out + '\n';
}

}  // namespace thaw::cli
