#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/filters.h"
#include "chat/format.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

// Text filters take any value as its text.
Result<std::string> TextInput(Call& call) { return ToText(call.heap(), call.self()); }

template <std::string (*kFunction)(std::string_view)>
Result<Value> TextMapped(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  return call.heap().MakeString(kFunction(text));
}

// Every word begins with a capital; words end at blanks, hyphens and opening brackets.
std::string CapitalizeWords(std::string_view text) {
  std::string out, word;
  for (const char32_t c : Decode(text)) {
    const bool separates = IsSpace(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    if (separates) {
      out += Capitalize(word);
      word.clear();
      AppendUtf8(c, out);
    } else {
      AppendUtf8(c, word);
    }
  }
  return out + Capitalize(word);
}

std::string EscapeHtml(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&#34;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string EncodeUrl(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_kept = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') ||
                         std::string_view("_.-~/").find(c) != std::string_view::npos;
    if (is_kept) {
      out += c;
    } else {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return out;
}

// Without tags and comments, and runs of blanks made one.
std::string StripTags(std::string_view text) {
  std::string kept;
  while (!text.empty()) {
    const size_t open = text.find('<');
    kept += text.substr(0, open);
    if (open == std::string_view::npos) break;
    text.remove_prefix(open);
    const bool is_comment = text.starts_with("<!--");
    const size_t close = text.find(is_comment ? "-->" : ">");
    if (close == std::string_view::npos) {
      kept += text;
      break;
    }
    text.remove_prefix(close + (is_comment ? 3 : 1));
  }
  std::string out;
  for (const std::string_view word : Split(kept, -1)) {
    if (!out.empty()) out += ' ';
    out += word;
  }
  return out;
}

Result<Value> Trim(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  if (call.Get(0) == nullptr || call.Get(0)->is_none()) {
    return call.heap().MakeString(std::string(Strip(text, Side::kBoth)));
  }
  THAW_ASSIGN(const std::string_view characters, call.Text(0, ""));
  return call.heap().MakeString(std::string(Strip(text, Side::kBoth, characters)));
}

Result<Value> ReplaceFilter(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  THAW_ASSIGN(const std::string from, ToText(call.heap(), *call.Get(0)));
  THAW_ASSIGN(const std::string to, ToText(call.heap(), *call.Get(1)));
  THAW_ASSIGN(const int64_t max_count, call.Integer(2, -1));
  const uint64_t found = Count(text, from);
  const uint64_t count = max_count < 0 ? found : std::min<uint64_t>(found, max_count);
  uint64_t added = 0;
  if (__builtin_mul_overflow(count, to.size(), &added)) return call.Fail("the result is too long");
  THAW_TRY(call.heap().Check(text.size() + added));
  return call.heap().MakeString(Replace(text, from, to, max_count));
}

Result<Value> Indent(Call& call) {
  if (!call.self().is_string())
    return call.Fail("expected a string, found '{}'", call.self().type_name());
  const std::string& text = call.self().text();
  std::string indent;
  if (call.Get(0) != nullptr && call.Get(0)->is_string()) {
    indent = call.Get(0)->text();
  } else {
    THAW_ASSIGN(const int64_t width, call.Integer(0, 4));
    THAW_TRY(call.heap().Check(static_cast<uint64_t>(std::max<int64_t>(width, 0))));
    indent.assign(static_cast<size_t>(std::max<int64_t>(width, 0)), ' ');
  }
  const bool first = call.Flag(1, false);
  const bool blank = call.Flag(2, false);
  // A newline at the end makes one more, empty line.
  const std::string ended = text + "\n";
  const std::vector<std::string_view> lines = SplitLines(ended, false);
  uint64_t added = 0;
  if (__builtin_mul_overflow(lines.size(), indent.size(), &added)) {
    return call.Fail("the result is too long");
  }
  THAW_TRY(call.heap().Check(text.size() + added));
  std::string out;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out += '\n';
    if (i == 0 ? first : blank || !lines[i].empty()) out += indent;
    out += lines[i];
  }
  return call.heap().MakeString(std::move(out));
}

Result<Value> TruncateFilter(Call& call) {
  THAW_ASSIGN(const std::string input, TextInput(call));
  THAW_ASSIGN(const int64_t length, call.Integer(0, 255));
  const bool cut_words = call.Flag(1, false);
  THAW_ASSIGN(const std::string_view end, call.Text(2, "..."));
  THAW_ASSIGN(const int64_t leeway, call.Integer(3, 5));
  const int64_t end_length = static_cast<int64_t>(CountCharacters(end));
  if (length < end_length || leeway < 0) {
    return call.Fail("expected a length of at least {} and no negative leeway", end_length);
  }
  const String text(input);
  const int64_t size = static_cast<int64_t>(text.length());
  if (size <= length || size - length <= leeway) return call.heap().MakeString(input);
  std::string kept = input.substr(0, text.ByteOffset(static_cast<size_t>(length - end_length)));
  if (!cut_words) kept = std::string(SplitFromEnd(kept, " ", 1)[0]);
  return call.heap().MakeString(kept + std::string(end));
}

Result<Value> Center(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  THAW_ASSIGN(const int64_t width, call.Integer(0, 80));
  const int64_t missing = std::max<int64_t>(width - static_cast<int64_t>(CountCharacters(text)), 0);
  THAW_TRY(call.heap().Check(text.size() + static_cast<uint64_t>(missing)));
  const int64_t left = missing / 2 + (missing & width & 1);
  return call.heap().MakeString(std::string(left, ' ') + text + std::string(missing - left, ' '));
}

// Beyond ASCII, all but blanks, punctuation and pictures.
bool IsWordCharacter(char32_t c) {
  const bool is_sign = (c >= 0x2000 && c < 0x2c00) || (c >= 0x3000 && c < 0x3005) || c >= 0x1f000;
  return !IsSpace(c) && IsPrintable(c) && !is_sign;
}

Result<Value> CountWords(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  int64_t count = 0;
  bool inside = false;
  for (const char32_t c : Decode(text)) {
    const bool is_word =
        c == '_' || (c < 0x80 ? std::isalnum(static_cast<int>(c)) != 0 : IsWordCharacter(c));
    count += is_word && !inside ? 1 : 0;
    inside = is_word;
  }
  return Value(count);
}

Result<Value> FormatFilter(Call& call) {
  THAW_ASSIGN(const std::string text, TextInput(call));
  const Arguments& arguments = call.all();
  if (!arguments.positional.empty() && !arguments.named.empty()) {
    return call.Fail("positional and named arguments together");
  }
  if (arguments.named.empty()) {
    THAW_ASSIGN(const Value tuple, call.heap().MakeList(arguments.positional, ListKind::kTuple));
    return FormatPercent(call.heap(), text, tuple);
  }
  std::vector<Dict::Entry> entries;
  entries.reserve(arguments.named.size());
  for (const auto& [name, value] : arguments.named) entries.emplace_back(Value(name), value);
  THAW_ASSIGN(const Value dict, call.heap().MakeDict(std::move(entries)));
  return FormatPercent(call.heap(), text, dict);
}

// Escaping is off, so text that is safe is plain text.
Result<Value> Safe(Call& call) {
  THAW_ASSIGN(std::string text, TextInput(call));
  return call.heap().MakeString(std::move(text));
}

constexpr std::array<Builtin, 17> kTextFilters = {{
    {"capitalize", "", TextMapped<Capitalize>},
    {"center", "width=", Center},
    {"e", "", TextMapped<EscapeHtml>},
    {"escape", "", TextMapped<EscapeHtml>},
    {"forceescape", "", TextMapped<EscapeHtml>},
    {"format", "*", FormatFilter},
    {"indent", "width= first= blank=", Indent},
    {"lower", "", TextMapped<ToLower>},
    {"replace", "old new count=", ReplaceFilter},
    {"safe", "", Safe},
    {"striptags", "", TextMapped<StripTags>},
    {"title", "", TextMapped<CapitalizeWords>},
    {"trim", "chars=", Trim},
    {"truncate", "length= killwords= end= leeway=", TruncateFilter},
    {"upper", "", TextMapped<ToUpper>},
    {"urlencode", "", TextMapped<EncodeUrl>},
    {"wordcount", "", CountWords},
}};

}  // namespace

const Builtin* FindTextFilter(std::string_view name) { return FindBuiltin(kTextFilters, name); }

}  // namespace thaw::jinja
