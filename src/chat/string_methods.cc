#include <algorithm>
#include <array>

#include "base/utf8.h"
#include "chat/format.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

const std::string& Self(const Call& call) { return call.self().text(); }

template <std::string (*kFunction)(std::string_view)>
Result<Value> Mapped(Call& call) {
  return call.heap().MakeString(kFunction(Self(call)));
}

template <Side kSide>
Result<Value> StripMethod(Call& call) {
  if (call.Get(0) == nullptr || call.Get(0)->is_none()) {
    return call.heap().MakeString(std::string(Strip(Self(call), kSide)));
  }
  THAW_ASSIGN(const std::string_view characters, call.Text(0, ""));
  THAW_TRY(call.heap().Scan(characters.size() * sizeof(char32_t)));
  return call.heap().MakeString(std::string(Strip(Self(call), kSide, characters)));
}

Result<Value> MakeStrings(Heap& heap, const std::vector<std::string_view>& parts,
                          ListKind list_kind = ListKind::kList) {
  Values items;
  THAW_TRY(heap.Claim(parts.size() * (sizeof(String) + sizeof(Value))));
  items.reserve(parts.size());
  for (const std::string_view part : parts) items.emplace_back(std::string(part));
  return heap.MakeList(std::move(items), list_kind);
}

template <bool kFromEnd>
Result<Value> SplitMethod(Call& call) {
  THAW_ASSIGN(const int64_t max_splits, call.Integer(1, -1));
  if (call.Get(0) == nullptr || call.Get(0)->is_none()) {
    return MakeStrings(call.heap(), kFromEnd ? SplitFromEnd(Self(call), max_splits)
                                             : Split(Self(call), max_splits));
  }
  THAW_ASSIGN(const std::string_view separator, call.Text(0, ""));
  if (separator.empty()) return call.Fail("empty separator");
  return MakeStrings(call.heap(), kFromEnd ? SplitFromEnd(Self(call), separator, max_splits)
                                           : Split(Self(call), separator, max_splits));
}

Result<Value> SplitLinesMethod(Call& call) {
  return MakeStrings(call.heap(), SplitLines(Self(call), call.Flag(0, false)));
}

template <bool kFromEnd>
Result<Value> Partition(Call& call) {
  const std::string_view text = Self(call);
  THAW_ASSIGN(const std::string_view separator, call.Text(0, ""));
  if (separator.empty()) return call.Fail("empty separator");
  const size_t at = kFromEnd ? text.rfind(separator) : text.find(separator);
  std::vector<std::string_view> parts;
  if (at != std::string_view::npos) {
    parts = {text.substr(0, at), separator, text.substr(at + separator.size())};
  } else if (kFromEnd) {
    parts = {"", "", text};
  } else {
    parts = {text, "", ""};
  }
  return MakeStrings(call.heap(), parts, ListKind::kTuple);
}

// The text between the optional character positions `start` and `end`, and the former clamped.
struct Window {
  std::string_view text;
  int64_t start;
  bool is_valid;  // start is not behind the end of the text
};
Result<Window> WindowOf(const Call& call) {
  const String& string = call.self().string();
  const int64_t length = static_cast<int64_t>(string.length());
  THAW_ASSIGN(int64_t start, call.Integer(1, 0));
  THAW_ASSIGN(int64_t end, call.Integer(2, length));
  start = std::max<int64_t>(start < 0 ? std::max(start, -length) + length : start, 0);
  end = std::min(end < 0 ? std::max(end, -length) + length : end, length);
  if (start > length || start > end) return Window{"", std::min(start, length), false};
  const size_t begin = string.ByteOffset(static_cast<size_t>(start));
  const size_t stop = string.ByteOffset(static_cast<size_t>(end));
  return Window{std::string_view(string.text()).substr(begin, stop - begin), start, true};
}

template <bool kAtEnd>
Result<Value> StartsOrEndsWith(Call& call) {
  THAW_ASSIGN(const Window window, WindowOf(call));
  const auto fits = [&](std::string_view affix) {
    return window.is_valid &&
           (kAtEnd ? window.text.ends_with(affix) : window.text.starts_with(affix));
  };
  const Value& affixes = *call.Get(0);
  if (affixes.is_string()) return Value(fits(affixes.text()));
  if (affixes.is_undefined()) return FailUndefined(affixes);
  if (!affixes.is_list() || affixes.list().list_kind() != ListKind::kTuple) {
    return call.Fail("expected a string or a tuple of strings, found '{}'", affixes.type_name());
  }
  for (const Value& affix : affixes.list().items()) {
    if (!affix.is_string()) return call.Fail("expected strings");
    THAW_TRY(call.heap().Scan(affix.text().size()));
    if (fits(affix.text())) return Value(true);
  }
  return Value(false);
}

