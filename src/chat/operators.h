// What the operators of expressions do to values, with Python's rules.
//
// Errors have no position; the evaluator adds it. kInvalidArgument stands for Python's TypeError,
// ValueError and their like.
#pragma once

#include <compare>
#include <optional>
#include <string_view>

#include "chat/ast.h"
#include "chat/heap.h"

namespace thaw::jinja {

Result<Value> Apply(Heap& heap, BinaryOperator op, const Value& a, const Value& b);
Result<Value> Negate(const Value& value);
Result<bool> Apply(Heap& heap, ComparisonOperator op, const Value& a, const Value& b);

Result<bool> Equal(Heap& heap, const Value& a, const Value& b);
// Order of numbers, strings and lists; unordered where a number is not one; fails for other types.
Result<std::partial_ordering> Compare(Heap& heap, const Value& a, const Value& b);
// `item in container`.
Result<bool> Contains(Heap& heap, const Value& container, const Value& item);

// The elements that a loop visits: of a dict its keys, of a string its characters, of an undefined
// value none.
Result<std::shared_ptr<const List>> Iterate(Heap& heap, const Value& value);
// len(); nothing where the value has none.
std::optional<int64_t> Length(const Value& value);

// value.name and value[key]. A missing one is undefined. For `.` methods come first, for `[]`
// items.
Result<Value> GetAttribute(Heap& heap, const Value& value, std::string_view name);
Result<Value> GetItem(Heap& heap, const Value& value, const Value& key);
// value[begin:end:step]; each None or undefined where it is left out.
Result<Value> GetSlice(Heap& heap, const Value& value, const Value& begin, const Value& end,
                       const Value& step);

// The error of using an undefined value where one is needed.
tl::unexpected<Error> FailUndefined(const Value& value);

}  // namespace thaw::jinja
