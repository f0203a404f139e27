#include "chat/methods.h"

#include <algorithm>
#include <array>

#include "chat/operators.h"

namespace thaw::jinja {
namespace {

template <ListKind kKind>
Result<Value> View(Call& call) {
  Heap& heap = call.heap();
  Values items;
  items.reserve(call.self().dict().entries().size());
  for (const auto& [key, value] : call.self().dict().entries()) {
    if constexpr (kKind == ListKind::kItems) {
      THAW_ASSIGN(Value pair, heap.MakeList({key, value}, ListKind::kTuple));
      items.push_back(std::move(pair));
    } else {
      items.push_back(kKind == ListKind::kKeys ? key : value);
    }
  }
  return heap.MakeList(std::move(items), kKind);
}

Result<Value> GetMethod(Call& call) {
  const Value& key = *call.Get(0);
  if (key.is_list() || key.is_dict()) return call.Fail("unhashable type: '{}'", key.type_name());
  if (const Value* found = call.self().dict().Find(key)) return *found;
  return call.Get(1) == nullptr ? Value(None{}) : *call.Get(1);
}

// Values never change, so a copy is the value itself.
Result<Value> Copy(Call& call) { return call.self(); }

Result<Value> Forbidden(Call& call) {
  return call.Fail("templates may not change a '{}'", call.self().type_name());
}

Result<Value> CountItems(Call& call) {
  int64_t count = 0;
  for (const Value& item : call.self().list().items()) {
    THAW_ASSIGN(const bool equal, Equal(call.heap(), item, *call.Get(0)));
    count += equal ? 1 : 0;
  }
  return Value(count);
}

Result<Value> IndexOf(Call& call) {
  const Values& items = call.self().list().items();
  const int64_t size = static_cast<int64_t>(items.size());
  THAW_ASSIGN(int64_t start, call.Integer(1, 0));
  THAW_ASSIGN(int64_t end, call.Integer(2, size));
  if (start < 0) start = std::max(start, -size) + size;
  if (end < 0) end = std::max(end, -size) + size;
  for (int64_t i = start; i < std::min(end, size); ++i) {
    THAW_ASSIGN(const bool equal, Equal(call.heap(), items[i], *call.Get(0)));
    if (equal) return Value(i);
  }
  return call.Fail("the value is not in the list");
}

constexpr std::array<Builtin, 10> kDictMethods = {{
    {"clear", "*", Forbidden},
    {"copy", "", Copy},
    {"get", "key default=", GetMethod},
    {"items", "", View<ListKind::kItems>},
    {"keys", "", View<ListKind::kKeys>},
    {"pop", "*", Forbidden},
    {"popitem", "*", Forbidden},
    {"setdefault", "*", Forbidden},
    {"update", "*", Forbidden},
    {"values", "", View<ListKind::kValues>},
}};

constexpr std::array<Builtin, 11> kListMethods = {{
    {"append", "*", Forbidden},
    {"clear", "*", Forbidden},
    {"copy", "", Copy},
    {"count", "value", CountItems},
    {"extend", "*", Forbidden},
    {"index", "value start= stop=", IndexOf},
    {"insert", "*", Forbidden},
    {"pop", "*", Forbidden},
    {"remove", "*", Forbidden},
    {"reverse", "*", Forbidden},
    {"sort", "*", Forbidden},
}};

}  // namespace

const Builtin* FindMethod(const Value& value, std::string_view name) {
  if (value.is_string()) return FindStringMethod(name);
  if (value.is_dict()) return FindBuiltin(kDictMethods, name);
  if (!value.is_list() || !value.list().is_sequence()) return nullptr;
  const Builtin* method = FindBuiltin(kListMethods, name);
  const bool is_common = name == "count" || name == "index";
  return value.list().list_kind() == ListKind::kList || is_common ? method : nullptr;
}

}  // namespace thaw::jinja
