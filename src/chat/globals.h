// The functions that every template can call: range, dict, namespace, cycler, joiner,
// raise_exception, strftime_now; and the Objects they make.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "chat/builtin.h"

namespace thaw::jinja {

// Null where there is no such function.
const Builtin* FindGlobal(std::string_view name);

// namespace(...): attributes that `set ns.name = value` can change, in any scope.
class Namespace : public Object {
 public:
  std::string_view type_name() const override { return "Namespace"; }
  std::optional<Value> Attribute(std::string_view name) const override;

  void Set(std::string_view name, Value value);

 private:
  std::map<std::string, Value, std::less<>> attributes_;
};

}  // namespace thaw::jinja
