#include "chat/parser.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/utf8.h"
#include "chat/expression_parser.h"

namespace thaw::jinja {
namespace {

using Words = std::span<const std::string_view>;

class StatementParser {
 public:
  explicit StatementParser(TokenStream& tokens) : tokens_(tokens), expressions_(tokens) {}

  Result<Body> ParseTemplateBody() {
    THAW_ASSIGN(Body body, ParseUntil({}));
    return body;
  }

 private:
  using Node = decltype(Statement::node);

  // Statements up to a block that begins with one of `ends` (or, where there are none, up to the
  // end of the template). The word is left to be read, its "{%" is taken.
  Result<Body> ParseUntil(Words ends) {
    const NestingGuard nesting(tokens_);
    THAW_TRY(nesting.ok());
    Body body;
    while (!tokens_.Is(TokenKind::kEnd)) {
      const Position at = tokens_.at();
      if (tokens_.Is(TokenKind::kText)) {
        body.push_back({at, Text{tokens_.Take().text}});
        continue;
      }
      if (tokens_.Take().kind == TokenKind::kVariableBegin) {
        THAW_ASSIGN(ExpressionPtr value, expressions_.ParseTuple());
        if (!tokens_.Is(TokenKind::kVariableEnd)) return tokens_.Unexpected("'}}'");
        tokens_.Take();
        body.push_back({at, Output{std::move(value)}});
        continue;
      }
      if (!tokens_.Is(TokenKind::kName)) return tokens_.Unexpected("the name of a block");
      if (std::find(ends.begin(), ends.end(), tokens_.current().text) != ends.end()) return body;
      THAW_ASSIGN(Node node, ParseBlock(at));
      body.push_back({at, std::move(node)});
    }
    if (!ends.empty()) return tokens_.Unexpected(fmt::format("'{}'", ends.back()));
    return body;
  }

  // As ParseUntil with one possible end, which is taken with the end of its block.
  Result<Body> ParseBodyTo(std::string_view end) {
    THAW_TRY(tokens_.ExpectBlockEnd());
    THAW_ASSIGN(Body body, ParseUntil(std::array{end}));
    tokens_.Take();
    THAW_TRY(tokens_.ExpectBlockEnd());
    return body;
  }

  Result<Node> ParseBlock(Position at) {
    const std::string word = tokens_.Take().text;
    if (word == "if") return ParseIf();
    if (word == "set") return ParseSet();
    if (word == "break" || word == "continue") return ParseLoopControl(at, word);
    if (word == "print") return ParsePrint();
    if (word == "for") return ParseFor();
    if (word == "macro") return ParseMacro();
    if (word == "call") return ParseCallBlock();
    if (word == "filter") return ParseFilterBlock();
    if (word == "with") return ParseWith();
    if (word == "generation") {
      const int loops = std::exchange(loop_depth_, 0);
      THAW_ASSIGN(Body body, ParseBodyTo("endgeneration"));
      loop_depth_ = loops;
      return With{{}, std::move(body)};
    }
    static constexpr std::array<std::string_view, 5> kOfFiles = {"extends", "block", "include",
                                                                 "import", "from"};
    if (std::find(kOfFiles.begin(), kOfFiles.end(), word) != kOfFiles.end()) {
      return tokens_.FailAt(at, "'{}' is not supported: chat templates stand alone", word);
    }
    return tokens_.FailAt(at, "unknown block '{}'", word);
  }

  Result<Node> ParseIf() {
    static constexpr std::array<std::string_view, 3> kEnds = {"elif", "else", "endif"};
    If statement;
    std::string word = "if";
    while (word == "if" || word == "elif") {
      THAW_ASSIGN(ExpressionPtr test, expressions_.ParseTuple(false));
      THAW_TRY(tokens_.ExpectBlockEnd());
      THAW_ASSIGN(Body body, ParseUntil(kEnds));
      statement.branches.emplace_back(std::move(test), std::move(body));
      word = tokens_.Take().text;
    }
    if (word == "else") {
      THAW_ASSIGN(statement.otherwise, ParseBodyTo("endif"));
    } else {
      THAW_TRY(tokens_.ExpectBlockEnd());
    }
    return statement;
  }

