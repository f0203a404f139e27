#include "tokenizer/regex_splitter.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>

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

// What a class escape stands for, as members of a bracketed class.
struct ClassEscape {
  std::string_view escape;
  std::string_view members;
};

// White_Space is those controls and category Z; PCRE2's own Unicode \s has U+180E besides, which
// Unicode took out in version 6.3. The characters behind the categories came with Unicode 15.1:
// PCRE2 10.42 knows version 14, a newer one has them already.
constexpr ClassEscape kClassEscapes[] = {
    {R"(\s)", R"(\t-\r\x{85}\p{Z})"},
    {R"(\p{N})", R"(\p{N}\x{11F50}-\x{11F59}\x{1D2C0}-\x{1D2D3}\x{1E4F0}-\x{1E4F9})"},
    {R"(\p{L})",
     R"(\p{L}\x{1123F}-\x{11240}\x{11F02}\x{11F04}-\x{11F10}\x{11F12}-\x{11F33}\x{1342F})"
     R"(\x{13441}-\x{13446}\x{1B132}\x{1B155}\x{1DF25}-\x{1DF2A}\x{1E030}-\x{1E06D})"
     R"(\x{1E4D0}-\x{1E4EB}\x{2B739}\x{2EBF0}-\x{2EE5D}\x{31350}-\x{323AF})"},
    {R"(\p{M})", R"(\p{M}\x{CF3}\x{ECE}\x{10EFD}-\x{10EFF}\x{11241}\x{11F00}-\x{11F01}\x{11F03})"
                 R"(\x{11F34}-\x{11F3A}\x{11F3E}-\x{11F42}\x{13440}\x{13447}-\x{13455}\x{1E08F})"
                 R"(\x{1E4EC}-\x{1E4EF})"},
    {R"(\p{P})", R"(\p{P}\x{11B00}-\x{11B09}\x{11F43}-\x{11F4F})"},
    {R"(\p{S})",
     R"(\p{S}\x{2FFC}-\x{2FFF}\x{31EF}\x{1F6DC}\x{1F774}-\x{1F776}\x{1F77B}-\x{1F77F}\x{1F7D9})"
     R"(\x{1FA75}-\x{1FA77}\x{1FA87}-\x{1FA88}\x{1FAAD}-\x{1FAAF}\x{1FABB}-\x{1FABD}\x{1FABF})"
     R"(\x{1FACE}-\x{1FACF}\x{1FADA}-\x{1FADB}\x{1FAE8}\x{1FAF7}-\x{1FAF8})"},
};

// `expression` with the class escapes written out. \S is [^\s], outside of a class only.
std::string ExpandClasses(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size();) {
    const std::string_view rest = expression.substr(i);
    if (rest.starts_with(R"(\S)")) {
      THAW_CHECK(!in_class);
      out += fmt::format("[^{}]", kClassEscapes[0].members);
      i += 2;
      continue;
    }
    const auto found =
        std::find_if(std::begin(kClassEscapes), std::end(kClassEscapes),
                     [&](const ClassEscape& known) { return rest.starts_with(known.escape); });
    if (found != std::end(kClassEscapes)) {
      out += in_class ? std::string(found->members) : fmt::format("[{}]", found->members);
      i += found->escape.size();
      continue;
    }
    if (rest.front() == '[') in_class = true;
    if (rest.front() == ']') in_class = false;
    const size_t length = rest.front() == '\\' ? 2 : 1;
    out += rest.substr(0, length);
    i += length;
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
    const std::string expanded = ExpandClasses(expression);
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
