#include "chat/value.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/utf8.h"

namespace thaw::jinja {
namespace {

bool IsContinuationByte(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += IsContinuationByte(byte) ? 0 : 1;
  return count;
}

// Total order over keys: None, then numbers by value (not-a-number first), then strings. Comparing
// as long double keeps every int64 and every double exact.
int CompareKeys(const Value& a, const Value& b) {
  const auto rank = [](const Value& value) {
    if (value.is_none()) return 0;
    return value.is_string() ? 2 : 1;
  };
  if (rank(a) != rank(b)) return rank(a) < rank(b) ? -1 : 1;
  if (a.is_none()) return 0;
  if (a.is_string()) return a.text().compare(b.text());
  const auto exact = [](const Number& number) {
    return number.is_float ? static_cast<long double>(number.real)
                           : static_cast<long double>(number.integer);
  };
  const long double x = exact(*AsNumber(a));
  const long double y = exact(*AsNumber(b));
  if (std::isnan(x) || std::isnan(y)) return static_cast<int>(std::isnan(y)) - std::isnan(x);
  return x < y ? -1 : static_cast<int>(x > y);
}

}  // namespace

Value::Value(std::string text) : data_(std::make_shared<const String>(std::move(text))) {}

const std::string& Value::text() const { return string().text(); }

std::string_view Value::why() const {
  const auto& why = std::get<Undefined>(data_).why;
  return why == nullptr ? std::string_view("the value is undefined") : std::string_view(*why);
}

std::string_view Value::type_name() const {
  switch (kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kDict:
      return "dict";
    case Kind::kFunction:
      return "builtin_function_or_method";
    case Kind::kObject:
      return object()->type_name();
    case Kind::kList:
      break;
  }
  switch (list().list_kind()) {
    case ListKind::kList:
      return "list";
    case ListKind::kTuple:
      return "tuple";
    case ListKind::kRange:
      return "range";
    case ListKind::kKeys:
      return "dict_keys";
    case ListKind::kValues:
      return "dict_values";
    case ListKind::kItems:
      return "dict_items";
    case ListKind::kGenerator:
      return "generator";
  }
  return "";
}

int Value::depth() const {
  if (is_list()) return list().depth();
  if (is_dict()) return dict().depth();
  return 0;
}

bool Value::Truth() const {
  switch (kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
      return boolean();
    case Kind::kInt:
      return integer() != 0;
    case Kind::kFloat:
      return real() != 0;
    case Kind::kString:
      return !text().empty();
    case Kind::kList:
      return !list().is_sized() || !list().items().empty();
    case Kind::kDict:
      return !dict().entries().empty();
    case Kind::kFunction:
    case Kind::kObject:
      return true;
  }
  return false;
}

String::String(std::string text) : text_(std::move(text)), length_(CountCharacters(text_)) {}

size_t String::ByteOffset(size_t character) const {
  THAW_CHECK(character <= length_);
  if (is_ascii()) return character;
  if (character == length_) return text_.size();
  size_t offset = 0;
  for (size_t seen = 0;; ++offset) {
    if (!IsContinuationByte(text_[offset]) && seen++ == character) return offset;
  }
}

List::List(Values items, ListKind list_kind)
    : items_(std::move(items)), list_kind_(list_kind), depth_(1) {
  for (const Value& item : items_) depth_ = std::max(depth_, item.depth() + 1);
}

Dict::Dict(std::vector<Entry> entries) : depth_(1) {
  std::vector<uint32_t> order(entries.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return CompareKeys(entries[a].first, entries[b].first) < 0;
  });
  // Equal keys stand next to each other now, in the order they were given.
  std::vector<bool> dropped(entries.size());
  for (size_t i = 1, first = 0; i < order.size(); ++i) {
    if (CompareKeys(entries[order[first]].first, entries[order[i]].first) != 0) {
      first = i;
      continue;
    }
    entries[order[first]].second = entries[order[i]].second;
    dropped[order[i]] = true;
  }
  std::vector<uint32_t> place(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    place[i] = static_cast<uint32_t>(entries_.size());
    if (!dropped[i]) entries_.push_back(std::move(entries[i]));
  }
  for (const uint32_t i : order) {
    if (!dropped[i]) by_key_.push_back(place[i]);
  }
  for (const Entry& entry : entries_) depth_ = std::max(depth_, entry.second.depth() + 1);
}

bool Dict::IsKey(const Value& value) {
  return value.is_none() || value.is_string() || AsNumber(value).has_value();
}

const Value* Dict::Find(const Value& key) const {
  if (!IsKey(key)) return nullptr;
  const auto at = std::lower_bound(
      by_key_.begin(), by_key_.end(), key,
      [&](uint32_t i, const Value& wanted) { return CompareKeys(entries_[i].first, wanted) < 0; });
  if (at == by_key_.end() || CompareKeys(entries_[*at].first, key) != 0) return nullptr;
  return &entries_[*at].second;
}

const Value* Dict::Find(std::string_view key) const { return Find(Value(std::string(key))); }

std::optional<Value> Object::Attribute(std::string_view) const { return std::nullopt; }

Result<Value> Object::Call(const Arguments&) {
  return Fail(ErrorCode::kInvalidArgument, "'{}' object is not callable", type_name());
}

std::optional<Number> AsNumber(const Value& value) {
  switch (value.kind()) {
    case Kind::kBool:
      return Number{false, value.boolean(), static_cast<double>(value.boolean())};
    case Kind::kInt:
      return Number{false, value.integer(), static_cast<double>(value.integer())};
    case Kind::kFloat:
      return Number{true, 0, value.real()};
    default:
      return std::nullopt;
  }
}

}  // namespace thaw::jinja
