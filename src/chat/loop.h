// The `loop` variable of a `for` statement.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "chat/builtin.h"

namespace thaw::jinja {

class Loop : public Object {
 public:
  // `depth` counts recursive loops from 0. `recurse` runs the loop's body over another iterable and
  // returns the text; empty where the loop is not recursive. It must outlive the loop's statement.
  Loop(std::shared_ptr<const List> items, int64_t depth,
       std::function<Result<Value>(const Value& iterable)> recurse)
      : items_(std::move(items)), depth_(depth), recurse_(std::move(recurse)) {}

  std::string_view type_name() const override { return "LoopContext"; }
  bool is_callable() const override { return true; }
  std::optional<Value> Attribute(std::string_view name) const override;
  Result<Value> Call(const Arguments& arguments) override;

  void set_index(size_t index) { index_ = index; }
  size_t index() const { return index_; }
  // Whether `values` differ from those of the last call.
  Result<bool> Changed(Heap& heap, const Values& values);

 private:
  std::shared_ptr<const List> items_;
  size_t index_ = 0;
  int64_t depth_;
  std::function<Result<Value>(const Value& iterable)> recurse_;
  std::optional<Values> last_values_;
};

}  // namespace thaw::jinja
