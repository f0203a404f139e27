#include "chat/filters.h"
#include "chat/globals.h"
#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/value_tests.h"

namespace thaw::jinja {

Result<Value> Interpreter::Evaluate(const Expression& expression) {
  const DepthGuard depth(runtime_.heap);
  THAW_TRY(Locate(expression.at, depth.ok()));
  THAW_TRY(Locate(expression.at, runtime_.heap.Work(1)));
  return std::visit([&](const auto& node) { return Get(expression.at, node); }, expression.node);
}

Result<Value> Interpreter::EvaluateOptional(const ExpressionPtr& expression) {
  if (expression == nullptr) return Value(None{});
  return Evaluate(*expression);
}

Result<Values> Interpreter::EvaluateAll(const Expressions& expressions) {
  Values values;
  values.reserve(expressions.size());
  for (const ExpressionPtr& expression : expressions) {
    THAW_ASSIGN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  return values;
}

Result<Arguments> Interpreter::EvaluateArguments(Position at, const ArgumentList& list) {
  Arguments arguments;
  THAW_ASSIGN(arguments.positional, EvaluateAll(list.positional));
  for (const auto& [name, expression] : list.named) {
    THAW_ASSIGN(Value value, Evaluate(*expression));
    arguments.named.emplace_back(name, std::move(value));
  }
  if (list.more_positional != nullptr) {
    THAW_ASSIGN(const Value more, Evaluate(*list.more_positional));
    THAW_ASSIGN(const auto items, Locate(at, Iterate(runtime_.heap, more)));
    THAW_TRY(Locate(at, runtime_.heap.Claim(items->items().size() * sizeof(Value))));
    arguments.positional.insert(arguments.positional.end(), items->items().begin(),
                                items->items().end());
  }
  if (list.more_named != nullptr) {
    THAW_ASSIGN(const Value more, Evaluate(*list.more_named));
    if (!more.is_dict()) return FailAt(at, "'**' needs a dict, not '{}'", more.type_name());
    for (const auto& [name, value] : more.dict().entries()) {
      if (!name.is_string()) return FailAt(at, "the names of arguments must be strings");
      THAW_TRY(Locate(at, runtime_.heap.Claim(sizeof(Dict::Entry) + name.text().size())));
      arguments.named.emplace_back(name.text(), value);
    }
  }
  return arguments;
}

Result<Value> Interpreter::Get(Position, const Literal& node) { return node.value; }

Result<Value> Interpreter::Get(Position, const Name& node) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->outer.get()) {
    const auto found = scope->variables.find(node.name);
    if (found != scope->variables.end()) return found->second;
  }
  if (const Builtin* global = FindGlobal(node.name)) return Value(Function{global, nullptr});
  return Value(
      Undefined{std::make_shared<const std::string>(fmt::format("'{}' is undefined", node.name))});
}

Result<Value> Interpreter::Get(Position at, const ListDisplay& node) {
  THAW_ASSIGN(Values items, EvaluateAll(node.items));
  return Locate(at, runtime_.heap.MakeList(std::move(items), node.list_kind));
}

Result<Value> Interpreter::Get(Position at, const DictDisplay& node) {
  std::vector<Dict::Entry> entries;
  entries.reserve(node.entries.size());
  for (const auto& [key_expression, value_expression] : node.entries) {
    THAW_ASSIGN(Value key, Evaluate(*key_expression));
    THAW_ASSIGN(Value value, Evaluate(*value_expression));
    entries.emplace_back(std::move(key), std::move(value));
  }
  return Locate(at, runtime_.heap.MakeDict(std::move(entries)));
}

Result<Value> Interpreter::Get(Position at, const Unary& node) {
  THAW_ASSIGN(const Value operand, Evaluate(*node.operand));
  if (node.op == UnaryOperator::kNot) return Value(!operand.Truth());
  THAW_ASSIGN(const Value negative, Locate(at, Negate(operand)));
  if (node.op == UnaryOperator::kMinus) return negative;
  if (operand.kind() == Kind::kBool) return Value(int64_t{operand.boolean()});
  return operand;
}

