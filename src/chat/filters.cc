#include "chat/filters.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

Result<Value> Default(Call& call) {
  const bool replaced = call.self().is_undefined() || (call.Flag(1, false) && !call.self().Truth());
  if (!replaced) return call.self();
  return call.Get(0) == nullptr ? Value(std::string()) : *call.Get(0);
}

// Python's int(text, base) and float(text) allow blanks around and underscores between digits.
std::optional<std::string> NumberText(std::string_view text) {
  text = Strip(text, Side::kBoth);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
      continue;
    }
    const auto is_alphanumeric = [&](size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (i == 0 || !is_alphanumeric(i - 1) || !is_alphanumeric(i + 1)) return std::nullopt;
  }
  return out;
}

std::optional<int64_t> ParseInteger(std::string_view text, int base) {
  const std::optional<std::string> number = NumberText(text);
  if (!number) return std::nullopt;
  std::string_view digits = *number;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  static constexpr std::pair<std::string_view, int> kPrefixes[] = {
      {"0x", 16}, {"0X", 16}, {"0o", 8}, {"0O", 8}, {"0b", 2}, {"0B", 2}};
  for (const auto& [prefix, prefix_base] : kPrefixes) {
    if (prefix_base == base && digits.starts_with(prefix)) digits.remove_prefix(2);
  }
  if (digits.starts_with('-') || digits.empty()) return std::nullopt;
  const std::string signed_digits = (negative ? "-" : "") + std::string(digits);
  int64_t value = 0;
  const char* end = signed_digits.data() + signed_digits.size();
  const auto read = std::from_chars(signed_digits.data(), end, value, base);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return value;
}

std::optional<double> ParseReal(std::string_view text) {
  const std::optional<std::string> number = NumberText(text);
  if (!number) return std::nullopt;
  std::string_view digits = *number;
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  double value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size()) return std::nullopt;
  return value;
}

std::optional<int64_t> Truncate(double value) {
  if (!(std::abs(value) < 0x1p63)) return std::nullopt;
  return static_cast<int64_t>(value);
}

Result<Value> ToInteger(Call& call) {
  if (call.self().is_undefined()) return FailUndefined(call.self());
  const Value fallback = call.Get(0) == nullptr ? Value(int64_t{0}) : *call.Get(0);
  std::optional<int64_t> result;
  if (call.self().is_string()) {
    THAW_ASSIGN(const int64_t base, call.Integer(1, 10));
    if (base < 2 || base > 36) return fallback;
    result = ParseInteger(call.self().text(), static_cast<int>(base));
    if (!result) {
      const std::optional<double> real = ParseReal(call.self().text());
      if (real) result = Truncate(*real);
    }
  } else if (const std::optional<Number> number = AsNumber(call.self())) {
    result = number->is_float ? Truncate(number->real) : number->integer;
  }
  return result ? Value(*result) : fallback;
}

Result<Value> ToReal(Call& call) {
  if (call.self().is_undefined()) return FailUndefined(call.self());
  std::optional<double> result;
  if (call.self().is_string()) {
    result = ParseReal(call.self().text());
  } else if (const std::optional<Number> number = AsNumber(call.self())) {
    result = number->real;
  }
  if (result) return Value(*result);
  return call.Get(0) == nullptr ? Value(0.0) : *call.Get(0);
}

Result<Value> ToString(Call& call) {
  if (call.self().is_string()) return call.self();
  THAW_ASSIGN(std::string text, ToText(call.heap(), call.self()));
  return call.heap().MakeString(std::move(text));
}

Result<Number> NeedNumber(const Call& call) {
  if (const std::optional<Number> number = AsNumber(call.self())) return *number;
  if (call.self().is_undefined()) return FailUndefined(call.self());
  return call.Fail("expected a number, found '{}'", call.self().type_name());
}

Result<Value> Absolute(Call& call) {
  THAW_ASSIGN(const Number number, NeedNumber(call));
  if (number.is_float) return Value(std::abs(number.real));
  return number.integer < 0 ? Negate(Value(number.integer)) : Value(number.integer);
}

// To `precision` decimals. Python rounds the exact decimal value, half to even; printing does too.
double RoundDecimals(double value, int precision) {
  if (precision < 0) {
    const double scale = std::pow(10.0, -precision);
    return std::nearbyint(value / scale) * scale;
  }
  char buffer[400];
  const auto written = std::to_chars(std::begin(buffer), std::end(buffer), value,
                                     std::chars_format::fixed, precision);
  double rounded = value;
  if (written.ec == std::errc()) std::from_chars(buffer, written.ptr, rounded);
  return rounded;
}

