#include "chat/value_tests.h"

#include <array>
#include <cmath>

#include "chat/filters.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

template <Kind kKind>
Result<Value> IsKind(Call& call) {
  return Value(call.self().kind() == kKind);
}

Result<Value> IsDefined(Call& call) { return Value(!call.self().is_undefined()); }

template <bool kWanted>
Result<Value> IsBoolean(Call& call) {
  return Value(call.self().kind() == Kind::kBool && call.self().boolean() == kWanted);
}

Result<Value> IsNumber(Call& call) { return Value(AsNumber(call.self()).has_value()); }

// Undefined values can be iterated, counted and called, if only to fail.
Result<Value> IsSequence(Call& call) {
  const Value& value = call.self();
  return Value(value.is_undefined() || value.is_string() || value.is_dict() ||
               (value.is_list() && value.list().is_sequence()));
}
Result<Value> IsIterable(Call& call) {
  const Value& value = call.self();
  return Value(value.is_undefined() || value.is_string() || value.is_dict() || value.is_list());
}
Result<Value> IsCallable(Call& call) {
  const Value& value = call.self();
  return Value(value.is_undefined() || value.kind() == Kind::kFunction ||
               (value.kind() == Kind::kObject && value.object()->is_callable()));
}

template <ComparisonOperator kOperator>
Result<Value> Compares(Call& call) {
  THAW_ASSIGN(const bool result, Apply(call.heap(), kOperator, call.self(), *call.Get(0)));
  return Value(result);
}

Result<Value> IsSame(Call& call) {
  const Value& a = call.self();
  const Value& b = *call.Get(0);
  if (a.kind() != b.kind()) return Value(false);
  if (a.is_list()) return Value(&a.list() == &b.list());
  if (a.is_dict()) return Value(&a.dict() == &b.dict());
  THAW_ASSIGN(const bool equal, Equal(call.heap(), a, b));
  return Value(equal);
}

Result<Value> Remainder(Call& call, const Value& divisor) {
  return Apply(call.heap(), BinaryOperator::kModulo, call.self(), divisor);
}
Result<Value> RemainderIs(Call& call, const Value& divisor, int64_t wanted) {
  if (call.self().is_string()) return call.Fail("expected a number, found 'str'");
  THAW_ASSIGN(const Value remainder, Remainder(call, divisor));
  THAW_ASSIGN(const bool equal, Equal(call.heap(), remainder, Value(wanted)));
  return Value(equal);
}
Result<Value> IsOdd(Call& call) { return RemainderIs(call, Value(int64_t{2}), 1); }
Result<Value> IsEven(Call& call) { return RemainderIs(call, Value(int64_t{2}), 0); }
Result<Value> IsDivisible(Call& call) { return RemainderIs(call, *call.Get(0), 0); }

template <bool (*kWanted)(char32_t), bool (*kUnwanted)(char32_t)>
Result<Value> HasCase(Call& call) {
  THAW_ASSIGN(const std::string text, ToText(call.heap(), call.self()));
  bool found = false;
  for (const char32_t c : Decode(text)) {
    if (kUnwanted(c)) return Value(false);
    found = found || kWanted(c);
  }
  return Value(found);
}

Result<Value> IsFilter(Call& call) {
  return Value(call.self().is_string() && FindFilter(call.self().text()) != nullptr);
}
Result<Value> IsTest(Call& call) {
  return Value(call.self().is_string() && FindTest(call.self().text()) != nullptr);
}
// Escaping is off, so nothing is escaped.
Result<Value> IsEscaped(Call&) { return Value(false); }

using enum ComparisonOperator;
constexpr std::array<Builtin, 39> kTests = {{
    {"!=", "other", Compares<kNotEqual>},
    {"<", "other", Compares<kLess>},
    {"<=", "other", Compares<kLessEqual>},
    {"==", "other", Compares<kEqual>},
    {">", "other", Compares<kGreater>},
    {">=", "other", Compares<kGreaterEqual>},
    {"boolean", "", IsKind<Kind::kBool>},
    {"callable", "", IsCallable},
    {"defined", "", IsDefined},
    {"divisibleby", "num", IsDivisible},
    {"eq", "other", Compares<kEqual>},
    {"equalto", "other", Compares<kEqual>},
    {"escaped", "", IsEscaped},
    {"even", "", IsEven},
    {"false", "", IsBoolean<false>},
    {"filter", "", IsFilter},
    {"float", "", IsKind<Kind::kFloat>},
    {"ge", "other", Compares<kGreaterEqual>},
    {"greaterthan", "other", Compares<kGreater>},
    {"gt", "other", Compares<kGreater>},
    {"in", "seq", Compares<kIn>},
    {"integer", "", IsKind<Kind::kInt>},
    {"iterable", "", IsIterable},
    {"le", "other", Compares<kLessEqual>},
    {"lessthan", "other", Compares<kLess>},
    {"lower", "", HasCase<IsLower, IsUpper>},
    {"lt", "other", Compares<kLess>},
    {"mapping", "", IsKind<Kind::kDict>},
    {"ne", "other", Compares<kNotEqual>},
    {"none", "", IsKind<Kind::kNone>},
    {"number", "", IsNumber},
    {"odd", "", IsOdd},
    {"sameas", "other", IsSame},
    {"sequence", "", IsSequence},
    {"string", "", IsKind<Kind::kString>},
    {"test", "", IsTest},
    {"true", "", IsBoolean<true>},
    {"undefined", "", IsKind<Kind::kUndefined>},
    {"upper", "", HasCase<IsUpper, IsLower>},
}};

}  // namespace

const Builtin* FindTest(std::string_view name) { return FindBuiltin(kTests, name); }

Result<bool> ApplyTest(Runtime& runtime, std::string_view name, const Value& input,
                       const Arguments& arguments) {
  const Builtin* test = FindTest(name);
  if (test == nullptr) return Fail(ErrorCode::kInvalidArgument, "no test named '{}'", name);
  THAW_ASSIGN(const Value passed, Invoke(runtime, *test, input, arguments));
  return passed.boolean();
}

}  // namespace thaw::jinja