template <bool kFromEnd, bool kMustExist>
Result<Value> Find(Call& call) {
  THAW_ASSIGN(const std::string_view part, call.Text(0, ""));
  THAW_ASSIGN(const Window window, WindowOf(call));
  const size_t at = !window.is_valid ? std::string_view::npos
                    : kFromEnd       ? window.text.rfind(part)
                                     : window.text.find(part);
  if (at != std::string_view::npos) {
    return Value(window.start + static_cast<int64_t>(CountCharacters(window.text.substr(0, at))));
  }
  if (kMustExist) return call.Fail("substring not found");
  return Value(int64_t{-1});
}

Result<Value> CountMethod(Call& call) {
  THAW_ASSIGN(const std::string_view part, call.Text(0, ""));
  THAW_ASSIGN(const Window window, WindowOf(call));
  return Value(window.is_valid ? static_cast<int64_t>(Count(window.text, part)) : 0);
}

Result<Value> ReplaceMethod(Call& call) {
  THAW_ASSIGN(const std::string_view from, call.Text(0, ""));
  THAW_ASSIGN(const std::string_view to, call.Text(1, ""));
  THAW_ASSIGN(const int64_t max_count, call.Integer(2, -1));
  const uint64_t found = Count(Self(call), from);
  const uint64_t count = max_count < 0 ? found : std::min<uint64_t>(found, max_count);
  uint64_t added = 0;
  if (__builtin_mul_overflow(count, to.size(), &added)) return call.Fail("the result is too long");
  THAW_TRY(call.heap().Check(Self(call).size() + added));
  return call.heap().MakeString(Replace(Self(call), from, to, max_count));
}

Result<Value> RemovePrefix(Call& call) {
  THAW_ASSIGN(const std::string_view prefix, call.Text(0, ""));
  if (!Self(call).starts_with(prefix)) return call.self();
  return call.heap().MakeString(Self(call).substr(prefix.size()));
}

Result<Value> RemoveSuffix(Call& call) {
  THAW_ASSIGN(const std::string_view suffix, call.Text(0, ""));
  if (!Self(call).ends_with(suffix)) return call.self();
  return call.heap().MakeString(Self(call).substr(0, Self(call).size() - suffix.size()));
}

Result<Value> JoinMethod(Call& call) {
  THAW_ASSIGN(const auto list, Iterate(call.heap(), *call.Get(0)));
  std::string out;
  for (const Value& item : list->items()) {
    if (!item.is_string()) return call.Fail("expected strings, found '{}'", item.type_name());
    if (&item != list->items().data()) out += Self(call);
    THAW_TRY(AppendText(call.heap(), item, out));
  }
  return call.heap().MakeString(std::move(out));
}

// `text` with `fill` on its left and right up to a width of characters.
Result<Value> Pad(Call& call, Side text_side) {
  THAW_ASSIGN(const int64_t width, call.Integer(0, 0));
  THAW_ASSIGN(const std::string_view fill, call.Text(1, " "));
  if (CountCharacters(fill) != 1) return call.Fail("the fill must be one character");
  const int64_t length = static_cast<int64_t>(call.self().string().length());
  const int64_t missing = std::max<int64_t>(width - length, 0);
  THAW_TRY(call.heap().Check(static_cast<uint64_t>(missing)));
  // An odd blank of centered text stands left where the width is odd.
  const int64_t left = text_side == Side::kLeft    ? 0
                       : text_side == Side::kRight ? missing
                                                   : missing / 2 + (missing & width & 1);
  std::string out;
  for (int64_t i = 0; i < left; ++i) out += fill;
  out += Self(call);
  for (int64_t i = left; i < missing; ++i) out += fill;
  return call.heap().MakeString(std::move(out));
}
template <Side kTextSide>
Result<Value> PadMethod(Call& call) {
  return Pad(call, kTextSide);
}

Result<Value> ZeroFill(Call& call) {
  THAW_ASSIGN(const int64_t width, call.Integer(0, 0));
  const std::string& text = Self(call);
  const int64_t missing = width - static_cast<int64_t>(call.self().string().length());
  if (missing <= 0) return call.self();
  THAW_TRY(call.heap().Check(static_cast<uint64_t>(missing)));
  const size_t sign = text.starts_with('-') || text.starts_with('+') ? 1 : 0;
  return call.heap().MakeString(text.substr(0, sign) + std::string(missing, '0') +
                                text.substr(sign));
}

Result<Value> ExpandTabs(Call& call) {
  THAW_ASSIGN(const int64_t tab_size, call.Integer(0, 8));
  std::string out;
  int64_t column = 0;
  for (const char32_t c : Decode(Self(call))) {
    if (c == '\t') {
      const int64_t blanks = tab_size > 0 ? tab_size - column % tab_size : 0;
      THAW_TRY(call.heap().Check(out.size() + static_cast<uint64_t>(blanks)));
      out.append(static_cast<size_t>(blanks), ' ');
      column += blanks;
    } else {
      AppendUtf8(c, out);
      column = c == '\n' || c == '\r' ? 0 : column + 1;
    }
  }
  return call.heap().MakeString(std::move(out));
}