Result<Value> Round(Call& call) {
  // Beyond these no digit of a double is left to round.
  static constexpr int64_t kMostDecimals = 30;
  THAW_ASSIGN(const Number number, NeedNumber(call));
  THAW_ASSIGN(int64_t precision, call.Integer(0, 0));
  THAW_ASSIGN(const std::string_view method, call.Text(1, "common"));
  precision = std::clamp(precision, -kMostDecimals, kMostDecimals);
  if (method == "common") {
    // Integers stay integers, rounded to tens where the precision is negative.
    if (number.is_float) return Value(RoundDecimals(number.real, static_cast<int>(precision)));
    if (precision >= 0) return Value(number.integer);
    const double rounded = RoundDecimals(number.real, static_cast<int>(precision));
    const std::optional<int64_t> integer = Truncate(rounded);
    return integer ? Value(*integer) : Value(rounded);
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value(std::ceil(number.real * scale) / scale);
  if (method == "floor") return Value(std::floor(number.real * scale) / scale);
  return call.Fail("the method must be common, ceil or floor");
}

Result<Value> LengthFilter(Call& call) {
  if (const std::optional<int64_t> length = Length(call.self())) return Value(*length);
  return call.Fail("'{}' has no length", call.self().type_name());
}

Result<Value> ToJson(Call& call) {
  JsonStyle style;
  style.ascii_only = call.Flag(0, false);
  if (call.Get(1) != nullptr && call.Get(1)->is_string()) {
    style.indent_text = call.Get(1)->text();
    style.indent = 0;
  } else {
    THAW_ASSIGN(const int64_t indent, call.Integer(1, -1));
    THAW_TRY(call.heap().Check(static_cast<uint64_t>(std::max<int64_t>(indent, 0))));
    if (indent > 1000) return call.Fail("an indent of {}", indent);
    style.indent = static_cast<int>(std::max<int64_t>(indent, -1));
    if (call.Get(1) != nullptr && !call.Get(1)->is_none()) style.indent = std::max(style.indent, 0);
  }
  if (style.indent >= 0) style.item_separator = ",";
  if (call.Get(2) != nullptr && !call.Get(2)->is_none()) {
    THAW_ASSIGN(const auto separators, Iterate(call.heap(), *call.Get(2)));
    const Values& pair = separators->items();
    if (pair.size() != 2 || !pair[0].is_string() || !pair[1].is_string()) {
      return call.Fail("separators must be two strings");
    }
    style.item_separator = pair[0].text();
    style.key_separator = pair[1].text();
  }
  style.sort_keys = call.Flag(3, false);
  std::string out;
  THAW_TRY(AppendJson(call.heap(), call.self(), style, out));
  return call.heap().MakeString(std::move(out));
}

Result<Value> Attribute(Call& call) {
  THAW_ASSIGN(const std::string_view name, call.Text(0, ""));
  if (call.self().is_undefined()) return FailUndefined(call.self());
  // Attributes only: what `[]` finds in a dict does not count.
  if (!call.self().is_dict()) return GetAttribute(call.heap(), call.self(), name);
  THAW_ASSIGN(const Value found, GetAttribute(call.heap(), call.self(), name));
  return found.kind() == Kind::kFunction && found.function().self != nullptr ? found : Value();
}

Result<Value> FileSize(Call& call) {
  static constexpr std::string_view kPrefixes = "kMGTPEZY";
  const bool binary = call.Flag(0, false);
  Arguments none;
  THAW_ASSIGN(const Value real, ApplyFilter(call.runtime(), "float", call.self(), none));
  if (real.kind() != Kind::kFloat) return call.Fail("expected a number");
  const double bytes = real.real();
  const double base = binary ? 1024 : 1000;
  if (bytes == 1) return call.heap().MakeString("1 Byte");
  if (bytes < base) {
    return call.heap().MakeString(fmt::format("{} Bytes", std::trunc(bytes)));
  }
  double unit = base;
  for (const char prefix : kPrefixes) {
    unit *= base;
    if (bytes < unit || prefix == kPrefixes.back()) {
      return call.heap().MakeString(fmt::format("{:.1f} {}{}", base * bytes / unit,
                                                binary && prefix == 'k' ? 'K' : prefix,
                                                binary ? "iB" : "B"));
    }
  }
  return call.Fail("expected a number");
}

constexpr std::array<Builtin, 13> kScalarFilters = {{
    {"abs", "", Absolute},
    {"attr", "name", Attribute},
    {"count", "", LengthFilter},
    {"d", "default_value= boolean=", Default},
    {"default", "default_value= boolean=", Default},
    {"filesizeformat", "binary=", FileSize},
    {"float", "default=", ToReal},
    {"int", "default= base=", ToInteger},
    {"length", "", LengthFilter},
    {"pprint", "", ToString},
    {"round", "precision= method=", Round},
    {"string", "", ToString},
    {"tojson", "ensure_ascii= indent= separators= sort_keys=", ToJson},
}};

}  // namespace

const Builtin* FindFilter(std::string_view name) {
  if (const Builtin* filter = FindBuiltin(kScalarFilters, name)) return filter;
  if (const Builtin* filter = FindTextFilter(name)) return filter;
  return FindSequenceFilter(name);
}

Result<Value> ApplyFilter(Runtime& runtime, std::string_view name, const Value& input,
                          const Arguments& arguments) {
  const Builtin* filter = FindFilter(name);
  if (filter == nullptr) return Fail(ErrorCode::kInvalidArgument, "no filter named '{}'", name);
  return Invoke(runtime, *filter, input, arguments);
}

}  // namespace thaw::jinja
