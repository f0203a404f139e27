#include "chat/loop.h"

#include "chat/operators.h"

namespace thaw::jinja {
namespace {

Loop& Self(Call& call) { return *static_cast<Loop*>(call.self().object()); }

Result<Value> Cycle(Call& call) {
  const Values& values = call.all().positional;
  if (values.empty()) return call.Fail("no values to cycle through");
  return values[Self(call).index() % values.size()];
}

Result<Value> Changed(Call& call) {
  THAW_ASSIGN(const bool changed, Self(call).Changed(call.heap(), call.all().positional));
  return Value(changed);
}

constexpr Builtin kCycle{"cycle", "*", Cycle};
constexpr Builtin kChanged{"changed", "*", Changed};

}  // namespace

std::optional<Value> Loop::Attribute(std::string_view name) const {
  const Values& items = items_->items();
  const int64_t index = static_cast<int64_t>(index_);
  const int64_t length = static_cast<int64_t>(items.size());
  const auto none = [&](std::string_view what) {
    return Value(
        Undefined{std::make_shared<const std::string>(fmt::format("there is no {} item", what))});
  };
  if (name == "index") return Value(index + 1);
  if (name == "index0") return Value(index);
  if (name == "revindex") return Value(length - index);
  if (name == "revindex0") return Value(length - index - 1);
  if (name == "first") return Value(index == 0);
  if (name == "last") return Value(index + 1 == length);
  if (name == "length") return Value(length);
  if (name == "depth") return Value(depth_ + 1);
  if (name == "depth0") return Value(depth_);
  if (name == "previtem") return index == 0 ? none("previous") : items[index_ - 1];
  if (name == "nextitem") return index + 1 == length ? none("next") : items[index_ + 1];
  const Builtin* method = name == "cycle" ? &kCycle : name == "changed" ? &kChanged : nullptr;
  if (method == nullptr) return std::nullopt;
  return Value(Function{method, std::make_shared<const Value>(const_cast<Loop*>(this))});
}

Result<Value> Loop::Call(const Arguments& arguments) {
  if (!recurse_) {
    return Fail(ErrorCode::kInvalidArgument, "only a loop marked 'recursive' can be called");
  }
  if (arguments.positional.size() != 1 || !arguments.named.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "loop() takes one argument");
  }
  return recurse_(arguments.positional[0]);
}

Result<bool> Loop::Changed(Heap& heap, const Values& values) {
  bool changed = !last_values_.has_value() || last_values_->size() != values.size();
  for (size_t i = 0; !changed && i < values.size(); ++i) {
    THAW_ASSIGN(const bool equal, Equal(heap, (*last_values_)[i], values[i]));
    changed = !equal;
  }
  if (changed) last_values_ = values;
  return changed;
}

}  // namespace thaw::jinja
