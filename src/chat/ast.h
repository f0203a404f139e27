// The parsed program of a template: a tree of statements and expressions, immutable after parsing.
//
// Chains of operators of one precedence, of branches and of operands are flat vectors, so only real
// nesting makes the tree deep; the parser bounds that (kMaxNesting), because evaluating and freeing
// the tree recurse.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "chat/lexer.h"
#include "chat/value.h"

namespace thaw::jinja {

// Levels of statements, brackets and postfix operators inside each other. Real templates stay below
// 30; parsing takes some 8 KiB of stack a level with sanitizers on.
inline constexpr int kMaxNesting = 150;

struct Expression;
using ExpressionPtr = std::unique_ptr<const Expression>;
using Expressions = std::vector<ExpressionPtr>;

struct ArgumentList {
  Expressions positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
  ExpressionPtr more_positional;  // *list, may be null
  ExpressionPtr more_named;       // **dict, may be null
};

struct Literal {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  Expressions items;
  ListKind list_kind;  // kList or kTuple
};
struct DictDisplay {
  std::vector<std::pair<ExpressionPtr, ExpressionPtr>> entries;
};

enum class UnaryOperator { kNot, kMinus, kPlus };
struct Unary {
  UnaryOperator op;
  ExpressionPtr operand;
};

enum class BinaryOperator { kAdd, kSubtract, kMultiply, kDivide, kFloorDivide, kModulo, kPower };
// first op operand op operand ..., evaluated from the left.
struct Arithmetic {
  ExpressionPtr first;
  std::vector<std::pair<BinaryOperator, ExpressionPtr>> rest;
};

enum class ComparisonOperator {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};
// a < b < c means a < b and b < c.
struct Comparison {
  ExpressionPtr first;
  std::vector<std::pair<ComparisonOperator, ExpressionPtr>> rest;
};

// Yields the operand that decides, as in Python.
struct Logic {
  bool is_and;
  Expressions operands;
};
struct Concatenation {
  Expressions operands;
};
struct Conditional {
  ExpressionPtr value;
  ExpressionPtr test;
  ExpressionPtr otherwise;  // may be null: undefined
};
struct AttributeAccess {
  ExpressionPtr object;
  std::string name;
};
struct Subscript {
  ExpressionPtr object;
  ExpressionPtr key;
};
struct SliceAccess {
  ExpressionPtr object;
  ExpressionPtr begin, end, step;  // each may be null
};
struct CallExpression {
  ExpressionPtr callee;
  ArgumentList arguments;
};
struct FilterExpression {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};
struct TestExpression {
  ExpressionPtr input;
  std::string name;
  ArgumentList arguments;
};

struct Expression {
  Position at;
  int height;  // levels of expressions below and including this one
  std::variant<Literal, Name, ListDisplay, DictDisplay, Unary, Arithmetic, Comparison, Logic,
               Concatenation, Conditional, AttributeAccess, Subscript, SliceAccess, CallExpression,
               FilterExpression, TestExpression>
      node;
};

struct Statement;
using Body = std::vector<Statement>;

// What `set`, `for` and `with` assign to: a name, an attribute of a namespace, or several targets
// that an iterable is unpacked to.
struct Target {
  Position at;
  std::string name;       // empty where `parts` are
  std::string attribute;  // of the namespace `name`; empty for a plain name
  std::vector<Target> parts;
  bool is_tuple = false;
};

// Inside of a block with filters, the name of the text that the filters work on: no template can
// write a variable without a name.
inline constexpr std::string_view kBlockText = "";

struct Text {
  std::string text;
};
struct Output {
  ExpressionPtr value;
};
struct If {
  std::vector<std::pair<ExpressionPtr, Body>> branches;
  Body otherwise;
};
struct For {
  Target target;
  ExpressionPtr iterable;
  ExpressionPtr filter;  // may be null
  Body body;
  Body otherwise;
  bool recursive;
};
struct Set {
  Target target;
  ExpressionPtr value;
};
struct SetBlock {
  Target target;
  ExpressionPtr filtered;  // of kBlockText; may be null
  Body body;
};
struct MacroDefinition {
  struct Parameter {
    std::string name;
    ExpressionPtr fallback;  // may be null
  };
  std::string name;
  std::vector<Parameter> parameters;
  Body body;
  // Whether the body names `caller`, `varargs`, `kwargs`: only then may the caller pass them.
  bool takes_caller = false;
  bool takes_positional = false;
  bool takes_named = false;
};
struct Macro {
  std::unique_ptr<const MacroDefinition> definition;
};
struct CallBlock {
  ExpressionPtr call;  // a CallExpression
  std::unique_ptr<const MacroDefinition> caller;
};
struct FilterBlock {
  ExpressionPtr filtered;  // of kBlockText
  Body body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPtr>> variables;
  Body body;
};
struct Break {};
struct Continue {};

struct Statement {
  Position at;
  std::variant<Text, Output, If, For, Set, SetBlock, Macro, CallBlock, FilterBlock, With, Break,
               Continue>
      node;
};

struct Program {
  std::string name;  // of the template, for errors
  Body body;
};

}  // namespace thaw::jinja