  Result<Node> ParseFor() {
    static constexpr std::array<std::string_view, 2> kEnds = {"else", "endfor"};
    For statement;
    THAW_ASSIGN(statement.target, ParseTargets(false));
    if (!tokens_.TakeWord("in")) return tokens_.Unexpected("'in'");
    THAW_ASSIGN(statement.iterable, expressions_.ParseTuple(false));
    if (tokens_.TakeWord("if")) {
      THAW_ASSIGN(statement.filter, expressions_.Parse());
    }
    statement.recursive = tokens_.TakeWord("recursive");
    THAW_TRY(tokens_.ExpectBlockEnd());
    ++loop_depth_;
    THAW_ASSIGN(statement.body, ParseUntil(kEnds));
    --loop_depth_;
    if (tokens_.Take().text == "else") {
      THAW_ASSIGN(statement.otherwise, ParseBodyTo("endfor"));
    } else {
      THAW_TRY(tokens_.ExpectBlockEnd());
    }
    return statement;
  }

  Result<Node> ParseSet() {
    THAW_ASSIGN(Target target, ParseTargets(true));
    if (tokens_.TakeOperator("=")) {
      THAW_ASSIGN(ExpressionPtr value, expressions_.ParseTuple());
      THAW_TRY(tokens_.ExpectBlockEnd());
      return Set{std::move(target), std::move(value)};
    }
    THAW_ASSIGN(ExpressionPtr filtered, expressions_.ParseBlockFilters(false));
    const int loops = std::exchange(loop_depth_, 0);
    THAW_ASSIGN(Body body, ParseBodyTo("endset"));
    loop_depth_ = loops;
    return SetBlock{std::move(target), std::move(filtered), std::move(body)};
  }

  Result<Node> ParseLoopControl(Position at, const std::string& word) {
    if (loop_depth_ == 0) return tokens_.FailAt(at, "'{}' outside of a loop", word);
    THAW_TRY(tokens_.ExpectBlockEnd());
    if (word == "break") return Break{};
    return Continue{};
  }

  Result<Node> ParsePrint() {
    THAW_ASSIGN(ExpressionPtr value, expressions_.Parse());
    THAW_TRY(tokens_.ExpectBlockEnd());
    return Output{std::move(value)};
  }

  Result<Node> ParseMacro() {
    auto definition = std::make_unique<MacroDefinition>();
    THAW_ASSIGN(definition->name, tokens_.ExpectName());
    THAW_TRY(ParseParameters(*definition));
    THAW_TRY(ParseMacroBody(*definition, "endmacro"));
    return Macro{std::move(definition)};
  }

  Result<Node> ParseCallBlock() {
    auto caller = std::make_unique<MacroDefinition>();
    caller->name = "caller";
    if (tokens_.IsOperator("(")) THAW_TRY(ParseParameters(*caller));
    const Position at = tokens_.at();
    THAW_ASSIGN(ExpressionPtr call, expressions_.Parse());
    if (!std::holds_alternative<CallExpression>(call->node)) {
      return tokens_.FailAt(at, "expected a call");
    }
    THAW_TRY(ParseMacroBody(*caller, "endcall"));
    return CallBlock{std::move(call), std::move(caller)};
  }

  Result<void> ParseParameters(MacroDefinition& definition) {
    THAW_TRY(tokens_.ExpectOperator("("));
    while (!tokens_.TakeOperator(")")) {
      if (!definition.parameters.empty()) THAW_TRY(tokens_.ExpectOperator(","));
      const Position at = tokens_.at();
      MacroDefinition::Parameter parameter;
      THAW_ASSIGN(parameter.name, tokens_.ExpectName());
      if (tokens_.TakeOperator("=")) {
        THAW_ASSIGN(parameter.fallback, expressions_.Parse());
      } else if (!definition.parameters.empty() &&
                 definition.parameters.back().fallback != nullptr) {
        return tokens_.FailAt(at, "a parameter without a default after one with a default");
      }
      definition.parameters.push_back(std::move(parameter));
    }
    return {};
  }

