#include "chat/operators.h"

#include <algorithm>
#include <cmath>
#include <compare>
#include <limits>

#include "chat/format.h"
#include "chat/text.h"

namespace thaw::jinja {
namespace {

constexpr std::string_view kSigns[] = {"+", "-", "*", "/", "//", "%", "**"};

tl::unexpected<Error> FailOverflow() {
  return Fail(ErrorCode::kInvalidArgument, "the result does not fit into 64 bits");
}
tl::unexpected<Error> FailDivision() {
  return Fail(ErrorCode::kInvalidArgument, "division by zero");
}

tl::unexpected<Error> FailOperands(std::string_view sign, const Value& a, const Value& b) {
  if (a.is_undefined()) return FailUndefined(a);
  if (b.is_undefined()) return FailUndefined(b);
  return Fail(ErrorCode::kInvalidArgument, "unsupported operands for {}: '{}' and '{}'", sign,
              a.type_name(), b.type_name());
}

Result<Value> PowerOfIntegers(int64_t base, int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) return FailDivision();
    return Value(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  int64_t result = 1;
  while (exponent > 0) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(result, base, &result)) return FailOverflow();
    exponent >>= 1;
    if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return FailOverflow();
  }
  return Value(result);
}

// Division rounds down and the remainder has the divisor's sign, as in Python.
Result<Value> IntegerArithmetic(BinaryOperator op, int64_t a, int64_t b) {
  int64_t result = 0;
  switch (op) {
    case BinaryOperator::kAdd:
      if (__builtin_add_overflow(a, b, &result)) return FailOverflow();
      return Value(result);
    case BinaryOperator::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) return FailOverflow();
      return Value(result);
    case BinaryOperator::kMultiply:
      if (__builtin_mul_overflow(a, b, &result)) return FailOverflow();
      return Value(result);
    case BinaryOperator::kDivide:
      if (b == 0) return FailDivision();
      return Value(static_cast<double>(a) / static_cast<double>(b));
    case BinaryOperator::kFloorDivide:
      if (b == 0) return FailDivision();
      if (a == std::numeric_limits<int64_t>::min() && b == -1) return FailOverflow();
      return Value(a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0));
    case BinaryOperator::kModulo:
      if (b == 0) return FailDivision();
      if (b == -1) return Value(int64_t{0});
      return Value(a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0));
    case BinaryOperator::kPower:
      return PowerOfIntegers(a, b);
  }
  return FailOverflow();
}

Result<Value> FloatArithmetic(BinaryOperator op, double a, double b) {
  switch (op) {
    case BinaryOperator::kAdd:
      return Value(a + b);
    case BinaryOperator::kSubtract:
      return Value(a - b);
    case BinaryOperator::kMultiply:
      return Value(a * b);
    case BinaryOperator::kDivide:
      if (b == 0) return FailDivision();
      return Value(a / b);
    case BinaryOperator::kFloorDivide:
      if (b == 0) return FailDivision();
      return Value(std::floor(a / b));
    case BinaryOperator::kModulo: {
      if (b == 0) return FailDivision();
      const double remainder = std::fmod(a, b);
      return Value(remainder != 0 && (remainder < 0) != (b < 0) ? remainder + b : remainder);
    }
    case BinaryOperator::kPower: {
      const double power = std::pow(a, b);
      if (std::isinf(power) && !std::isinf(a) && !std::isinf(b)) return FailOverflow();
      return Value(power);
    }
  }
  return FailOverflow();
}

// A string or list, `count` times.
Result<Value> Repeat(Heap& heap, const Value& value, int64_t count) {
  const uint64_t times = static_cast<uint64_t>(std::max<int64_t>(count, 0));
  const uint64_t unit =
      value.is_string() ? value.text().size() : value.list().items().size() * sizeof(Value);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(unit, times, &bytes)) return FailOverflow();
  THAW_TRY(heap.Check(bytes));
  if (value.is_string()) {
    std::string text;
    text.reserve(bytes);
    for (uint64_t i = 0; i < times && unit > 0; ++i) text += value.text();
    return heap.MakeString(std::move(text));
  }
  Values items;
  items.reserve(bytes / sizeof(Value));
  for (uint64_t i = 0; i < times && unit > 0; ++i) {
    items.insert(items.end(), value.list().items().begin(), value.list().items().end());
  }
  return heap.MakeList(std::move(items), value.list().list_kind());
}

