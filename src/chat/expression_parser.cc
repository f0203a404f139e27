#include "chat/expression_parser.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace thaw::jinja {
namespace {

int HeightOf(const ExpressionPtr& expression) {
  return expression == nullptr ? 0 : expression->height;
}
int HeightOf(const Expressions& expressions) {
  int height = 0;
  for (const ExpressionPtr& expression : expressions)
    height = std::max(height, HeightOf(expression));
  return height;
}
template <typename First>
int HeightOf(const std::vector<std::pair<First, ExpressionPtr>>& rest) {
  int height = 0;
  for (const auto& [first, expression] : rest) height = std::max(height, HeightOf(expression));
  return height;
}
int HeightOf(const ArgumentList& arguments) {
  return std::max({HeightOf(arguments.positional), HeightOf(arguments.named),
                   HeightOf(arguments.more_positional), HeightOf(arguments.more_named)});
}

template <typename Operator>
using OperatorTable = std::pair<std::string_view, Operator>;

constexpr std::array<OperatorTable<ComparisonOperator>, 6> kComparisons = {{
    {"==", ComparisonOperator::kEqual},
    {"!=", ComparisonOperator::kNotEqual},
    {"<", ComparisonOperator::kLess},
    {"<=", ComparisonOperator::kLessEqual},
    {">", ComparisonOperator::kGreater},
    {">=", ComparisonOperator::kGreaterEqual},
}};
constexpr std::array<OperatorTable<BinaryOperator>, 2> kSums = {{
    {"+", BinaryOperator::kAdd},
    {"-", BinaryOperator::kSubtract},
}};
constexpr std::array<OperatorTable<BinaryOperator>, 4> kProducts = {{
    {"*", BinaryOperator::kMultiply},
    {"/", BinaryOperator::kDivide},
    {"//", BinaryOperator::kFloorDivide},
    {"%", BinaryOperator::kModulo},
}};
constexpr std::array<OperatorTable<BinaryOperator>, 1> kPowers = {{{"**", BinaryOperator::kPower}}};

// Takes one of the operators in `table`, if one stands here.
template <typename Table>
auto TakeOneOf(TokenStream& tokens, const Table& table)
    -> std::optional<std::remove_cv_t<decltype(table[0].second)>> {
  for (const auto& [sign, op] : table) {
    if (tokens.TakeOperator(sign)) return op;
  }
  return std::nullopt;
}

}  // namespace

Result<ExpressionPtr> ExpressionParser::Make(Position at, int child_height,
                                             decltype(Expression::node) node) {
  if (child_height >= kMaxNesting) {
    return tokens_.FailAt(at, "an expression nested more than {} deep", kMaxNesting);
  }
  return std::make_unique<const Expression>(Expression{at, child_height + 1, std::move(node)});
}

Result<ExpressionPtr> ExpressionParser::Parse(bool with_conditional) {
  const NestingGuard nesting(tokens_);
  THAW_TRY(nesting.ok());
  return with_conditional ? ParseConditional() : ParseOr();
}

Result<ExpressionPtr> ExpressionParser::ParseTuple(bool with_conditional) {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, Parse(with_conditional));
  if (!tokens_.IsOperator(",")) return first;
  Expressions items;
  items.push_back(std::move(first));
  while (tokens_.TakeOperator(",")) {
    if (tokens_.Is(TokenKind::kBlockEnd) || tokens_.Is(TokenKind::kVariableEnd) ||
        tokens_.IsOperator(")")) {
      break;
    }
    THAW_ASSIGN(ExpressionPtr item, Parse(with_conditional));
    items.push_back(std::move(item));
  }
  const int height = HeightOf(items);
  return Make(at, height, ListDisplay{std::move(items), ListKind::kTuple});
}

Result<ExpressionPtr> ExpressionParser::ParseConditional() {
  THAW_ASSIGN(ExpressionPtr value, ParseOr());
  while (tokens_.IsWord("if")) {
    const Position at = tokens_.Take().at;
    THAW_ASSIGN(ExpressionPtr test, ParseOr());
    ExpressionPtr otherwise;
    if (tokens_.TakeWord("else")) {
      THAW_ASSIGN(otherwise, Parse());
    }
    const int height = std::max({HeightOf(value), HeightOf(test), HeightOf(otherwise)});
    THAW_ASSIGN(value, Make(at, height,
                            Conditional{std::move(value), std::move(test), std::move(otherwise)}));
  }
  return value;
}

