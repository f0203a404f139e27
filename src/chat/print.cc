#include "chat/print.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

void AppendStringRepr(std::string_view text, std::string& out) {
  const bool single =
      text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos;
  const char32_t quote = single ? '"' : '\'';
  out += static_cast<char>(quote);
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = DecodeUtf8(text, i);
    const char32_t c = character.code_point;
    switch (c) {
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\\':
        out += "\\\\";
        break;
      default:
        if (c == quote) {
          out += '\\';
          out += static_cast<char>(c);
        } else if (IsPrintable(c)) {
          out += text.substr(i, character.length);
        } else if (c < 0x100) {
          out += fmt::format("\\x{:02x}", static_cast<uint32_t>(c));
        } else if (c < 0x10000) {
          out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
        } else {
          out += fmt::format("\\U{:08x}", static_cast<uint32_t>(c));
        }
    }
    i += character.length;
  }
  out += static_cast<char>(quote);
}

void AppendJsonString(std::string_view text, bool ascii_only, std::string& out) {
  const auto escape = [&](uint32_t unit) { out += fmt::format("\\u{:04x}", unit); };
  out += '"';
  for (size_t i = 0; i < text.size();) {
    const Utf8Character character = DecodeUtf8(text, i);
    const char32_t c = character.code_point;
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (c >= 0x10000 && ascii_only) {
          escape(0xd800 + ((c - 0x10000) >> 10));
          escape(0xdc00 + ((c - 0x10000) & 0x3ff));
        } else if (c < 0x20 || (c > 0x7e && ascii_only)) {
          escape(c);
        } else {
          out += text.substr(i, character.length);
        }
    }
    i += character.length;
  }
  out += '"';
}

// Writes the elements of a list or dict between separators, bounded as it goes.
class Sequence {
 public:
  Sequence(Heap& heap, std::string& out) : heap_(heap), out_(out) {}

  Result<void> Separate(std::string_view separator) {
    if (!is_first_) out_ += separator;
    is_first_ = false;
    THAW_TRY(heap_.Work(1));
    return heap_.Check(out_.size());
  }

 private:
  Heap& heap_;
  std::string& out_;
  bool is_first_ = true;
};

Result<void> AppendItemsRepr(Heap& heap, const Values& items, std::string& out) {
  Sequence sequence(heap, out);
  for (const Value& item : items) {
    THAW_TRY(sequence.Separate(", "));
    THAW_TRY(AppendRepr(heap, item, out));
  }
  return {};
}

void AppendRangeRepr(const Values& items, std::string& out) {
  const int64_t first = items.empty() ? 0 : items.front().integer();
  const int64_t step = items.size() < 2 ? 1 : items[1].integer() - first;
  const int64_t stop = items.empty() ? 0 : items.back().integer() + step;
  out += step == 1 ? fmt::format("range({}, {})", first, stop)
                   : fmt::format("range({}, {}, {})", first, stop, step);
}

Result<void> AppendListRepr(Heap& heap, const List& list, std::string& out) {
  static constexpr std::string_view kViewNames[] = {"",          "", "", "dict_keys", "dict_values",
                                                    "dict_items"};
  const Values& items = list.items();
  switch (list.list_kind()) {
    case ListKind::kGenerator:
      out += "<generator object>";
      return {};
    case ListKind::kRange:
      AppendRangeRepr(items, out);
      return {};
    case ListKind::kTuple:
      out += '(';
      THAW_TRY(AppendItemsRepr(heap, items, out));
      out += items.size() == 1 ? ",)" : ")";
      return {};
    default:
      break;
  }
  const std::string_view view = kViewNames[static_cast<int>(list.list_kind())];
  out += view;
  out += view.empty() ? "[" : "([";
  THAW_TRY(AppendItemsRepr(heap, items, out));
  out += view.empty() ? "]" : "])";
  return {};
}

Result<void> AppendDictRepr(Heap& heap, const Dict& dict, std::string& out) {
  Sequence sequence(heap, out);
  out += '{';
  for (const auto& [key, value] : dict.entries()) {
    THAW_TRY(sequence.Separate(", "));
    THAW_TRY(AppendRepr(heap, key, out));
    out += ": ";
    THAW_TRY(AppendRepr(heap, value, out));
  }
  out += '}';
  return {};
}

class JsonWriter {
 public:
  JsonWriter(Heap& heap, const JsonStyle& style, std::string& out)
      : heap_(heap),
        style_(style),
        indent_(style.indent_text.empty() ? std::string(std::max(style.indent, 0), ' ')
                                          : style.indent_text),
        out_(out) {}

  Result<void> Write(const Value& value, int level) {
    switch (value.kind()) {
      case Kind::kNone:
        out_ += "null";
        return {};
      case Kind::kBool:
        out_ += value.boolean() ? "true" : "false";
        return {};
      case Kind::kInt:
        out_ += fmt::format("{}", value.integer());
        return {};
      case Kind::kFloat:
        WriteFloat(value.real());
        return {};
      case Kind::kString:
        THAW_TRY(heap_.Scan(value.text().size()));
        AppendJsonString(value.text(), style_.ascii_only, out_);
        return heap_.Check(out_.size());
      case Kind::kDict:
        return WriteDict(value.dict(), level);
      case Kind::kList:
        if (value.list().list_kind() <= ListKind::kTuple) return WriteList(value.list(), level);
        [[fallthrough]];
      default:
        break;
    }
    return Fail(ErrorCode::kInvalidArgument, "an object of type {} has no JSON form{}",
                value.type_name(),
                value.is_undefined() ? fmt::format(": {}", value.why()) : std::string());
  }

