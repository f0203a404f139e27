#include "chat/json.h"

#include <limits>

#include "base/utf8.h"
#include "chat/heap.h"

namespace thaw::jinja {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

Result<Value> FromJson(const Json& json, int depth) {
  if (depth > kMaxValueDepth) {
    return Fail(ErrorCode::kInvalidArgument, "JSON nested more than {} deep", kMaxValueDepth);
  }
  switch (json.type()) {
    case Json::value_t::boolean:
      return Value(json.get<bool>());
    case Json::value_t::number_integer:
      return Value(json.get<int64_t>());
    case Json::value_t::number_unsigned: {
      const uint64_t number = json.get<uint64_t>();
      if (number <= uint64_t{std::numeric_limits<int64_t>::max()}) {
        return Value(static_cast<int64_t>(number));
      }
      return Value(static_cast<double>(number));
    }
    case Json::value_t::number_float:
      return Value(json.get<double>());
    case Json::value_t::string: {
      return Value(ReplaceInvalidUtf8(json.get_ref<const std::string&>()));
    }
    case Json::value_t::array: {
      Values items;
      items.reserve(json.size());
      for (const Json& item : json) {
        THAW_ASSIGN(Value value, FromJson(item, depth + 1));
        items.push_back(std::move(value));
      }
      return Value(std::make_shared<const List>(std::move(items), ListKind::kList));
    }
    case Json::value_t::object: {
      std::vector<Dict::Entry> entries;
      entries.reserve(json.size());
      for (const auto& [key, item] : json.items()) {
        THAW_ASSIGN(Value value, FromJson(item, depth + 1));
        entries.emplace_back(Value(ReplaceInvalidUtf8(key)), std::move(value));
      }
      return Value(std::make_shared<const Dict>(std::move(entries)));
    }
    default:
      return Value(None{});
  }
}

}  // namespace thaw::jinja