Result<ExpressionPtr> ExpressionParser::ParseOr() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseAnd());
  if (!tokens_.IsWord("or")) return first;
  Expressions operands;
  operands.push_back(std::move(first));
  while (tokens_.TakeWord("or")) {
    THAW_ASSIGN(ExpressionPtr operand, ParseAnd());
    operands.push_back(std::move(operand));
  }
  const int height = HeightOf(operands);
  return Make(at, height, Logic{false, std::move(operands)});
}

Result<ExpressionPtr> ExpressionParser::ParseAnd() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseNot());
  if (!tokens_.IsWord("and")) return first;
  Expressions operands;
  operands.push_back(std::move(first));
  while (tokens_.TakeWord("and")) {
    THAW_ASSIGN(ExpressionPtr operand, ParseNot());
    operands.push_back(std::move(operand));
  }
  const int height = HeightOf(operands);
  return Make(at, height, Logic{true, std::move(operands)});
}

Result<ExpressionPtr> ExpressionParser::ParseNot() {
  const Position at = tokens_.at();
  if (!tokens_.IsWord("not")) return ParseComparison();
  const NestingGuard nesting(tokens_);
  THAW_TRY(nesting.ok());
  tokens_.Take();
  THAW_ASSIGN(ExpressionPtr operand, ParseNot());
  const int height = HeightOf(operand);
  return Make(at, height, Unary{UnaryOperator::kNot, std::move(operand)});
}

Result<ExpressionPtr> ExpressionParser::ParseComparison() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseSum());
  Comparison comparison{std::move(first), {}};
  while (true) {
    std::optional<ComparisonOperator> op = TakeOneOf(tokens_, kComparisons);
    if (!op && tokens_.TakeWord("in")) op = ComparisonOperator::kIn;
    if (!op && tokens_.IsWord("not") && tokens_.next().kind == TokenKind::kName &&
        tokens_.next().text == "in") {
      tokens_.Take();
      tokens_.Take();
      op = ComparisonOperator::kNotIn;
    }
    if (!op) break;
    THAW_ASSIGN(ExpressionPtr operand, ParseSum());
    comparison.rest.emplace_back(*op, std::move(operand));
  }
  if (comparison.rest.empty()) return std::move(comparison.first);
  const int height = std::max(HeightOf(comparison.first), HeightOf(comparison.rest));
  return Make(at, height, std::move(comparison));
}

Result<ExpressionPtr> ExpressionParser::ParseSum() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseConcatenation());
  Arithmetic sum{std::move(first), {}};
  while (const auto op = TakeOneOf(tokens_, kSums)) {
    THAW_ASSIGN(ExpressionPtr operand, ParseConcatenation());
    sum.rest.emplace_back(*op, std::move(operand));
  }
  if (sum.rest.empty()) return std::move(sum.first);
  const int height = std::max(HeightOf(sum.first), HeightOf(sum.rest));
  return Make(at, height, std::move(sum));
}

Result<ExpressionPtr> ExpressionParser::ParseConcatenation() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseProduct());
  if (!tokens_.IsOperator("~")) return first;
  Expressions operands;
  operands.push_back(std::move(first));
  while (tokens_.TakeOperator("~")) {
    THAW_ASSIGN(ExpressionPtr operand, ParseProduct());
    operands.push_back(std::move(operand));
  }
  const int height = HeightOf(operands);
  return Make(at, height, Concatenation{std::move(operands)});
}

Result<ExpressionPtr> ExpressionParser::ParseProduct() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParsePower());
  Arithmetic product{std::move(first), {}};
  while (const auto op = TakeOneOf(tokens_, kProducts)) {
    THAW_ASSIGN(ExpressionPtr operand, ParsePower());
    product.rest.emplace_back(*op, std::move(operand));
  }
  if (product.rest.empty()) return std::move(product.first);
  const int height = std::max(HeightOf(product.first), HeightOf(product.rest));
  return Make(at, height, std::move(product));
}

// Jinja takes powers from the left, unlike Python.
Result<ExpressionPtr> ExpressionParser::ParsePower() {
  const Position at = tokens_.at();
  THAW_ASSIGN(ExpressionPtr first, ParseUnary());
  Arithmetic power{std::move(first), {}};
  while (const auto op = TakeOneOf(tokens_, kPowers)) {
    THAW_ASSIGN(ExpressionPtr operand, ParseUnary());
    power.rest.emplace_back(*op, std::move(operand));
  }
  if (power.rest.empty()) return std::move(power.first);
  const int height = std::max(HeightOf(power.first), HeightOf(power.rest));
  return Make(at, height, std::move(power));
}

