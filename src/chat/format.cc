#include "chat/format.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

// Digits after the point that are worth printing: a double has no more than 1074.
constexpr int kMaxPrecision = 1100;

// How one value is laid out, whichever notation asked for it.
struct Layout {
  char32_t fill = ' ';
  char align = 0;  // '<', '>', '^', '=' (fill after the sign), or 0: by type
  char sign = '-';
  bool alternate = false;
  bool group = false;  // commas between thousands
  int64_t width = 0;
  int precision = -1;
  char type = 0;
};

tl::unexpected<Error> FailFormat(std::string_view what) {
  return Fail(ErrorCode::kInvalidArgument, "format: {}", what);
}

// Reads digits at `position`; fails beyond `limit`.
Result<int64_t> TakeNumber(std::string_view format, size_t& position, int64_t limit) {
  int64_t number = 0;
  for (; position < format.size() && format[position] >= '0' && format[position] <= '9';
       ++position) {
    number = number * 10 + (format[position] - '0');
    if (number > limit) return FailFormat("a number is too large");
  }
  return number;
}

Result<std::string> FormatReal(double value, const Layout& layout) {
  const char type = layout.type == 0 ? 'g' : layout.type;
  const char kind = static_cast<char>(type | 0x20);
  const int precision = layout.precision < 0 ? 6 : layout.precision;
  std::string out;
  if (std::isnan(value) || std::isinf(value)) {
    out = std::isnan(value) ? "nan" : "inf";
  } else {
    // Twice the width of the largest double, and its precision.
    char buffer[2 * 310 + kMaxPrecision];
    const auto style = kind == 'f'   ? std::chars_format::fixed
                       : kind == 'e' ? std::chars_format::scientific
                                     : std::chars_format::general;
    const auto written = std::to_chars(std::begin(buffer), std::end(buffer), std::abs(value), style,
                                       kind == 'g' ? std::max(precision, 1) : precision);
    if (written.ec != std::errc()) return FailFormat("the number is too long");
    out.assign(buffer, written.ptr);
  }
  if (type != kind) {
    std::transform(out.begin(), out.end(), out.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  }
  return out;
}

std::string FormatDigits(uint64_t magnitude, const Layout& layout) {
  const std::string_view prefix = !layout.alternate    ? ""
                                  : layout.type == 'x' ? "0x"
                                  : layout.type == 'X' ? "0X"
                                  : layout.type == 'o' ? "0o"
                                  : layout.type == 'b' ? "0b"
                                                       : "";
  switch (layout.type) {
    case 'x':
      return fmt::format("{}{:x}", prefix, magnitude);
    case 'X':
      return fmt::format("{}{:X}", prefix, magnitude);
    case 'o':
      return fmt::format("{}{:o}", prefix, magnitude);
    case 'b':
      return fmt::format("{}{:b}", prefix, magnitude);
    default:
      return fmt::format("{}", magnitude);
  }
}

void GroupThousands(std::string& digits) {
  const size_t whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  for (size_t i = whole; i > 3; i -= 3) digits.insert(i - 3, ",");
}

// A number without its padding; the sign comes first.
Result<std::string> FormatNumber(const Number& number, const Layout& layout) {
  const bool as_real = number.is_float || std::string_view("eEfFgG%").find(layout.type) < 7;
  std::string digits;
  bool negative = false;
  if (as_real && layout.type != 0) {
    const double real = layout.type == '%' ? number.real * 100 : number.real;
    negative = std::signbit(real);
    Layout style = layout;
    if (layout.type == '%') style.type = 'f';
    THAW_ASSIGN(digits, FormatReal(real, style));
    if (layout.type == '%') digits += '%';
  } else if (number.is_float) {
    negative = std::signbit(number.real);
    if (layout.precision < 0) {
      digits = FormatFloat(std::abs(number.real));
    } else {
      THAW_ASSIGN(digits, FormatReal(number.real, layout));
    }
  } else {
    negative = number.integer < 0;
    const uint64_t bits = static_cast<uint64_t>(number.integer);
    digits = FormatDigits(negative ? 0 - bits : bits, layout);
    const size_t wanted = static_cast<size_t>(std::max(layout.precision, 0));
    if (digits.size() < wanted) digits.insert(0, wanted - digits.size(), '0');
  }
  if (layout.group) GroupThousands(digits);
  if (negative) return "-" + digits;
  return layout.sign == '-' ? digits : std::string(1, layout.sign) + digits;
}

Result<void> AppendPadded(Heap& heap, const std::string& text, const Layout& layout, bool is_number,
                          std::string& out) {
  const int64_t missing =
      std::max<int64_t>(layout.width - static_cast<int64_t>(CountCharacters(text)), 0);
  THAW_TRY(heap.Check(out.size() + text.size() + 4 * static_cast<uint64_t>(missing)));
  const char align = layout.align == 0 ? (is_number ? '>' : '<') : layout.align;
  const int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
  const size_t sign = align == '=' && !text.empty() && std::string_view("+- ").find(text[0]) < 3;
  const std::string fill = EncodeUtf8(layout.fill);
  out += text.substr(0, sign);
  for (int64_t i = 0; i < before; ++i) out += fill;
  out += text.substr(sign);
  for (int64_t i = before; i < missing; ++i) out += fill;
  return {};
}

// One value of a %-format.
Result<void> AppendConverted(Heap& heap, const Value& value, Layout layout, std::string& out) {
  std::string text;
  switch (layout.type) {
    case 's':
    case 'r':
    case 'a':
      if (layout.type == 's') {
        THAW_TRY(AppendText(heap, value, text));
      } else {
        THAW_TRY(AppendRepr(heap, value, text));
      }
      if (layout.precision >= 0) {
        const String whole(std::move(text));
        const size_t kept = std::min<size_t>(layout.precision, whole.length());
        text = whole.text().substr(0, whole.ByteOffset(kept));
      }
      if (layout.align != '<') layout.align = '>';
      return AppendPadded(heap, text, layout, false, out);
    default:
      break;
  }
  std::optional<Number> number = AsNumber(value);
  if (!number) {
    if (value.is_undefined()) return FailUndefined(value);
    return Fail(ErrorCode::kInvalidArgument, "%{} format: a number is required, not {}",
                layout.type, value.type_name());
  }
  const bool to_integer = std::string_view("diuxXo").find(layout.type) != std::string_view::npos;
  if (to_integer && number->is_float) {
    if (layout.type == 'x' || layout.type == 'X' || layout.type == 'o') {
      return FailFormat("an integer is required");
    }
    if (!(std::abs(number->real) < 0x1p63)) return FailFormat("the number is too large");
    number = Number{false, static_cast<int64_t>(number->real), number->real};
  }
  THAW_ASSIGN(text, FormatNumber(*number, layout));
  return AppendPadded(heap, text, layout, true, out);
}

// Hands out the arguments of a %-format one after the other, or by name.
class PercentArguments {
 public:
  explicit PercentArguments(const Value& arguments) : arguments_(arguments) {}

  Result<Value> Named(std::string_view name) {
    by_name_ = true;
    const Value* found = arguments_.is_dict() ? arguments_.dict().Find(name) : nullptr;
    if (found == nullptr) return FailFormat("there is no such named argument");
    return *found;
  }

  Result<Value> Next() {
    const size_t index = used_++;
    if (is_tuple()) {
      if (index < arguments_.list().items().size()) return arguments_.list().items()[index];
    } else if (index == 0) {
      return arguments_;
    }
    return FailFormat("not enough arguments");
  }

  Result<void> CheckAllUsed() const {
    const size_t count = is_tuple() ? arguments_.list().items().size() : 1;
    if (by_name_ || used_ >= count || arguments_.is_dict()) return {};
    return FailFormat("not all arguments are used");
  }

 private:
  bool is_tuple() const {
    return arguments_.is_list() && arguments_.list().list_kind() == ListKind::kTuple;
  }

  const Value& arguments_;
  size_t used_ = 0;
  bool by_name_ = false;
};

// The part of a %-format behind "%" or "%(name)", up to its type.
Result<Layout> ParsePercentLayout(std::string_view format, size_t& position, int64_t max_width) {
  Layout layout;
  for (; position < format.size(); ++position) {
    const char flag = format[position];
    if (flag == '-') {
      layout.align = '<';
    } else if (flag == '0') {
      layout.fill = '0';
    } else if (flag == '+' || (flag == ' ' && layout.sign == '-')) {
      layout.sign = flag;
    } else if (flag == '#') {
      layout.alternate = true;
    } else if (flag != ' ') {
      break;
    }
  }
  if (layout.align == '<') layout.fill = ' ';
  if (layout.fill == '0') layout.align = '=';
  THAW_ASSIGN(layout.width, TakeNumber(format, position, max_width));
  if (position < format.size() && format[position] == '.') {
    ++position;
    THAW_ASSIGN(const int64_t precision, TakeNumber(format, position, kMaxPrecision));
    layout.precision = static_cast<int>(precision);
  }
  if (position >= format.size()) return FailFormat("incomplete format");
  layout.type = format[position++];
  if (std::string_view("sradiuxXoeEfFgG").find(layout.type) == std::string_view::npos) {
    return FailFormat("unsupported format character");
  }
  if (std::string_view("sra").find(layout.type) < 3) layout.fill = ' ';
  return layout;
}

// The part of a {}-format behind ":".
Result<Layout> ParseBraceLayout(std::string_view spec, int64_t max_width) {
  static constexpr std::string_view kAligns = "<>^=";
  Layout layout;
  const std::u32string characters = Decode(spec.substr(0, 8));
  size_t position = 0;
  if (characters.size() > 1 && characters[1] < 128 &&
      kAligns.find(static_cast<char>(characters[1])) != std::string_view::npos) {
    layout.fill = characters[0];
    layout.align = static_cast<char>(characters[1]);
    position = EncodeUtf8(characters[0]).size() + 1;
  } else if (!spec.empty() && kAligns.find(spec[0]) != std::string_view::npos) {
    layout.align = spec[position++];
  }
  const auto take = [&](char wanted) {
    const bool found = position < spec.size() && spec[position] == wanted;
    position += found ? 1 : 0;
    return found;
  };
  if (take('+')) {
    layout.sign = '+';
  } else if (take(' ')) {
    layout.sign = ' ';
  } else {
    take('-');
  }
  layout.alternate = take('#');
  if (take('0') && layout.align == 0) layout.fill = '0', layout.align = '=';
  THAW_ASSIGN(layout.width, TakeNumber(spec, position, max_width));
  layout.group = take(',');
  if (take('.')) {
    THAW_ASSIGN(const int64_t precision, TakeNumber(spec, position, kMaxPrecision));
    layout.precision = static_cast<int>(precision);
  }
  if (position < spec.size()) layout.type = spec[position++];
  if (position < spec.size()) return FailFormat("invalid format specifier");
  return layout;
}

// Looks up "name.attribute[item]..." or "0...." among the arguments.
Result<Value> ResolveField(Heap& heap, std::string_view field, const Arguments& arguments,
                           size_t& next_automatic) {
  const size_t end = std::min(field.find_first_of(".["), field.size());
  const std::string_view head = field.substr(0, end);
  Value value;
  const bool is_index = head.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_index) {
    size_t index = head.empty() ? next_automatic++ : SIZE_MAX;
    if (!head.empty()) std::from_chars(head.data(), head.data() + head.size(), index);
    if (index >= arguments.positional.size()) return FailFormat("not enough arguments");
    value = arguments.positional[index];
  } else {
    const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& named) { return named.first == head; });
    if (found == arguments.named.end()) return FailFormat("there is no such named argument");
    value = found->second;
  }
  for (std::string_view rest = field.substr(end); !rest.empty();) {
    const bool is_item = rest[0] == '[';
    rest.remove_prefix(1);
    const size_t stop = std::min(is_item ? rest.find(']') : rest.find_first_of(".["), rest.size());
    const std::string_view name = rest.substr(0, stop);
    int64_t index = 0;
    const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
    const bool is_number = read.ec == std::errc() && read.ptr == name.data() + name.size();
    const Value key = is_number ? Value(index) : Value(std::string(name));
    THAW_ASSIGN(value, is_item ? GetItem(heap, value, key) : GetAttribute(heap, value, name));
    rest.remove_prefix(is_item ? std::min(stop + 1, rest.size()) : stop);
  }
  return value;
}

