#include "chat/globals.h"

#include <array>
#include <ctime>

#include "base/utf8.h"
#include "chat/operators.h"
#include "chat/print.h"

namespace thaw::jinja {
namespace {

// Elements of one range(); Jinja's sandbox has the same limit.
constexpr uint64_t kMaxRange = 100'000;

Result<Value> Range(Call& call) {
  THAW_ASSIGN(const int64_t first, call.Integer(0, 0));
  THAW_ASSIGN(const int64_t second, call.Integer(1, 0));
  THAW_ASSIGN(const int64_t step, call.Integer(2, 1));
  const bool from_zero = call.Get(1) == nullptr;
  const int64_t begin = from_zero ? 0 : first;
  const int64_t end = from_zero ? first : second;
  if (step == 0) return call.Fail("the step must not be zero");
  uint64_t count = 0;
  if (step > 0 ? begin < end : begin > end) {
    const uint64_t low = static_cast<uint64_t>(step > 0 ? begin : end);
    const uint64_t high = static_cast<uint64_t>(step > 0 ? end : begin);
    const uint64_t stride =
        step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    count = (high - low - 1) / stride + 1;
  }
  if (count > kMaxRange) return call.Fail("more than {} elements", kMaxRange);
  Values items;
  items.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    items.emplace_back(
        static_cast<int64_t>(static_cast<uint64_t>(begin) + i * static_cast<uint64_t>(step)));
  }
  return call.heap().MakeList(std::move(items), ListKind::kRange);
}

// The entries of dict(mapping or pairs, name=value, ...).
Result<std::vector<Dict::Entry>> Entries(Call& call) {
  std::vector<Dict::Entry> entries;
  if (call.all().positional.size() > 1) return call.Fail("takes at most 1 positional argument");
  for (const Value& source : call.all().positional) {
    if (source.is_dict()) {
      entries = source.dict().entries();
      continue;
    }
    THAW_ASSIGN(const auto pairs, Iterate(call.heap(), source));
    for (const Value& pair : pairs->items()) {
      THAW_ASSIGN(const auto parts, Iterate(call.heap(), pair));
      if (parts->items().size() != 2) return call.Fail("expected pairs");
      entries.emplace_back(parts->items()[0], parts->items()[1]);
    }
  }
  for (const auto& [name, value] : call.all().named) entries.emplace_back(Value(name), value);
  return entries;
}

Result<Value> MakeDict(Call& call) {
  THAW_ASSIGN(std::vector<Dict::Entry> entries, Entries(call));
  return call.heap().MakeDict(std::move(entries));
}

Result<Value> MakeNamespace(Call& call) {
  THAW_ASSIGN(const std::vector<Dict::Entry> entries, Entries(call));
  THAW_ASSIGN(Namespace * made, call.heap().MakeObject<Namespace>());
  for (const auto& [name, value] : entries) {
    if (!name.is_string()) return call.Fail("names must be strings");
    THAW_TRY(call.heap().Claim(sizeof(Dict::Entry) + name.text().size()));
    made->Set(name.text(), value);
  }
  return Value(made);
}

// cycler('odd', 'even'): next() hands out one value after the other, again and again.
class Cycler : public Object {
 public:
  explicit Cycler(Values items) : items_(std::move(items)) {}

  std::string_view type_name() const override { return "Cycler"; }
  std::optional<Value> Attribute(std::string_view name) const override;

  Value Next() {
    const size_t current = position_;
    position_ = (position_ + 1) % items_.size();
    return items_[current];
  }
  void Reset() { position_ = 0; }

