#include "tokenizer/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <cstdint>

#include "base/check.h"

namespace thaw {
namespace {

struct CodeDeleter {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
};
struct MatchDeleter {
  void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* context) const { pcre2_match_context_free(context); }
};
using Match = std::unique_ptr<pcre2_match_data, MatchDeleter>;
using Context = std::unique_ptr<pcre2_match_context, ContextDeleter>;

std::string ErrorText(int error) {
  std::array<PCRE2_UCHAR, 256> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

// White_Space is these controls and category Z. PCRE2's own Unicode \s has U+180E besides, which
// Unicode took out in version 6.3.
constexpr std::string_view kWhiteSpace = R"(\t-\r\x{85}\p{Z})";

// `expression` with \s and \S written out; \S inside a class is not supported.
std::string ExpandWhiteSpace(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (c == '\\' && i + 1 < expression.size()) {
      const char escaped = expression[++i];
      if (escaped == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (escaped == 'S') {
        THAW_CHECK(!in_class);
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += {c, escaped};
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

}  // namespace

struct RegexSplitter::Pass {
  std::unique_ptr<pcre2_code, CodeDeleter> code;
};

// What one call of Split needs beside the expressions.
class RegexSplitter::Session {
 public:
  Session(const std::vector<Pass>& passes, FunctionRef<void(std::string_view)> emit)
      : passes_(passes), emit_(emit), context_(pcre2_match_context_create(nullptr)) {
    for (const Pass& pass : passes) {
      matches_.emplace_back(pcre2_match_data_create_from_pattern(pass.code.get(), nullptr));
    }
  }

  bool has_memory() const {
    for (const Match& match : matches_) {
      if (!match) return false;
    }
    return context_ != nullptr;
  }

  // The defaults would make a search fail that backtracks once over ten million characters.
  void LiftLimits() {
    pcre2_set_match_limit(context_.get(), UINT32_MAX);
    pcre2_set_depth_limit(context_.get(), UINT32_MAX);
    pcre2_set_heap_limit(context_.get(), UINT32_MAX);
  }

  // Applies passes [pass, ...) to `piece`. The depth of recursion is the number of passes.
  Result<void> Split(size_t pass, std::string_view piece) {
    if (pass == passes_.size()) {
      if (!piece.empty()) emit_(piece);
      return {};
    }
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(matches_[pass].get());
    size_t done = 0;
    while (done < piece.size()) {
      THAW_ASSIGN(const bool found, Search(pass, piece, done));
      if (!found) break;
      const size_t begin = ends[0];
      const size_t end = ends[1];
      if (begin > done) THAW_TRY(Split(pass + 1, piece.substr(done, begin - done)));
      THAW_TRY(Split(pass + 1, piece.substr(begin, end - begin)));
      done = end;
    }
    if (done < piece.size()) THAW_TRY(Split(pass + 1, piece.substr(done)));
    return {};
  }

 private:
  Result<bool> Search(size_t pass, std::string_view piece, size_t start) {
    const auto run = [&](uint32_t options) {
      return pcre2_match(passes_[pass].code.get(), reinterpret_cast<PCRE2_SPTR>(piece.data()),
                         piece.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | options,
                         matches_[pass].get(), context_.get());
    };
    int result = run(0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT) result = run(PCRE2_NO_JIT);
    if (result == PCRE2_ERROR_NOMATCH) return false;
    if (result < 0) {
      return Fail(ErrorCode::kResourceExhausted, "cutting {} bytes of text into words: {}",
                  piece.size(), ErrorText(result));
    }
    return true;
  }

  const std::vector<Pass>& passes_;
  FunctionRef<void(std::string_view)> emit_;
  Context context_;
  std::vector<Match> matches_;
};

RegexSplitter::RegexSplitter() = default;
RegexSplitter::~RegexSplitter() = default;
RegexSplitter::RegexSplitter(RegexSplitter&&) noexcept = default;
RegexSplitter& RegexSplitter::operator=(RegexSplitter&&) noexcept = default;

Result<RegexSplitter> RegexSplitter::Create(const std::vector<std::string_view>& expressions) {
  RegexSplitter splitter;
  for (const std::string_view expression : expressions) {
    const std::string expanded = ExpandWhiteSpace(expression);
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                                     PCRE2_UTF, &error, &offset, nullptr);
    if (code == nullptr) {
      return Fail(ErrorCode::kInvalidArgument, "expression '{}', offset {}: {}", expanded, offset,
                  ErrorText(error));
    }
    splitter.passes_.emplace_back().code.reset(code);
    // May be refused (no executable memory): the expression is then interpreted.
    static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  }
  return splitter;
}

Result<void> RegexSplitter::Split(std::string_view text,
                                  FunctionRef<void(std::string_view)> emit) const {
  Session session(passes_, emit);
  if (!session.has_memory()) {
    return Fail(ErrorCode::kResourceExhausted, "no memory to cut text into words");
  }
  session.LiftLimits();
  return session.Split(0, text);
}

}  // namespace thaw
