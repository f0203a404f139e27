// Errors as values.
//
// Operating errors (a bad file, a failed read, a bad request) travel as `Result<T>`: either a T or
// an `Error` with a code for programs and one sentence for people. The sentence names the file, the
// tensor or field, what was expected and what was found. Nothing in Thaw throws; programmer errors
// stop the program through base/check.h instead.
//
//   Result<Header> ReadHeader(const File& file) {
//     THAW_ASSIGN(auto bytes, file.ReadAt(0, 24));     // returns the error, or declares `bytes`
//     if (bytes.size() < 24) return Fail(ErrorCode::kCorrupt, "{}: ...", file.path());
//     return Header{...};
//   }
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace thaw {

enum class ErrorCode {
  kInvalidArgument,    // the caller asked for something that has no meaning
  kNotFound,           // a file, tensor, field or name that does not exist
  kIo,                 // the operating system refused or failed
  kCorrupt,            // bytes that break their format
  kUnsupported,        // well-formed, but nothing Thaw can do yet
  kResourceExhausted,  // out of memory, context or another limit
  kCancelled,          // stopped on request
};

struct Error {
  ErrorCode code = ErrorCode::kInvalidArgument;
  std::string message;

  // The same error with `context` and ": " before its message.
  Error In(std::string_view context) && {
    return Error{code, fmt::format("{}: {}", context, message)};
  }
};

template <typename T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
};

template <typename... Args>
tl::unexpected<Error> Fail(ErrorCode code, fmt::format_string<Args...> format, Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

inline tl::unexpected<Error> Fail(Error error) { return tl::unexpected<Error>(std::move(error)); }

}  // namespace thaw

#define THAW_CONCAT_INNER(a, b) a##b
#define THAW_CONCAT(a, b) THAW_CONCAT_INNER(a, b)

// Evaluates a Result<void>; returns its error from the enclosing function.
#define THAW_TRY(expression)                            \
  do {                                                  \
    if (auto thaw_try = (expression); !thaw_try) {      \
      return ::thaw::Fail(std::move(thaw_try).error()); \
    }                                                   \
  } while (false)

// Evaluates a Result<T>; returns its error, or initialises `declaration` with its value.
#define THAW_ASSIGN(declaration, expression) \
  THAW_ASSIGN_IMPL(THAW_CONCAT(thaw_result_, __LINE__), declaration, expression)
// NOLINTBEGIN(bugprone-macro-parentheses): a declaration cannot stand in parentheses.
#define THAW_ASSIGN_IMPL(result, declaration, expression)      \
  auto result = (expression);                                  \
  if (!result) return ::thaw::Fail(std::move(result).error()); \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
