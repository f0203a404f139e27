// Runs the program of a template over a context: one Interpreter per rendering, used by one thread.
//
// Scopes hold variables and point outwards, as in Jinja: `for`, macros and the other blocks open
// one, `if` does not; `set` writes to the innermost, names are looked up outwards from there. A
// macro runs in a scope inside of the one that it was defined in. Errors get the position of the
// innermost statement or expression that failed.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "chat/ast.h"
#include "chat/builtin.h"

namespace thaw::jinja {

class Interpreter {
 public:
  // The program must outlive the interpreter.
  Interpreter(const Program& program, const RenderLimits& limits, std::chrono::local_seconds now);

  // The text of the template. `context`: its variables, by string keys.
  Result<std::string> Run(const Dict& context);

 private:
  friend class MacroObject;

  struct Scope {
    std::shared_ptr<Scope> outer;  // null for the context's
    std::map<std::string, Value, std::less<>> variables;
  };
  using ScopePtr = std::shared_ptr<Scope>;
  enum class Flow { kNext, kBreak, kContinue };

  // A scope inside of the current one (or of `outer`) while it lives.
  class ScopeGuard {
   public:
    explicit ScopeGuard(Interpreter& interpreter, ScopePtr outer = nullptr);
    ~ScopeGuard() { interpreter_.scope_ = std::move(saved_); }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;

   private:
    Interpreter& interpreter_;
    ScopePtr saved_;
  };

  // Adds the position to an error that has none yet.
  template <typename T>
  Result<T> Locate(Position at, Result<T> result) {
    if (result || is_located_) return result;
    is_located_ = true;
    return ::thaw::Fail(std::move(result).error().In(FormatPosition(program_.name, at)));
  }
  template <typename... Args>
  tl::unexpected<Error> FailAt(Position at, fmt::format_string<Args...> format, Args&&... args) {
    is_located_ = true;
    return ::thaw::Fail(
        Error{ErrorCode::kInvalidArgument, fmt::format(format, std::forward<Args>(args)...)}.In(
            FormatPosition(program_.name, at)));
  }

  // Statements: interpreter.cc.
  Result<Flow> Execute(const Body& body);
  Result<Flow> Execute(const Statement& statement);
  Result<Flow> Run(const Statement& statement, const Text& node);
  Result<Flow> Run(const Statement& statement, const Output& node);
  Result<Flow> Run(const Statement& statement, const If& node);
  Result<Flow> Run(const Statement& statement, const For& node);
  Result<Flow> Run(const Statement& statement, const Set& node);
  Result<Flow> Run(const Statement& statement, const SetBlock& node);
  Result<Flow> Run(const Statement& statement, const Macro& node);
  Result<Flow> Run(const Statement& statement, const CallBlock& node);
  Result<Flow> Run(const Statement& statement, const FilterBlock& node);
  Result<Flow> Run(const Statement& statement, const With& node);
  Result<Flow> Run(const Statement&, const Break&) { return Flow::kBreak; }
  Result<Flow> Run(const Statement&, const Continue&) { return Flow::kContinue; }

  Result<Flow> RunLoop(const For& node, const Value& iterable, int64_t depth);
  Result<std::shared_ptr<const List>> LoopItems(const For& node, const Value& iterable);
  Result<void> Assign(const Target& target, const Value& value);
  Result<void> Emit(std::string_view text);
  // The text that `run` emits. It runs in a scope of its own.
  Result<Value> Capture(const std::function<Result<void>()>& run);
  // The text of a body, filtered where there are filters.
  Result<Value> CaptureFiltered(Position at, const Body& body, const ExpressionPtr& filtered);
  Result<Value> MakeMacro(const MacroDefinition& definition);
  Result<Value> CallMacro(const MacroDefinition& definition, const ScopePtr& scope,
                          const Arguments& arguments);
  Result<void> BindParameters(const MacroDefinition& definition, const Arguments& arguments);
  Result<void> BindRest(const MacroDefinition& definition, const Arguments& arguments);

  // Expressions: interpreter_expressions.cc.
  Result<Value> Evaluate(const Expression& expression);
  Result<Value> EvaluateOptional(const ExpressionPtr& expression);
  Result<Value> Get(Position at, const Literal& node);
  Result<Value> Get(Position at, const Name& node);
  Result<Value> Get(Position at, const ListDisplay& node);
  Result<Value> Get(Position at, const DictDisplay& node);
  Result<Value> Get(Position at, const Unary& node);
  Result<Value> Get(Position at, const Arithmetic& node);
  Result<Value> Get(Position at, const Comparison& node);
  Result<Value> Get(Position at, const Logic& node);
  Result<Value> Get(Position at, const Concatenation& node);
  Result<Value> Get(Position at, const Conditional& node);
  Result<Value> Get(Position at, const AttributeAccess& node);
  Result<Value> Get(Position at, const Subscript& node);
  Result<Value> Get(Position at, const SliceAccess& node);
  Result<Value> Get(Position at, const CallExpression& node);
  Result<Value> Get(Position at, const FilterExpression& node);
  Result<Value> Get(Position at, const TestExpression& node);
  Result<Values> EvaluateAll(const Expressions& expressions);
  Result<Arguments> EvaluateArguments(Position at, const ArgumentList& list);

  const Program& program_;
  Runtime runtime_;
  ScopePtr scope_;
  std::string* out_ = nullptr;
  bool is_located_ = false;
};

}  // namespace thaw::jinja