 private:
  Values items_;
  size_t position_ = 0;
};

Result<Value> CyclerNext(Call& call) { return static_cast<Cycler*>(call.self().object())->Next(); }
Result<Value> CyclerReset(Call& call) {
  static_cast<Cycler*>(call.self().object())->Reset();
  return Value(None{});
}
constexpr Builtin kCyclerNext{"next", "", CyclerNext};
constexpr Builtin kCyclerReset{"reset", "", CyclerReset};

std::optional<Value> Cycler::Attribute(std::string_view name) const {
  if (name == "current") return items_[position_];
  const Builtin* method = name == "next" ? &kCyclerNext : name == "reset" ? &kCyclerReset : nullptr;
  if (method == nullptr) return std::nullopt;
  return Value(Function{method, std::make_shared<const Value>(const_cast<Cycler*>(this))});
}

Result<Value> MakeCycler(Call& call) {
  const Arguments& all = call.all();
  if (all.positional.empty() || !all.named.empty())
    return call.Fail("needs values to cycle through");
  THAW_TRY(call.heap().Claim(all.positional.size() * sizeof(Value)));
  THAW_ASSIGN(Cycler * made, call.heap().MakeObject<Cycler>(all.positional));
  return Value(made);
}

// joiner(', '): nothing at the first call, the separator at every later one.
class Joiner : public Object {
 public:
  explicit Joiner(Value separator) : separator_(std::move(separator)) {}

  std::string_view type_name() const override { return "Joiner"; }
  bool is_callable() const override { return true; }
  Result<Value> Call(const Arguments&) override {
    if (std::exchange(is_used_, true)) return separator_;
    return Value(std::string());
  }

 private:
  Value separator_;
  bool is_used_ = false;
};

Result<Value> MakeJoiner(Call& call) {
  THAW_ASSIGN(Joiner * made, call.heap().MakeObject<Joiner>(
                                 call.Get(0) == nullptr ? Value(std::string(", ")) : *call.Get(0)));
  return Value(made);
}

Result<Value> RaiseException(Call& call) {
  THAW_ASSIGN(const std::string message, ToText(call.heap(), *call.Get(0)));
  return ::thaw::Fail(ErrorCode::kInvalidArgument, "{}", message);
}

std::tm BrokenDown(std::chrono::local_seconds time) {
  const auto day = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss clock(time - day);
  const auto year_begin = std::chrono::local_days(date.year() / 1 / 1);
  std::tm out{};
  out.tm_year = static_cast<int>(date.year()) - 1900;
  out.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  out.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  out.tm_hour = static_cast<int>(clock.hours().count());
  out.tm_min = static_cast<int>(clock.minutes().count());
  out.tm_sec = static_cast<int>(clock.seconds().count());
  out.tm_wday = static_cast<int>(std::chrono::weekday(day).c_encoding());
  out.tm_yday = static_cast<int>((day - year_begin).count());
  return out;
}

// As Python's strftime of a time without a zone. Letters that it does not know stay as they are.
Result<Value> FormatNow(Call& call) {
  static constexpr std::string_view kLetters = "aAbBcCdDeFgGhHIjklmMnpPrRsStTuUVwWxXyY%";
  THAW_ASSIGN(const std::string_view format, call.Text(0, ""));
  const std::tm now = BrokenDown(call.runtime().now);
  std::string out;
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const bool unpadded = format[i + 1] == '-' && i + 2 < format.size();
    const char letter = format[i + (unpadded ? 2 : 1)];
    i += unpadded ? 2 : 1;
    if (letter == 'f') {
      out += "000000";
    } else if (kLetters.find(letter) != std::string_view::npos) {
      const std::string directive = std::string(unpadded ? "%-" : "%") + letter;
      char buffer[100];  // the longest, %c, takes 24
      out.append(buffer, std::strftime(buffer, sizeof buffer, directive.c_str(), &now));
    } else if (letter != 'z' && letter != 'Z') {
      out += std::string(unpadded ? "%-" : "%") + letter;
    }
  }
  return call.heap().MakeString(std::move(out));
}

constexpr std::array<Builtin, 7> kGlobals = {{
    {"cycler", "*", MakeCycler},
    {"dict", "*", MakeDict},
    {"joiner", "sep=", MakeJoiner},
    {"namespace", "*", MakeNamespace},
    {"raise_exception", "message", RaiseException},
    {"range", "start stop= step=", Range},
    {"strftime_now", "format", FormatNow},
}};

}  // namespace

std::optional<Value> Namespace::Attribute(std::string_view name) const {
  const auto found = attributes_.find(name);
  if (found == attributes_.end()) return std::nullopt;
  return found->second;
}

void Namespace::Set(std::string_view name, Value value) {
  attributes_.insert_or_assign(std::string(name), std::move(value));
}

const Builtin* FindGlobal(std::string_view name) { return FindBuiltin(kGlobals, name); }

}  // namespace thaw::jinja