Result<ExpressionPtr> ExpressionParser::ParseUnary(bool with_filters) {
  const NestingGuard nesting(tokens_);
  THAW_TRY(nesting.ok());
  const Position at = tokens_.at();
  ExpressionPtr node;
  if (tokens_.IsOperator("-") || tokens_.IsOperator("+")) {
    const bool minus = tokens_.Take().text == "-";
    THAW_ASSIGN(ExpressionPtr operand, ParseUnary(false));
    const int height = HeightOf(operand);
    THAW_ASSIGN(node, Make(at, height,
                           Unary{minus ? UnaryOperator::kMinus : UnaryOperator::kPlus,
                                 std::move(operand)}));
  } else {
    THAW_ASSIGN(node, ParsePrimary());
  }
  THAW_ASSIGN(node, ParsePostfix(std::move(node)));
  if (!with_filters) return node;
  return ParseFiltersAndTests(std::move(node));
}

Result<ExpressionPtr> ExpressionParser::ParsePrimary() {
  switch (tokens_.current().kind) {
    case TokenKind::kName:
      return ParseName();
    case TokenKind::kString:
      return ParseStrings();
    case TokenKind::kInteger:
    case TokenKind::kFloat:
      return ParseNumber();
    default:
      break;
  }
  if (tokens_.IsOperator("(")) return ParseParenthesized();
  if (tokens_.IsOperator("[")) return ParseListDisplay();
  if (tokens_.IsOperator("{")) return ParseDictDisplay();
  return tokens_.Unexpected("an expression");
}

Result<ExpressionPtr> ExpressionParser::ParseName() {
  const Token& token = tokens_.Take();
  const std::string& word = token.text;
  if (word == "true" || word == "True") return Make(token.at, 0, Literal{Value(true)});
  if (word == "false" || word == "False") return Make(token.at, 0, Literal{Value(false)});
  if (word == "none" || word == "None") return Make(token.at, 0, Literal{Value(None{})});
  for (MacroDefinition* macro : tokens_.open_macros()) {
    macro->takes_caller |= word == "caller";
    macro->takes_positional |= word == "varargs";
    macro->takes_named |= word == "kwargs";
  }
  return Make(token.at, 0, Name{word});
}

Result<ExpressionPtr> ExpressionParser::ParseStrings() {
  const Position at = tokens_.at();
  std::string text;
  while (tokens_.Is(TokenKind::kString)) text += tokens_.Take().text;
  return Make(at, 0, Literal{Value(std::move(text))});
}

Result<ExpressionPtr> ExpressionParser::ParseNumber() {
  const Token& token = tokens_.Take();
  std::string_view digits = token.text;
  if (token.kind == TokenKind::kFloat) {
    double value = 0;
    const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (read.ec != std::errc()) return tokens_.FailAt(token.at, "'{}' is out of range", digits);
    return Make(token.at, 0, Literal{Value(value)});
  }
  const char prefix = digits.size() > 2 ? digits[1] : '0';
  const int base = prefix == 'x' ? 16 : prefix == 'o' ? 8 : prefix == 'b' ? 2 : 10;
  if (base != 10) digits.remove_prefix(2);
  if (base == 10 && digits.size() > 1 && digits.find_first_not_of('0') != std::string_view::npos &&
      digits[0] == '0') {
    return tokens_.FailAt(token.at, "a number with leading zeros");
  }
  int64_t value = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
  if (read.ec != std::errc()) return tokens_.FailAt(token.at, "'{}' is out of range", token.text);
  return Make(token.at, 0, Literal{Value(value)});
}

Result<ExpressionPtr> ExpressionParser::ParseParenthesized() {
  const Position at = tokens_.Take().at;
  if (tokens_.TakeOperator(")")) return Make(at, 0, ListDisplay{{}, ListKind::kTuple});
  THAW_ASSIGN(ExpressionPtr inside, ParseTuple());
  THAW_TRY(tokens_.ExpectOperator(")"));
  return inside;
}

