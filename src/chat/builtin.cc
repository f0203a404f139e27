#include "chat/builtin.h"

#include "base/check.h"
#include "chat/operators.h"

namespace thaw::jinja {

Result<void> Call::Bind() {
  if (builtin_.parameters == "*") return {};
  size_t index = 0;
  size_t named_used = 0;
  for (std::string_view rest = builtin_.parameters; !rest.empty(); ++index) {
    THAW_CHECK(index < kMaxParameters);
    const size_t end = std::min(rest.find(' '), rest.size());
    std::string_view name = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const bool is_optional = name.ends_with('=');
    if (is_optional) name.remove_suffix(1);
    if (index < all_.positional.size()) bound_[index] = &all_.positional[index];
    for (const auto& [argument_name, value] : all_.named) {
      if (argument_name != name) continue;
      if (bound_[index] != nullptr) return Fail("more than one value for '{}'", name);
      bound_[index] = &value;
      ++named_used;
    }
    if (bound_[index] == nullptr && !is_optional) return Fail("missing argument '{}'", name);
  }
  if (all_.positional.size() > index) {
    return Fail("takes at most {} arguments, {} given", index, all_.positional.size());
  }
  if (all_.named.size() > named_used) return Fail("an unexpected named argument");
  return {};
}

Result<int64_t> Call::Integer(size_t index, int64_t fallback) const {
  if (bound_[index] == nullptr || bound_[index]->is_none()) return fallback;
  const std::optional<Number> number = AsNumber(*bound_[index]);
  if (number && !number->is_float) return number->integer;
  if (bound_[index]->is_undefined()) return FailUndefined(*bound_[index]);
  return Fail("expected an integer, found '{}'", bound_[index]->type_name());
}

Result<std::string_view> Call::Text(size_t index, std::string_view fallback) const {
  if (bound_[index] == nullptr || bound_[index]->is_none()) return fallback;
  if (bound_[index]->is_string()) return std::string_view(bound_[index]->text());
  if (bound_[index]->is_undefined()) return FailUndefined(*bound_[index]);
  return Fail("expected a string, found '{}'", bound_[index]->type_name());
}

bool Call::Flag(size_t index, bool fallback) const {
  return bound_[index] == nullptr ? fallback : bound_[index]->Truth();
}

Result<Value> Invoke(Runtime& runtime, const Builtin& builtin, const Value& self,
                     const Arguments& arguments) {
  const DepthGuard depth(runtime.heap);
  THAW_TRY(depth.ok());
  THAW_TRY(runtime.heap.Work(1));
  // A builtin reads its text at least once.
  if (self.is_string()) THAW_TRY(runtime.heap.Scan(self.text().size()));
  Call call(runtime, builtin, self, arguments);
  THAW_TRY(call.Bind());
  return builtin.run(call);
}

Result<Value> Invoke(Runtime& runtime, const Value& callee, const Arguments& arguments) {
  if (callee.kind() == Kind::kFunction) {
    const Function& function = callee.function();
    return Invoke(runtime, *function.builtin, function.self == nullptr ? Value() : *function.self,
                  arguments);
  }
  if (callee.kind() == Kind::kObject) return callee.object()->Call(arguments);
  if (callee.is_undefined()) return FailUndefined(callee);
  return Fail(ErrorCode::kInvalidArgument, "'{}' object is not callable", callee.type_name());
}

}  // namespace thaw::jinja