  Result<void> ParseMacroBody(MacroDefinition& definition, std::string_view end) {
    const int loops = std::exchange(loop_depth_, 0);
    tokens_.open_macros().push_back(&definition);
    THAW_ASSIGN(definition.body, ParseBodyTo(end));
    tokens_.open_macros().pop_back();
    loop_depth_ = loops;
    return {};
  }

  Result<Node> ParseFilterBlock() {
    THAW_ASSIGN(ExpressionPtr filtered, expressions_.ParseBlockFilters(true));
    const int loops = std::exchange(loop_depth_, 0);
    THAW_ASSIGN(Body body, ParseBodyTo("endfilter"));
    loop_depth_ = loops;
    return FilterBlock{std::move(filtered), std::move(body)};
  }

  Result<Node> ParseWith() {
    With statement;
    while (!tokens_.Is(TokenKind::kBlockEnd)) {
      if (!statement.variables.empty()) THAW_TRY(tokens_.ExpectOperator(","));
      THAW_ASSIGN(Target target, ParseTarget(false));
      THAW_TRY(tokens_.ExpectOperator("="));
      THAW_ASSIGN(ExpressionPtr value, expressions_.Parse());
      statement.variables.emplace_back(std::move(target), std::move(value));
    }
    THAW_ASSIGN(statement.body, ParseBodyTo("endwith"));
    return statement;
  }

  // a, (b, c), ns.d: commas make a tuple.
  Result<Target> ParseTargets(bool with_namespace) {
    const NestingGuard nesting(tokens_);
    THAW_TRY(nesting.ok());
    THAW_ASSIGN(Target first, ParseTarget(with_namespace));
    if (!tokens_.IsOperator(",")) return first;
    Target tuple{first.at, "", "", {}, true};
    tuple.parts.push_back(std::move(first));
    while (tokens_.TakeOperator(",")) {
      const bool more = tokens_.Is(TokenKind::kName) || tokens_.IsOperator("(");
      if (!more || tokens_.IsWord("in")) break;
      THAW_ASSIGN(Target part, ParseTarget(with_namespace));
      tuple.parts.push_back(std::move(part));
    }
    return tuple;
  }

  Result<Target> ParseTarget(bool with_namespace) {
    const Position at = tokens_.at();
    if (tokens_.TakeOperator("(")) {
      THAW_ASSIGN(Target inside, ParseTargets(with_namespace));
      THAW_TRY(tokens_.ExpectOperator(")"));
      return inside;
    }
    Target target{at, "", "", {}, false};
    THAW_ASSIGN(target.name, tokens_.ExpectName());
    static constexpr std::array<std::string_view, 6> kConstants = {"true", "false", "none",
                                                                   "True", "False", "None"};
    if (std::find(kConstants.begin(), kConstants.end(), target.name) != kConstants.end()) {
      return tokens_.FailAt(at, "cannot assign to '{}'", target.name);
    }
    if (with_namespace && tokens_.TakeOperator(".")) {
      THAW_ASSIGN(target.attribute, tokens_.ExpectName());
    }
    return target;
  }

  TokenStream& tokens_;
  ExpressionParser expressions_;
  int loop_depth_ = 0;  // loops that `break` could end from here
};

}  // namespace

Result<std::shared_ptr<const Program>> ParseTemplate(std::string_view source, std::string name) {
  if (!IsValidUtf8(source)) {
    return Fail(ErrorCode::kCorrupt, "{}: the template is not valid UTF-8", name);
  }
  auto program = std::make_shared<Program>();
  program->name = std::move(name);
  THAW_ASSIGN(std::vector<Token> tokens, Tokenize(source, program->name));
  TokenStream stream(std::move(tokens), program->name);
  THAW_ASSIGN(program->body, StatementParser(stream).ParseTemplateBody());
  return program;
}

}  // namespace thaw::jinja