bool IsListOrTuple(const Value& value) {
  return value.is_list() && value.list().list_kind() <= ListKind::kTuple;
}

Result<Value> Join(Heap& heap, const Value& a, const Value& b) {
  if (a.is_string()) {
    THAW_TRY(heap.Check(a.text().size() + b.text().size()));
    return heap.MakeString(a.text() + b.text());
  }
  Values items = a.list().items();
  THAW_TRY(heap.Check((items.size() + b.list().items().size()) * sizeof(Value)));
  items.insert(items.end(), b.list().items().begin(), b.list().items().end());
  return heap.MakeList(std::move(items), a.list().list_kind());
}

Result<bool> EqualItems(Heap& heap, const Values& a, const Values& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    THAW_ASSIGN(const bool equal, Equal(heap, a[i], b[i]));
    if (!equal) return false;
  }
  return true;
}

Result<bool> EqualDicts(Heap& heap, const Dict& a, const Dict& b) {
  if (a.entries().size() != b.entries().size()) return false;
  for (const auto& [key, value] : a.entries()) {
    const Value* other = b.Find(key);
    if (other == nullptr) return false;
    THAW_ASSIGN(const bool equal, Equal(heap, value, *other));
    if (!equal) return false;
  }
  return true;
}

std::partial_ordering CompareNumbers(const Number& a, const Number& b) {
  if (!a.is_float && !b.is_float) return a.integer <=> b.integer;
  return static_cast<long double>(a.is_float ? a.real : static_cast<long double>(a.integer)) <=>
         static_cast<long double>(b.is_float ? b.real : static_cast<long double>(b.integer));
}

}  // namespace

tl::unexpected<Error> FailUndefined(const Value& value) {
  return Fail(ErrorCode::kInvalidArgument, "{}", value.why());
}

Result<Value> Apply(Heap& heap, BinaryOperator op, const Value& a, const Value& b) {
  const std::optional<Number> x = AsNumber(a);
  const std::optional<Number> y = AsNumber(b);
  if (x && y) {
    if (x->is_float || y->is_float) return FloatArithmetic(op, x->real, y->real);
    return IntegerArithmetic(op, x->integer, y->integer);
  }
  const bool both_strings = a.is_string() && b.is_string();
  const bool both_lists =
      IsListOrTuple(a) && IsListOrTuple(b) && a.list().list_kind() == b.list().list_kind();
  if (op == BinaryOperator::kAdd && (both_strings || both_lists)) return Join(heap, a, b);
  if (op == BinaryOperator::kMultiply) {
    if ((a.is_string() || IsListOrTuple(a)) && y && !y->is_float)
      return Repeat(heap, a, y->integer);
    if ((b.is_string() || IsListOrTuple(b)) && x && !x->is_float)
      return Repeat(heap, b, x->integer);
  }
  if (op == BinaryOperator::kModulo && a.is_string()) return FormatPercent(heap, a.text(), b);
  return FailOperands(kSigns[static_cast<int>(op)], a, b);
}

Result<Value> Negate(const Value& value) {
  const std::optional<Number> number = AsNumber(value);
  if (!number) {
    if (value.is_undefined()) return FailUndefined(value);
    return Fail(ErrorCode::kInvalidArgument, "'{}' has no negative", value.type_name());
  }
  if (number->is_float) return Value(-number->real);
  return IntegerArithmetic(BinaryOperator::kSubtract, 0, number->integer);
}

