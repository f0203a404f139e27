#include "chat/interpreter.h"

#include <algorithm>

#include "chat/globals.h"
#include "chat/loop.h"
#include "chat/operators.h"
#include "chat/print.h"

namespace thaw::jinja {

// A macro as a value: its definition and the scope that it sees.
class MacroObject : public Object {
 public:
  MacroObject(Interpreter& interpreter, const MacroDefinition& definition,
              Interpreter::ScopePtr scope)
      : interpreter_(interpreter), definition_(definition), scope_(std::move(scope)) {}

  std::string_view type_name() const override { return "Macro"; }
  bool is_callable() const override { return true; }
  std::optional<Value> Attribute(std::string_view name) const override {
    if (name == "name") return Value(definition_.name);
    return std::nullopt;
  }
  Result<Value> Call(const Arguments& arguments) override {
    return interpreter_.CallMacro(definition_, scope_, arguments);
  }

 private:
  Interpreter& interpreter_;
  const MacroDefinition& definition_;
  Interpreter::ScopePtr scope_;
};

Interpreter::ScopeGuard::ScopeGuard(Interpreter& interpreter, ScopePtr outer)
    : interpreter_(interpreter), saved_(interpreter.scope_) {
  interpreter.scope_ = std::make_shared<Scope>();
  interpreter.scope_->outer = outer == nullptr ? saved_ : std::move(outer);
}

Interpreter::Interpreter(const Program& program, const RenderLimits& limits,
                         std::chrono::local_seconds now)
    : program_(program), runtime_{Heap(limits), now}, scope_(std::make_shared<Scope>()) {}

Result<std::string> Interpreter::Run(const Dict& context) {
  for (const auto& [name, value] : context.entries()) {
    if (name.is_string()) scope_->variables.insert_or_assign(name.text(), value);
  }
  std::string out;
  out_ = &out;
  THAW_TRY(Execute(program_.body));
  return out;
}

Result<Interpreter::Flow> Interpreter::Execute(const Body& body) {
  for (const Statement& statement : body) {
    THAW_ASSIGN(const Flow flow, Execute(statement));
    if (flow != Flow::kNext) return flow;
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Execute(const Statement& statement) {
  const DepthGuard depth(runtime_.heap);
  THAW_TRY(Locate(statement.at, depth.ok()));
  THAW_TRY(Locate(statement.at, runtime_.heap.Work(1)));
  return std::visit([&](const auto& node) { return Run(statement, node); }, statement.node);
}

Result<void> Interpreter::Emit(std::string_view text) {
  const uint64_t size = out_->size() + text.size();
  const uint64_t limit = runtime_.heap.limits().output_bytes;
  if (size > limit) {
    return Fail(ErrorCode::kResourceExhausted, "the text is longer than {} bytes", limit);
  }
  THAW_TRY(runtime_.heap.Claim(text.size()));
  *out_ += text;
  return {};
}

Result<Value> Interpreter::Capture(const std::function<Result<void>()>& run) {
  const ScopeGuard scope(*this);
  std::string text;
  std::string* const saved = std::exchange(out_, &text);
  Result<void> done = run();
  out_ = saved;
  if (!done) return Fail(std::move(done).error());
  return runtime_.heap.MakeString(std::move(text));
}

Result<Value> Interpreter::CaptureFiltered(Position at, const Body& body,
                                           const ExpressionPtr& filtered) {
  THAW_ASSIGN(const Value text, Locate(at, Capture([&]() -> Result<void> {
                                         THAW_TRY(Execute(body));
                                         return {};
                                       })));
  if (filtered == nullptr) return text;
  const ScopeGuard scope(*this);
  scope_->variables.emplace(kBlockText, text);
  return Evaluate(*filtered);
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const Text& node) {
  THAW_TRY(Locate(statement.at, Emit(node.text)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const Output& node) {
  THAW_ASSIGN(const Value value, Evaluate(*node.value));
  if (value.is_string()) {
    THAW_TRY(Locate(statement.at, Emit(value.text())));
  } else {
    THAW_ASSIGN(const std::string text, Locate(statement.at, ToText(runtime_.heap, value)));
    THAW_TRY(Locate(statement.at, Emit(text)));
  }
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement&, const If& node) {
  for (const auto& [test, body] : node.branches) {
    THAW_ASSIGN(const Value condition, Evaluate(*test));
    if (condition.Truth()) return Execute(body);
  }
  return Execute(node.otherwise);
}

Result<Interpreter::Flow> Interpreter::Run(const Statement&, const For& node) {
  THAW_ASSIGN(const Value iterable, Evaluate(*node.iterable));
  return RunLoop(node, iterable, 0);
}

// The elements to visit: those that pass the loop's filter, which sees the target but not `loop`.
Result<std::shared_ptr<const List>> Interpreter::LoopItems(const For& node, const Value& iterable) {
  THAW_ASSIGN(auto items, Locate(node.iterable->at, Iterate(runtime_.heap, iterable)));
  if (node.filter == nullptr) return items;
  Values kept;
  for (const Value& item : items->items()) {
    const ScopeGuard scope(*this);
    THAW_TRY(Assign(node.target, item));
    THAW_ASSIGN(const Value passes, Evaluate(*node.filter));
    if (passes.Truth()) kept.push_back(item);
  }
  THAW_ASSIGN(const Value list, Locate(node.filter->at, runtime_.heap.MakeList(std::move(kept))));
  return list.shared_list();
}

Result<Interpreter::Flow> Interpreter::RunLoop(const For& node, const Value& iterable,
                                               int64_t depth) {
  const Position at = node.iterable->at;
  THAW_ASSIGN(const auto items, LoopItems(node, iterable));
  if (items->items().empty()) {
    const ScopeGuard scope(*this);
    return Execute(node.otherwise);
  }
  std::function<Result<Value>(const Value&)> recurse;
  if (node.recursive) {
    recurse = [this, &node, depth, outer = scope_](const Value& inner) {
      const ScopeGuard scope(*this, outer);
      return Capture([&]() -> Result<void> {
        THAW_TRY(RunLoop(node, inner, depth + 1));
        return {};
      });
    };
  }
  THAW_ASSIGN(Loop * loop, Locate(at, runtime_.heap.MakeObject<Loop>(items, depth, recurse)));
  for (size_t i = 0; i < items->items().size(); ++i) {
    THAW_TRY(Locate(at, runtime_.heap.Work(1)));
    loop->set_index(i);
    const ScopeGuard scope(*this);
    THAW_TRY(Assign(node.target, items->items()[i]));
    scope_->variables.insert_or_assign("loop", Value(loop));
    THAW_ASSIGN(const Flow flow, Execute(node.body));
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Result<void> Interpreter::Assign(const Target& target, const Value& value) {
  if (target.is_tuple) {
    THAW_ASSIGN(const auto items, Locate(target.at, Iterate(runtime_.heap, value)));
    if (items->items().size() != target.parts.size()) {
      return FailAt(target.at, "expected {} values to unpack, found {}", target.parts.size(),
                    items->items().size());
    }
    for (size_t i = 0; i < target.parts.size(); ++i) {
      THAW_TRY(Assign(target.parts[i], items->items()[i]));
    }
    return {};
  }
  THAW_TRY(Locate(target.at, runtime_.heap.Claim(sizeof(Dict::Entry) + target.name.size())));
  if (target.attribute.empty()) {
    scope_->variables.insert_or_assign(target.name, value);
    return {};
  }
  THAW_ASSIGN(const Value object, Get(target.at, Name{target.name}));
  auto* const space =
      object.kind() == Kind::kObject ? dynamic_cast<Namespace*>(object.object()) : nullptr;
  if (space == nullptr) {
    return FailAt(target.at, "cannot assign an attribute of '{}', which is no namespace",
                  target.name);
  }
  space->Set(target.attribute, value);
  return {};
}

Result<Interpreter::Flow> Interpreter::Run(const Statement&, const Set& node) {
  THAW_ASSIGN(const Value value, Evaluate(*node.value));
  THAW_TRY(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const SetBlock& node) {
  THAW_ASSIGN(const Value value, CaptureFiltered(statement.at, node.body, node.filtered));
  THAW_TRY(Assign(node.target, value));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const FilterBlock& node) {
  THAW_ASSIGN(const Value value, CaptureFiltered(statement.at, node.body, node.filtered));
  THAW_ASSIGN(const std::string text, Locate(statement.at, ToText(runtime_.heap, value)));
  THAW_TRY(Locate(statement.at, Emit(text)));
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement&, const With& node) {
  // All values are evaluated before the first variable is there.
  Values values;
  for (const auto& [target, expression] : node.variables) {
    THAW_ASSIGN(Value value, Evaluate(*expression));
    values.push_back(std::move(value));
  }
  const ScopeGuard scope(*this);
  for (size_t i = 0; i < values.size(); ++i) {
    THAW_TRY(Assign(node.variables[i].first, values[i]));
  }
  return Execute(node.body);
}

Result<Value> Interpreter::MakeMacro(const MacroDefinition& definition) {
  THAW_ASSIGN(MacroObject * macro,
              runtime_.heap.MakeObject<MacroObject>(*this, definition, scope_));
  return Value(macro);
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const Macro& node) {
  THAW_ASSIGN(const Value macro, Locate(statement.at, MakeMacro(*node.definition)));
  scope_->variables.insert_or_assign(node.definition->name, macro);
  return Flow::kNext;
}

Result<Interpreter::Flow> Interpreter::Run(const Statement& statement, const CallBlock& node) {
  const auto& call = std::get<CallExpression>(node.call->node);
  THAW_ASSIGN(const Value callee, Evaluate(*call.callee));
  THAW_ASSIGN(Arguments arguments, EvaluateArguments(node.call->at, call.arguments));
  THAW_ASSIGN(const Value caller, Locate(statement.at, MakeMacro(*node.caller)));
  arguments.named.emplace_back("caller", caller);
  THAW_ASSIGN(const Value value, Locate(node.call->at, Invoke(runtime_, callee, arguments)));
  THAW_ASSIGN(const std::string text, Locate(statement.at, ToText(runtime_.heap, value)));
  THAW_TRY(Locate(statement.at, Emit(text)));
  return Flow::kNext;
}

Result<Value> Interpreter::CallMacro(const MacroDefinition& definition, const ScopePtr& scope,
                                     const Arguments& arguments) {
  const DepthGuard depth(runtime_.heap);
  THAW_TRY(depth.ok());
  const ScopeGuard guard(*this, scope);
  return Capture([&]() -> Result<void> {
    THAW_TRY(BindParameters(definition, arguments));
    THAW_TRY(Execute(definition.body));
    return {};
  });
}

Result<void> Interpreter::BindParameters(const MacroDefinition& definition,
                                         const Arguments& arguments) {
  const auto& parameters = definition.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const std::string& name = parameters[i].name;
    const auto named = std::find_if(arguments.named.begin(), arguments.named.end(),
                                    [&](const auto& argument) { return argument.first == name; });
    Value value;
    if (i < arguments.positional.size()) {
      value = arguments.positional[i];
      if (named != arguments.named.end()) {
        return Fail(ErrorCode::kInvalidArgument, "macro '{}' got two values for '{}'",
                    definition.name, name);
      }
    } else if (named != arguments.named.end()) {
      value = named->second;
    } else if (parameters[i].fallback != nullptr) {
      THAW_ASSIGN(value, Evaluate(*parameters[i].fallback));
    } else {
      value = Value(Undefined{std::make_shared<const std::string>(
          fmt::format("parameter '{}' was not provided", name))});
    }
    scope_->variables.insert_or_assign(name, std::move(value));
  }
  return BindRest(definition, arguments);
}

// Arguments beyond the parameters: only where the macro names `varargs`, `kwargs` or `caller`.
Result<void> Interpreter::BindRest(const MacroDefinition& definition, const Arguments& arguments) {
  const auto& parameters = definition.parameters;
  const auto is_parameter = [&](const std::string& name) {
    return std::any_of(parameters.begin(), parameters.end(),
                       [&](const auto& parameter) { return parameter.name == name; });
  };
  std::vector<Dict::Entry> named;
  Value caller(Undefined{std::make_shared<const std::string>("no caller defined")});
  for (const auto& [name, value] : arguments.named) {
    if (is_parameter(name)) continue;
    if (name == "caller" && definition.takes_caller) {
      caller = value;
    } else if (definition.takes_named) {
      named.emplace_back(Value(name), value);
    } else {
      return Fail(ErrorCode::kInvalidArgument, "macro '{}' takes no argument '{}'", definition.name,
                  name);
    }
  }
  if (definition.takes_caller && !is_parameter("caller")) {
    scope_->variables.insert_or_assign("caller", caller);
  }
  if (definition.takes_named) {
    THAW_ASSIGN(scope_->variables["kwargs"], runtime_.heap.MakeDict(std::move(named)));
  }
  const size_t used = std::min(parameters.size(), arguments.positional.size());
  if (definition.takes_positional) {
    Values rest(arguments.positional.begin() + static_cast<int64_t>(used),
                arguments.positional.end());
    THAW_ASSIGN(scope_->variables["varargs"],
                runtime_.heap.MakeList(std::move(rest), ListKind::kTuple));
  } else if (arguments.positional.size() > used) {
    return Fail(ErrorCode::kInvalidArgument, "macro '{}' takes no more than {} arguments",
                definition.name, parameters.size());
  }
  return {};
}

}  // namespace thaw::jinja