bool IsAsciiDigit(char32_t c) { return c >= '0' && c <= '9'; }
bool IsAscii(char32_t c) { return c < 0x80; }
// Letters without case (CJK and the like) count as letters from U+00AA on.
bool IsLetter(char32_t c) {
  if (c < 0x80) return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
  return IsCased(c) ||
         (c >= 0x5d0 && !IsSpace(c) && IsPrintable(c) && !(c >= 0x2000 && c < 0x3005) &&
          !(c >= 0x1f000 && c < 0x20000) && !(c >= 0xff00 && c <= 0xff20));
}
bool IsLetterOrDigit(char32_t c) { return IsLetter(c) || IsAsciiDigit(c); }

template <bool (*kPredicate)(char32_t), bool kOfEmpty = false>
Result<Value> All(Call& call) {
  const std::u32string characters = Decode(Self(call));
  if (characters.empty()) return Value(kOfEmpty);
  return Value(std::all_of(characters.begin(), characters.end(), kPredicate));
}

template <bool (*kWanted)(char32_t), bool (*kUnwanted)(char32_t)>
Result<Value> AllCased(Call& call) {
  const std::u32string characters = Decode(Self(call));
  return Value(std::any_of(characters.begin(), characters.end(), kWanted) &&
               std::none_of(characters.begin(), characters.end(), kUnwanted));
}

Result<Value> IsTitle(Call& call) {
  const bool has_case = [&] {
    const std::u32string characters = Decode(Self(call));
    return std::any_of(characters.begin(), characters.end(), IsCased);
  }();
  return Value(has_case && TitleCase(Self(call)) == Self(call));
}

Result<Value> IsIdentifier(Call& call) {
  const std::u32string characters = Decode(Self(call));
  if (characters.empty() || IsAsciiDigit(characters[0])) return Value(false);
  return Value(std::all_of(characters.begin(), characters.end(),
                           [](char32_t c) { return c == '_' || IsLetterOrDigit(c); }));
}

std::string SwapCase(std::string_view text) {
  std::string out;
  for (const char32_t c : Decode(text)) {
    out += IsUpper(c) ? ToLower(EncodeUtf8(c)) : ToUpper(EncodeUtf8(c));
  }
  return out;
}

Result<Value> FormatMethod(Call& call) { return FormatBraces(call.heap(), Self(call), call.all()); }

constexpr std::array<Builtin, 43> kStringMethods = {{
    {"capitalize", "", Mapped<Capitalize>},
    {"casefold", "", Mapped<ToLower>},
    {"center", "width fillchar=", PadMethod<Side::kBoth>},
    {"count", "sub start= end=", CountMethod},
    {"endswith", "suffix start= end=", StartsOrEndsWith<true>},
    {"expandtabs", "tabsize=", ExpandTabs},
    {"find", "sub start= end=", Find<false, false>},
    {"format", "*", FormatMethod},
    {"index", "sub start= end=", Find<false, true>},
    {"isalnum", "", All<IsLetterOrDigit>},
    {"isalpha", "", All<IsLetter>},
    {"isascii", "", All<IsAscii, true>},
    {"isdecimal", "", All<IsAsciiDigit>},
    {"isdigit", "", All<IsAsciiDigit>},
    {"isidentifier", "", IsIdentifier},
    {"islower", "", AllCased<IsLower, IsUpper>},
    {"isnumeric", "", All<IsAsciiDigit>},
    {"isprintable", "", All<IsPrintable, true>},
    {"isspace", "", All<IsSpace>},
    {"istitle", "", IsTitle},
    {"isupper", "", AllCased<IsUpper, IsLower>},
    {"join", "iterable", JoinMethod},
    {"ljust", "width fillchar=", PadMethod<Side::kLeft>},
    {"lower", "", Mapped<ToLower>},
    {"lstrip", "chars=", StripMethod<Side::kLeft>},
    {"partition", "sep", Partition<false>},
    {"removeprefix", "prefix", RemovePrefix},
    {"removesuffix", "suffix", RemoveSuffix},
    {"replace", "old new count=", ReplaceMethod},
    {"rfind", "sub start= end=", Find<true, false>},
    {"rindex", "sub start= end=", Find<true, true>},
    {"rjust", "width fillchar=", PadMethod<Side::kRight>},
    {"rpartition", "sep", Partition<true>},
    {"rsplit", "sep= maxsplit=", SplitMethod<true>},
    {"rstrip", "chars=", StripMethod<Side::kRight>},
    {"split", "sep= maxsplit=", SplitMethod<false>},
    {"splitlines", "keepends=", SplitLinesMethod},
    {"startswith", "prefix start= end=", StartsOrEndsWith<false>},
    {"strip", "chars=", StripMethod<Side::kBoth>},
    {"swapcase", "", Mapped<SwapCase>},
    {"title", "", Mapped<TitleCase>},
    {"upper", "", Mapped<ToUpper>},
    {"zfill", "width", ZeroFill},
}};

}  // namespace

const Builtin* FindStringMethod(std::string_view name) { return FindBuiltin(kStringMethods, name); }

}  // namespace thaw::jinja
