// Attributes, items, slices and iteration: how expressions look into values.
#include <algorithm>

#include "base/utf8.h"
#include "chat/methods.h"
#include "chat/operators.h"

namespace thaw::jinja {
namespace {

// As Jinja words it: 'dict object' has no attribute 'x'.
Value Missing(const Value& value, std::string_view name) {
  return Value(Undefined{std::make_shared<const std::string>(
      fmt::format("'{} object' has no attribute '{}'", value.type_name(), name))});
}

Value MissingItem(const Value& value, const Value& key) {
  if (key.is_string()) return Missing(value, key.text());
  const std::string name =
      key.kind() == Kind::kInt ? fmt::format("{}", key.integer()) : std::string(key.type_name());
  return Value(Undefined{std::make_shared<const std::string>(
      fmt::format("'{} object' has no element {}", value.type_name(), name))});
}

std::optional<Value> Method(const Value& value, std::string_view name) {
  const Builtin* method = FindMethod(value, name);
  if (method == nullptr) return std::nullopt;
  return Value(Function{method, std::make_shared<const Value>(value)});
}

// The element at a position counted from the start or, where it is negative, from the end.
std::optional<size_t> Place(int64_t index, size_t size) {
  if (index < 0) index += static_cast<int64_t>(size);
  if (index < 0 || index >= static_cast<int64_t>(size)) return std::nullopt;
  return static_cast<size_t>(index);
}

Result<Value> ItemAt(Heap& heap, const Value& value, int64_t index) {
  if (value.is_string()) {
    const String& string = value.string();
    const std::optional<size_t> place = Place(index, string.length());
    if (!place) return MissingItem(value, Value(index));
    if (!string.is_ascii()) THAW_TRY(heap.Scan(string.text().size()));
    const size_t begin = string.ByteOffset(*place);
    const size_t length = DecodeUtf8(string.text(), begin).length;
    return heap.MakeString(string.text().substr(begin, length));
  }
  const Values& items = value.list().items();
  const std::optional<size_t> place = Place(index, items.size());
  if (!place) return MissingItem(value, Value(index));
  return items[*place];
}

// Bounds of a slice as Python clamps them.
struct SliceRange {
  int64_t begin, end, step;
  size_t count;
};

Result<std::optional<int64_t>> SliceIndex(const Value& value) {
  if (value.is_none()) return std::optional<int64_t>();
  const std::optional<Number> number = AsNumber(value);
  if (value.is_undefined()) return FailUndefined(value);
  if (!number || number->is_float) {
    return Fail(ErrorCode::kInvalidArgument, "slice indices must be integers or None");
  }
  return std::optional<int64_t>(number->integer);
}

Result<SliceRange> ResolveSlice(const Value& begin, const Value& end, const Value& step,
                                size_t size) {
  THAW_ASSIGN(const std::optional<int64_t> stated_step, SliceIndex(step));
  THAW_ASSIGN(const std::optional<int64_t> stated_begin, SliceIndex(begin));
  THAW_ASSIGN(const std::optional<int64_t> stated_end, SliceIndex(end));
  const int64_t length = static_cast<int64_t>(size);
  // Steps beyond the size select one element, whatever they are.
  const int64_t stride = std::clamp(stated_step.value_or(1), -length - 1, length + 1);
  if (stride == 0) return Fail(ErrorCode::kInvalidArgument, "slice step cannot be zero");
  const int64_t low = stride > 0 ? 0 : -1;
  const int64_t high = stride > 0 ? length : length - 1;
  const auto clamp = [&](std::optional<int64_t> index, int64_t fallback) {
    if (!index) return fallback;
    if (*index < 0) return std::max(*index < -length ? low : *index + length, low);
    return std::min(*index, high);
  };
  SliceRange range{clamp(stated_begin, stride > 0 ? low : high),
                   clamp(stated_end, stride > 0 ? high : low), stride, 0};
  const int64_t span = stride > 0 ? range.end - range.begin : range.begin - range.end;
  if (span > 0) range.count = static_cast<size_t>((span - 1) / std::abs(stride) + 1);
  return range;
}

Result<Value> SliceString(Heap& heap, const String& string, const SliceRange& range) {
  THAW_TRY(heap.Scan(string.text().size()));
  if (range.count == 0) return heap.MakeString("");
  if (range.step == 1) {
    const size_t begin = string.ByteOffset(static_cast<size_t>(range.begin));
    const size_t end = string.ByteOffset(static_cast<size_t>(range.end));
    return heap.MakeString(string.text().substr(begin, end - begin));
  }
  std::vector<std::string_view> characters;
  THAW_TRY(heap.Check(string.length() * sizeof(std::string_view)));
  THAW_TRY(heap.Work(string.length()));
  for (size_t i = 0; i < string.text().size();) {
    const size_t length = DecodeUtf8(string.text(), i).length;
    characters.push_back(std::string_view(string.text()).substr(i, length));
    i += length;
  }
  std::string out;
  for (size_t i = 0; i < range.count; ++i) {
    out += characters[range.begin + static_cast<int64_t>(i) * range.step];
  }
  return heap.MakeString(std::move(out));
}

Result<std::shared_ptr<const List>> AsList(Result<Value> list) {
  if (!list) return Fail(std::move(list).error());
  return list->shared_list();
}

}  // namespace

Result<std::shared_ptr<const List>> Iterate(Heap& heap, const Value& value) {
  switch (value.kind()) {
    case Kind::kList:
      return value.shared_list();
    case Kind::kUndefined:
      return AsList(heap.MakeList({}));
    case Kind::kDict: {
      Values keys;
      keys.reserve(value.dict().entries().size());
      for (const auto& entry : value.dict().entries()) keys.push_back(entry.first);
      return AsList(heap.MakeList(std::move(keys)));
    }
    case Kind::kString: {
      // Each character becomes a string of its own.
      const std::string& text = value.text();
      THAW_TRY(heap.Claim(value.string().length() * (sizeof(String) + sizeof(Value))));
      Values characters;
      characters.reserve(value.string().length());
      for (size_t i = 0; i < text.size();) {
        const size_t length = DecodeUtf8(text, i).length;
        characters.emplace_back(text.substr(i, length));
        i += length;
      }
      return AsList(heap.MakeList(std::move(characters)));
    }
    default:
      return Fail(ErrorCode::kInvalidArgument, "'{}' object is not iterable", value.type_name());
  }
}

std::optional<int64_t> Length(const Value& value) {
  switch (value.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return static_cast<int64_t>(value.string().length());
    case Kind::kDict:
      return static_cast<int64_t>(value.dict().entries().size());
    case Kind::kList:
      if (!value.list().is_sized()) return std::nullopt;
      return static_cast<int64_t>(value.list().items().size());
    default:
      return std::nullopt;
  }
}

Result<Value> GetAttribute(Heap& heap, const Value& value, std::string_view name) {
  THAW_TRY(heap.Work(1));
  if (value.is_undefined()) return FailUndefined(value);
  if (std::optional<Value> method = Method(value, name)) return *std::move(method);
  if (value.is_dict()) {
    if (const Value* found = value.dict().Find(name)) return *found;
  }
  if (value.kind() == Kind::kObject) {
    if (std::optional<Value> found = value.object()->Attribute(name)) return *std::move(found);
  }
  return Missing(value, name);
}

Result<Value> GetItem(Heap& heap, const Value& value, const Value& key) {
  THAW_TRY(heap.Work(1));
  if (value.is_undefined()) return FailUndefined(value);
  if (value.is_dict()) {
    if (const Value* found = value.dict().Find(key)) return *found;
  }
  const bool is_sequence = value.is_string() || (value.is_list() && value.list().is_sequence());
  if (is_sequence) {
    const std::optional<Number> index = AsNumber(key);
    if (index && !index->is_float) return ItemAt(heap, value, index->integer);
  }
  if (!key.is_string()) return MissingItem(value, key);
  if (std::optional<Value> method = Method(value, key.text())) return *std::move(method);
  if (value.kind() == Kind::kObject) {
    if (std::optional<Value> found = value.object()->Attribute(key.text()))
      return *std::move(found);
  }
  return MissingItem(value, key);
}

Result<Value> GetSlice(Heap& heap, const Value& value, const Value& begin, const Value& end,
                       const Value& step) {
  if (value.is_undefined()) return FailUndefined(value);
  const std::optional<int64_t> length = Length(value);
  if (!value.is_string() && !(value.is_list() && value.list().is_sequence())) {
    return Missing(value, "slice");
  }
  THAW_ASSIGN(const SliceRange range, ResolveSlice(begin, end, step, static_cast<size_t>(*length)));
  if (value.is_string()) return SliceString(heap, value.string(), range);
  Values items;
  THAW_TRY(heap.Work(range.count));
  items.reserve(range.count);
  for (size_t i = 0; i < range.count; ++i) {
    items.push_back(value.list().items()[range.begin + static_cast<int64_t>(i) * range.step]);
  }
  return heap.MakeList(std::move(items), value.list().list_kind());
}

}  // namespace thaw::jinja
