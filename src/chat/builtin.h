// Functions, methods, filters and tests of the language: one table row each.
//
// A row names its parameters, so that binding arguments to them, positional or named, and its
// errors are written once, here. The rows are constants; a Call lives as long as the call.
#pragma once

#include <array>
#include <chrono>
#include <string_view>

#include "chat/heap.h"

namespace thaw::jinja {

// What a builtin may use of the rendering that it runs in.
struct Runtime {
  Heap heap;
  std::chrono::local_seconds now;
};

class Call;

struct Builtin {
  std::string_view name;
  // Names separated by one blank, those that may be left out ending in '='. "*" takes everything as
  // it comes: see Call::all().
  std::string_view parameters;
  Result<Value> (*run)(Call& call);
};

// No builtin has more.
inline constexpr size_t kMaxParameters = 6;

class Call {
 public:
  Call(Runtime& call_runtime, const Builtin& builtin, const Value& self, const Arguments& all)
      : runtime_(call_runtime), builtin_(builtin), self_(self), all_(all) {}

  // Fails where the arguments do not fit the parameters.
  Result<void> Bind();

  Runtime& runtime() { return runtime_; }
  Heap& heap() { return runtime_.heap; }
  // What the method was taken from, or the input of the filter or test.
  const Value& self() const { return self_; }
  const Arguments& all() const { return all_; }

  // Parameter `index`; null where it was left out.
  const Value* Get(size_t index) const { return bound_[index]; }
  Result<int64_t> Integer(size_t index, int64_t fallback) const;
  // Fails where the argument is not a string.
  Result<std::string_view> Text(size_t index, std::string_view fallback) const;
  bool Flag(size_t index, bool fallback) const;

  template <typename... Args>
  tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) const {
    return ::thaw::Fail(ErrorCode::kInvalidArgument, "{}: {}", builtin_.name,
                        fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  Runtime& runtime_;
  const Builtin& builtin_;
  const Value& self_;
  const Arguments& all_;
  std::array<const Value*, kMaxParameters> bound_{};
};

Result<Value> Invoke(Runtime& runtime, const Builtin& builtin, const Value& self,
                     const Arguments& arguments);

// Calls any value: a function, a method, a macro.
Result<Value> Invoke(Runtime& runtime, const Value& callee, const Arguments& arguments);

// The row of `name`; null where there is none.
template <typename Table>
const Builtin* FindBuiltin(const Table& table, std::string_view name) {
  for (const Builtin& builtin : table) {
    if (builtin.name == name) return &builtin;
  }
  return nullptr;
}

}  // namespace thaw::jinja