Result<void> AppendField(Heap& heap, const Value& value, char conversion, std::string_view spec,
                         std::string& out) {
  THAW_ASSIGN(Layout layout,
              ParseBraceLayout(spec, static_cast<int64_t>(heap.limits().value_bytes)));
  const std::optional<Number> number = AsNumber(value);
  std::string text;
  if (number && conversion == 0 && (value.kind() != Kind::kBool || !spec.empty())) {
    THAW_ASSIGN(text, FormatNumber(*number, layout));
    return AppendPadded(heap, text, layout, true, out);
  }
  if (layout.type != 0 && layout.type != 's') return FailFormat("the format needs a number");
  if (conversion == 'r') {
    THAW_TRY(AppendRepr(heap, value, text));
  } else {
    THAW_TRY(AppendText(heap, value, text));
  }
  if (layout.precision >= 0) {
    const String whole(std::move(text));
    text = whole.text().substr(
        0, whole.ByteOffset(std::min<size_t>(layout.precision, whole.length())));
  }
  return AppendPadded(heap, text, layout, false, out);
}

}  // namespace

Result<Value> FormatPercent(Heap& heap, std::string_view format, const Value& values) {
  PercentArguments arguments(values);
  std::string out;
  for (size_t i = 0; i < format.size();) {
    THAW_TRY(heap.Work(1));
    const size_t percent = std::min(format.find('%', i), format.size());
    out += format.substr(i, percent - i);
    i = percent + 1;
    if (percent == format.size()) break;
    if (i < format.size() && format[i] == '%') {
      out += format[i++];
      continue;
    }
    std::optional<Value> value;
    if (i < format.size() && format[i] == '(') {
      const size_t close = format.find(')', i);
      if (close == std::string_view::npos) return FailFormat("incomplete format key");
      THAW_ASSIGN(value, arguments.Named(format.substr(i + 1, close - i - 1)));
      i = close + 1;
    }
    THAW_ASSIGN(const Layout layout,
                ParsePercentLayout(format, i, static_cast<int64_t>(heap.limits().value_bytes)));
    if (!value) {
      THAW_ASSIGN(value, arguments.Next());
    }
    THAW_TRY(AppendConverted(heap, *value, layout, out));
  }
  THAW_TRY(arguments.CheckAllUsed());
  return heap.MakeString(std::move(out));
}

Result<Value> FormatBraces(Heap& heap, std::string_view format, const Arguments& arguments) {
  std::string out;
  size_t next_automatic = 0;
  for (size_t i = 0; i < format.size();) {
    const char c = format[i++];
    if (c != '{' && c != '}') {
      out += c;
      continue;
    }
    if (i < format.size() && format[i] == c) {
      out += format[i++];
      continue;
    }
    const size_t close = format.find('}', i);
    if (c == '}' || close == std::string_view::npos) return FailFormat("a single brace");
    THAW_TRY(heap.Work(1));
    std::string_view field = format.substr(i, close - i);
    i = close + 1;
    const size_t colon = std::min(field.find(':'), field.size());
    const std::string_view spec = field.substr(std::min(colon + 1, field.size()));
    field = field.substr(0, colon);
    const size_t bang = std::min(field.find('!'), field.size());
    const char conversion = bang + 1 < field.size() ? field[bang + 1] : '\0';
    THAW_ASSIGN(const Value value,
                ResolveField(heap, field.substr(0, bang), arguments, next_automatic));
    THAW_TRY(AppendField(heap, value, conversion, spec, out));
  }
  return heap.MakeString(std::move(out));
}

}  // namespace thaw::jinja