Result<ExpressionPtr> ExpressionParser::ParseListDisplay() {
  const Position at = tokens_.Take().at;
  Expressions items;
  while (!tokens_.IsOperator("]")) {
    if (!items.empty()) THAW_TRY(tokens_.ExpectOperator(","));
    if (tokens_.IsOperator("]")) break;
    THAW_ASSIGN(ExpressionPtr item, Parse());
    items.push_back(std::move(item));
  }
  tokens_.Take();
  const int height = HeightOf(items);
  return Make(at, height, ListDisplay{std::move(items), ListKind::kList});
}

Result<ExpressionPtr> ExpressionParser::ParseDictDisplay() {
  const Position at = tokens_.Take().at;
  DictDisplay dict;
  int height = 0;
  while (!tokens_.IsOperator("}")) {
    if (!dict.entries.empty()) THAW_TRY(tokens_.ExpectOperator(","));
    if (tokens_.IsOperator("}")) break;
    THAW_ASSIGN(ExpressionPtr key, Parse());
    THAW_TRY(tokens_.ExpectOperator(":"));
    THAW_ASSIGN(ExpressionPtr value, Parse());
    height = std::max({height, HeightOf(key), HeightOf(value)});
    dict.entries.emplace_back(std::move(key), std::move(value));
  }
  tokens_.Take();
  return Make(at, height, std::move(dict));
}