Result<bool> Apply(Heap& heap, ComparisonOperator op, const Value& a, const Value& b) {
  switch (op) {
    case ComparisonOperator::kEqual:
      return Equal(heap, a, b);
    case ComparisonOperator::kNotEqual: {
      THAW_ASSIGN(const bool equal, Equal(heap, a, b));
      return !equal;
    }
    case ComparisonOperator::kIn:
      return Contains(heap, b, a);
    case ComparisonOperator::kNotIn: {
      THAW_ASSIGN(const bool found, Contains(heap, b, a));
      return !found;
    }
    default:
      break;
  }
  THAW_ASSIGN(const std::partial_ordering order, Compare(heap, a, b));
  switch (op) {
    case ComparisonOperator::kLess:
      return std::is_lt(order);
    case ComparisonOperator::kLessEqual:
      return std::is_lteq(order);
    case ComparisonOperator::kGreater:
      return std::is_gt(order);
    default:
      return std::is_gteq(order);
  }
}

Result<bool> Equal(Heap& heap, const Value& a, const Value& b) {
  THAW_TRY(heap.Work(1));
  const std::optional<Number> x = AsNumber(a);
  const std::optional<Number> y = AsNumber(b);
  if (x && y) return std::is_eq(CompareNumbers(*x, *y));
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
      if (a.text().size() == b.text().size()) THAW_TRY(heap.Scan(a.text().size()));
      return a.text() == b.text();
    case Kind::kList:
      if (&a.list() == &b.list()) return true;
      if (a.list().list_kind() != b.list().list_kind()) return false;
      return EqualItems(heap, a.list().items(), b.list().items());
    case Kind::kDict:
      return EqualDicts(heap, a.dict(), b.dict());
    case Kind::kFunction:
      return a.function().builtin == b.function().builtin && a.function().self == b.function().self;
    case Kind::kObject:
      return a.object() == b.object();
    default:
      return false;
  }
}

Result<std::partial_ordering> Compare(Heap& heap, const Value& a, const Value& b) {
  THAW_TRY(heap.Work(1));
  const std::optional<Number> x = AsNumber(a);
  const std::optional<Number> y = AsNumber(b);
  if (x && y) return CompareNumbers(*x, *y);
  if (a.is_string() && b.is_string()) {
    THAW_TRY(heap.Scan(std::min(a.text().size(), b.text().size())));
    return std::partial_ordering(a.text() <=> b.text());  // UTF-8 sorts as its code points do
  }
  if (!IsListOrTuple(a) || !IsListOrTuple(b) || a.list().list_kind() != b.list().list_kind()) {
    return FailOperands("an order", a, b);
  }
  const Values& left = a.list().items();
  const Values& right = b.list().items();
  for (size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    THAW_ASSIGN(const bool equal, Equal(heap, left[i], right[i]));
    if (!equal) return Compare(heap, left[i], right[i]);
  }
  return std::partial_ordering(left.size() <=> right.size());
}

Result<bool> Contains(Heap& heap, const Value& container, const Value& item) {
  switch (container.kind()) {
    case Kind::kUndefined:
      return false;
    case Kind::kString:
      if (!item.is_string()) {
        return Fail(ErrorCode::kInvalidArgument, "'in <string>' needs a string, not '{}'",
                    item.type_name());
      }
      THAW_TRY(heap.Scan(container.text().size()));
      return container.text().find(item.text()) != std::string::npos;
    case Kind::kDict:
      if (item.is_list() || item.is_dict()) {
        return Fail(ErrorCode::kInvalidArgument, "unhashable type: '{}'", item.type_name());
      }
      return container.dict().Find(item) != nullptr;
    case Kind::kList:
      for (const Value& candidate : container.list().items()) {
        THAW_ASSIGN(const bool equal, Equal(heap, candidate, item));
        if (equal) return true;
      }
      return false;
    default:
      return Fail(ErrorCode::kInvalidArgument, "argument of type '{}' is not iterable",
                  container.type_name());
  }
}

}  // namespace thaw::jinja