 private:
  bool is_indented() const { return style_.indent >= 0 || !style_.indent_text.empty(); }

  void WriteFloat(double value) {
    if (std::isnan(value)) {
      out_ += "NaN";
    } else if (std::isinf(value)) {
      out_ += value < 0 ? "-Infinity" : "Infinity";
    } else {
      out_ += FormatFloat(value);
    }
  }

  void WriteLineBreak(int level) {
    if (!is_indented()) return;
    out_ += '\n';
    for (int i = 0; i < level; ++i) out_ += indent_;
  }

  Result<void> WriteList(const List& list, int level) {
    if (list.items().empty()) {
      out_ += "[]";
      return {};
    }
    Sequence sequence(heap_, out_);
    out_ += '[';
    for (const Value& item : list.items()) {
      THAW_TRY(sequence.Separate(style_.item_separator));
      WriteLineBreak(level + 1);
      THAW_TRY(Write(item, level + 1));
    }
    WriteLineBreak(level);
    out_ += ']';
    return {};
  }

  // Keys become strings.
  Result<void> WriteKey(const Value& key) {
    std::string text;
    JsonWriter writer(heap_, style_, text);
    THAW_TRY(writer.Write(key, 0));
    if (key.is_string()) {
      out_ += text;
    } else {
      AppendJsonString(text, style_.ascii_only, out_);
    }
    return {};
  }

  Result<void> WriteDict(const Dict& dict, int level) {
    if (dict.entries().empty()) {
      out_ += "{}";
      return {};
    }
    std::vector<const Dict::Entry*> entries;
    for (const Dict::Entry& entry : dict.entries()) entries.push_back(&entry);
    if (style_.sort_keys) {
      const bool all_strings = std::all_of(entries.begin(), entries.end(), [](const auto* entry) {
        return entry->first.is_string();
      });
      if (!all_strings) {
        return Fail(ErrorCode::kInvalidArgument, "only string keys can be sorted");
      }
      std::sort(entries.begin(), entries.end(),
                [](const auto* a, const auto* b) { return a->first.text() < b->first.text(); });
    }
    Sequence sequence(heap_, out_);
    out_ += '{';
    for (const Dict::Entry* entry : entries) {
      THAW_TRY(sequence.Separate(style_.item_separator));
      WriteLineBreak(level + 1);
      THAW_TRY(WriteKey(entry->first));
      out_ += style_.key_separator;
      THAW_TRY(Write(entry->second, level + 1));
    }
    WriteLineBreak(level);
    out_ += '}';
    return {};
  }

  Heap& heap_;
  const JsonStyle& style_;
  std::string indent_;
  std::string& out_;
};

}  // namespace

Result<std::string> ToText(Heap& heap, const Value& value) {
  std::string out;
  THAW_TRY(AppendText(heap, value, out));
  return out;
}

Result<void> AppendText(Heap& heap, const Value& value, std::string& out) {
  if (value.is_undefined()) return {};
  if (!value.is_string()) return AppendRepr(heap, value, out);
  THAW_TRY(heap.Check(out.size() + value.text().size()));
  THAW_TRY(heap.Scan(value.text().size()));
  out += value.text();
  return {};
}

Result<void> AppendRepr(Heap& heap, const Value& value, std::string& out) {
  switch (value.kind()) {
    case Kind::kUndefined:
      out += "Undefined";
      return {};
    case Kind::kNone:
      out += "None";
      return {};
    case Kind::kBool:
      out += value.boolean() ? "True" : "False";
      return {};
    case Kind::kInt:
      out += fmt::format("{}", value.integer());
      return {};
    case Kind::kFloat:
      out += FormatFloat(value.real());
      return {};
    case Kind::kString:
      THAW_TRY(heap.Scan(value.text().size()));
      AppendStringRepr(value.text(), out);
      return heap.Check(out.size());
    case Kind::kList:
      return AppendListRepr(heap, value.list(), out);
    case Kind::kDict:
      return AppendDictRepr(heap, value.dict(), out);
    case Kind::kFunction:
    case Kind::kObject:
      out += fmt::format("<{}>", value.type_name());
      return {};
  }
  return {};
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto shortest =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::scientific);
  const std::string_view text(buffer, shortest.ptr - buffer);
  const size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), text.data() + text.size(),
                  exponent);
  // Python writes numbers from 1e-4 to 1e16 without an exponent.
  if (exponent < -4 || exponent >= 16) return std::string(text);
  const auto fixed =
      std::to_chars(std::begin(buffer), std::end(buffer), value, std::chars_format::fixed);
  std::string out(buffer, fixed.ptr);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

Result<void> AppendJson(Heap& heap, const Value& value, const JsonStyle& style, std::string& out) {
  return JsonWriter(heap, style, out).Write(value, 0);
}

}  // namespace thaw::jinja
