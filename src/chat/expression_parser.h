// Parses the expressions of a template, with the precedence of Jinja:
// conditional, or, and, not, comparisons, + -, ~, * / // %, **, unary, postfix and filters and
// tests.
#pragma once

#include "chat/token_stream.h"

namespace thaw::jinja {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // One expression. Without conditionals where `if` follows with another meaning (in `for`).
  Result<ExpressionPtr> Parse(bool with_conditional = true);
  // An expression, or a tuple where commas follow.
  Result<ExpressionPtr> ParseTuple(bool with_conditional = true);
  // `name(arguments)` and `| name(arguments)` ... applied to the text of the block (kBlockText).
  // Null where there is no filter.
  Result<ExpressionPtr> ParseBlockFilters(bool first_without_pipe);
  // A call, for `call` blocks.
  Result<ExpressionPtr> ParseUnary(bool with_filters = true);

 private:
  Result<ExpressionPtr> Make(Position at, int child_height, decltype(Expression::node) node);

  Result<ExpressionPtr> ParseConditional();
  Result<ExpressionPtr> ParseOr();
  Result<ExpressionPtr> ParseAnd();
  Result<ExpressionPtr> ParseNot();
  Result<ExpressionPtr> ParseComparison();
  Result<ExpressionPtr> ParseSum();
  Result<ExpressionPtr> ParseConcatenation();
  Result<ExpressionPtr> ParseProduct();
  Result<ExpressionPtr> ParsePower();
  Result<ExpressionPtr> ParsePrimary();
  Result<ExpressionPtr> ParseNumber();
  Result<ExpressionPtr> ParseStrings();
  Result<ExpressionPtr> ParseName();
  Result<ExpressionPtr> ParseParenthesized();
  Result<ExpressionPtr> ParseListDisplay();
  Result<ExpressionPtr> ParseDictDisplay();
  Result<ExpressionPtr> ParsePostfix(ExpressionPtr object);
  Result<ExpressionPtr> ParseFiltersAndTests(ExpressionPtr input);
  Result<ExpressionPtr> ParseAttribute(ExpressionPtr object);
  Result<ExpressionPtr> ParseSubscript(ExpressionPtr object);
  Result<ExpressionPtr> ParseFilter(ExpressionPtr input);
  Result<ExpressionPtr> ParseTest(ExpressionPtr input);
  Result<ExpressionPtr> ParseCall(ExpressionPtr callee);
  Result<std::string> ParseDottedName();
  Result<ArgumentList> ParseArguments();
  Result<void> ParseArgument(ArgumentList& arguments);

  TokenStream& tokens_;
};

}  // namespace thaw::jinja