Result<Value> Interpreter::Get(Position at, const Arithmetic& node) {
  THAW_ASSIGN(Value result, Evaluate(*node.first));
  for (const auto& [op, expression] : node.rest) {
    THAW_ASSIGN(const Value operand, Evaluate(*expression));
    THAW_ASSIGN(result, Locate(at, Apply(runtime_.heap, op, result, operand)));
  }
  return result;
}

Result<Value> Interpreter::Get(Position at, const Comparison& node) {
  THAW_ASSIGN(Value left, Evaluate(*node.first));
  for (const auto& [op, expression] : node.rest) {
    THAW_ASSIGN(Value right, Evaluate(*expression));
    THAW_ASSIGN(const bool holds, Locate(at, Apply(runtime_.heap, op, left, right)));
    if (!holds) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Result<Value> Interpreter::Get(Position, const Logic& node) {
  Value value;
  for (const ExpressionPtr& operand : node.operands) {
    THAW_ASSIGN(value, Evaluate(*operand));
    if (value.Truth() != node.is_and) break;
  }
  return value;
}

Result<Value> Interpreter::Get(Position at, const Concatenation& node) {
  std::string text;
  for (const ExpressionPtr& operand : node.operands) {
    THAW_ASSIGN(const Value value, Evaluate(*operand));
    THAW_TRY(Locate(at, AppendText(runtime_.heap, value, text)));
  }
  return Locate(at, runtime_.heap.MakeString(std::move(text)));
}

Result<Value> Interpreter::Get(Position, const Conditional& node) {
  THAW_ASSIGN(const Value test, Evaluate(*node.test));
  if (test.Truth()) return Evaluate(*node.value);
  if (node.otherwise != nullptr) return Evaluate(*node.otherwise);
  return Value(Undefined{std::make_shared<const std::string>(
      "the inline if-expression evaluated to false and no else section was defined")});
}

Result<Value> Interpreter::Get(Position at, const AttributeAccess& node) {
  THAW_ASSIGN(const Value object, Evaluate(*node.object));
  return Locate(at, GetAttribute(runtime_.heap, object, node.name));
}

Result<Value> Interpreter::Get(Position at, const Subscript& node) {
  THAW_ASSIGN(const Value object, Evaluate(*node.object));
  THAW_ASSIGN(const Value key, Evaluate(*node.key));
  return Locate(at, GetItem(runtime_.heap, object, key));
}

Result<Value> Interpreter::Get(Position at, const SliceAccess& node) {
  THAW_ASSIGN(const Value object, Evaluate(*node.object));
  THAW_ASSIGN(const Value begin, EvaluateOptional(node.begin));
  THAW_ASSIGN(const Value end, EvaluateOptional(node.end));
  THAW_ASSIGN(const Value step, EvaluateOptional(node.step));
  return Locate(at, GetSlice(runtime_.heap, object, begin, end, step));
}

Result<Value> Interpreter::Get(Position at, const CallExpression& node) {
  THAW_ASSIGN(const Value callee, Evaluate(*node.callee));
  THAW_ASSIGN(const Arguments arguments, EvaluateArguments(at, node.arguments));
  return Locate(at, Invoke(runtime_, callee, arguments));
}

Result<Value> Interpreter::Get(Position at, const FilterExpression& node) {
  THAW_ASSIGN(const Value input, Evaluate(*node.input));
  THAW_ASSIGN(const Arguments arguments, EvaluateArguments(at, node.arguments));
  return Locate(at, ApplyFilter(runtime_, node.name, input, arguments));
}

Result<Value> Interpreter::Get(Position at, const TestExpression& node) {
  THAW_ASSIGN(const Value input, Evaluate(*node.input));
  THAW_ASSIGN(const Arguments arguments, EvaluateArguments(at, node.arguments));
  THAW_ASSIGN(const bool passes, Locate(at, ApplyTest(runtime_, node.name, input, arguments)));
  return Value(passes);
}

}  // namespace thaw::jinja