Result<ExpressionPtr> ExpressionParser::ParsePostfix(ExpressionPtr object) {
  while (true) {
    if (tokens_.IsOperator(".")) {
      THAW_ASSIGN(object, ParseAttribute(std::move(object)));
    } else if (tokens_.IsOperator("[")) {
      THAW_ASSIGN(object, ParseSubscript(std::move(object)));
    } else if (tokens_.IsOperator("(")) {
      THAW_ASSIGN(object, ParseCall(std::move(object)));
    } else {
      return object;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseFiltersAndTests(ExpressionPtr input) {
  while (true) {
    if (tokens_.TakeOperator("|")) {
      THAW_ASSIGN(input, ParseFilter(std::move(input)));
    } else if (tokens_.TakeWord("is")) {
      THAW_ASSIGN(input, ParseTest(std::move(input)));
    } else if (tokens_.IsOperator("(")) {
      THAW_ASSIGN(input, ParseCall(std::move(input)));
    } else {
      return input;
    }
  }
}

Result<ExpressionPtr> ExpressionParser::ParseAttribute(ExpressionPtr object) {
  const Position at = tokens_.Take().at;
  const int height = HeightOf(object);
  if (tokens_.Is(TokenKind::kName)) {
    return Make(at, height, AttributeAccess{std::move(object), tokens_.Take().text});
  }
  if (!tokens_.Is(TokenKind::kInteger)) return tokens_.Unexpected("a name or number");
  THAW_ASSIGN(ExpressionPtr key, ParseNumber());
  return Make(at, height, Subscript{std::move(object), std::move(key)});
}

Result<ExpressionPtr> ExpressionParser::ParseSubscript(ExpressionPtr object) {
  const Position at = tokens_.Take().at;
  ExpressionPtr begin, end, step;
  if (!tokens_.IsOperator(":")) {
    THAW_ASSIGN(begin, Parse());
    if (tokens_.TakeOperator("]")) {
      const int height = std::max(HeightOf(object), HeightOf(begin));
      return Make(at, height, Subscript{std::move(object), std::move(begin)});
    }
  }
  THAW_TRY(tokens_.ExpectOperator(":"));
  if (!tokens_.IsOperator(":") && !tokens_.IsOperator("]")) {
    THAW_ASSIGN(end, Parse());
  }
  if (tokens_.TakeOperator(":") && !tokens_.IsOperator("]")) {
    THAW_ASSIGN(step, Parse());
  }
  THAW_TRY(tokens_.ExpectOperator("]"));
  const int height = std::max({HeightOf(object), HeightOf(begin), HeightOf(end), HeightOf(step)});
  return Make(at, height,
              SliceAccess{std::move(object), std::move(begin), std::move(end), std::move(step)});
}

Result<std::string> ExpressionParser::ParseDottedName() {
  THAW_ASSIGN(std::string name, tokens_.ExpectName());
  while (tokens_.TakeOperator(".")) {
    THAW_ASSIGN(const std::string part, tokens_.ExpectName());
    name += "." + part;
  }
  return name;
}

Result<ExpressionPtr> ExpressionParser::ParseFilter(ExpressionPtr input) {
  const Position at = tokens_.at();
  FilterExpression filter{std::move(input), {}, {}};
  THAW_ASSIGN(filter.name, ParseDottedName());
  if (tokens_.IsOperator("(")) {
    THAW_ASSIGN(filter.arguments, ParseArguments());
  }
  const int height = std::max(HeightOf(filter.input), HeightOf(filter.arguments));
  return Make(at, height, std::move(filter));
}

Result<ExpressionPtr> ExpressionParser::ParseBlockFilters(bool first_without_pipe) {
  ExpressionPtr filtered;
  while (first_without_pipe || tokens_.TakeOperator("|")) {
    first_without_pipe = false;
    if (filtered == nullptr) {
      THAW_ASSIGN(filtered, Make(tokens_.at(), 0, Name{std::string(kBlockText)}));
    }
    THAW_ASSIGN(filtered, ParseFilter(std::move(filtered)));
  }
  return filtered;
}

Result<ExpressionPtr> ExpressionParser::ParseTest(ExpressionPtr input) {
  const Position at = tokens_.at();
  const bool negated = tokens_.TakeWord("not");
  TestExpression test{std::move(input), {}, {}};
  THAW_ASSIGN(test.name, ParseDottedName());
  if (tokens_.IsWord("is")) return tokens_.FailAt(at, "tests cannot be chained with 'is'");
  const TokenKind kind = tokens_.current().kind;
  const bool is_operator_word =
      tokens_.IsWord("else") || tokens_.IsWord("or") || tokens_.IsWord("and");
  if (tokens_.IsOperator("(")) {
    THAW_ASSIGN(test.arguments, ParseArguments());
  } else if ((kind == TokenKind::kName && !is_operator_word) || kind == TokenKind::kString ||
             kind == TokenKind::kInteger || kind == TokenKind::kFloat || tokens_.IsOperator("[") ||
             tokens_.IsOperator("{")) {
    THAW_ASSIGN(ExpressionPtr argument, ParsePrimary());
    THAW_ASSIGN(argument, ParsePostfix(std::move(argument)));
    test.arguments.positional.push_back(std::move(argument));
  }
  const int height = std::max(HeightOf(test.input), HeightOf(test.arguments));
  THAW_ASSIGN(ExpressionPtr node, Make(at, height, std::move(test)));
  if (!negated) return node;
  return Make(at, height + 1, Unary{UnaryOperator::kNot, std::move(node)});
}

Result<ExpressionPtr> ExpressionParser::ParseCall(ExpressionPtr callee) {
  const Position at = tokens_.at();
  CallExpression call{std::move(callee), {}};
  THAW_ASSIGN(call.arguments, ParseArguments());
  const int height = std::max(HeightOf(call.callee), HeightOf(call.arguments));
  return Make(at, height, std::move(call));
}

Result<ArgumentList> ExpressionParser::ParseArguments() {
  THAW_TRY(tokens_.ExpectOperator("("));
  ArgumentList arguments;
  bool is_first = true;
  while (!tokens_.IsOperator(")")) {
    if (!is_first) THAW_TRY(tokens_.ExpectOperator(","));
    if (!is_first && tokens_.IsOperator(")")) break;
    is_first = false;
    THAW_TRY(ParseArgument(arguments));
  }
  tokens_.Take();
  return arguments;
}

Result<void> ExpressionParser::ParseArgument(ArgumentList& arguments) {
  const Position at = tokens_.at();
  if (tokens_.IsOperator("*") || tokens_.IsOperator("**")) {
    const bool is_named = tokens_.Take().text == "**";
    ExpressionPtr& more = is_named ? arguments.more_named : arguments.more_positional;
    if (more != nullptr) return tokens_.FailAt(at, "more than one of '*' or of '**'");
    THAW_ASSIGN(more, Parse());
    return {};
  }
  if (tokens_.Is(TokenKind::kName) && tokens_.next().kind == TokenKind::kOperator &&
      tokens_.next().text == "=") {
    std::string name = tokens_.Take().text;
    tokens_.Take();
    THAW_ASSIGN(ExpressionPtr value, Parse());
    arguments.named.emplace_back(std::move(name), std::move(value));
    return {};
  }
  if (!arguments.named.empty() || arguments.more_named != nullptr) {
    return tokens_.FailAt(at, "a positional argument after a named one");
  }
  THAW_ASSIGN(ExpressionPtr value, Parse());
  arguments.positional.push_back(std::move(value));
  return {};
}

}  // namespace thaw::jinja
