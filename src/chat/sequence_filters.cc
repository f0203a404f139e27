#include <algorithm>
#include <array>
#include <charconv>
#include <compare>

#include "base/check.h"
#include "chat/filters.h"
#include "chat/operators.h"
#include "chat/print.h"
#include "chat/text.h"
#include "chat/value_tests.h"

namespace thaw::jinja {
namespace {

using ListPtr = std::shared_ptr<const List>;

Result<ListPtr> ListInput(Call& call) { return Iterate(call.heap(), call.self()); }

Result<Value> Generator(Call& call, Values items) {
  return call.heap().MakeList(std::move(items), ListKind::kGenerator);
}

// "a.b.0" looked up step by step; a value that is undefined becomes `fallback` where there is one.
Result<Value> LookUp(Heap& heap, Value value, const Value& path, const Value* fallback) {
  if (!path.is_string()) return GetItem(heap, value, path);
  for (const std::string_view part : Split(path.text(), ".", -1)) {
    int64_t index = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool is_index = !part.empty() && read.ec == std::errc() && part[0] != '-' &&
                          read.ptr == part.data() + part.size();
    const Value key = is_index ? Value(index) : Value(std::string(part));
    THAW_ASSIGN(value, GetItem(heap, value, key));
    if (fallback != nullptr && value.is_undefined()) value = *fallback;
  }
  return value;
}

// The key by which values are sorted or compared: an attribute where one is named, and strings
// without regard to case.
class KeyOf {
 public:
  KeyOf(Heap& heap, const Value* attribute, bool case_sensitive)
      : heap_(heap),
        attribute_(attribute == nullptr || attribute->is_none() ? nullptr : attribute),
        case_sensitive_(case_sensitive) {}

  Result<Value> operator()(const Value& item, const Value* fallback = nullptr) const {
    Value key = item;
    if (attribute_ != nullptr && attribute_->is_string() &&
        attribute_->text().find(',') != std::string::npos) {
      return Several(item, fallback);
    }
    if (attribute_ != nullptr) {
      THAW_ASSIGN(key, LookUp(heap_, item, *attribute_, fallback));
    }
    if (case_sensitive_ || !key.is_string()) return key;
    return heap_.MakeString(ToLower(key.text()));
  }

 private:
  // Keys by "first,second" are compared one after the other.
  Result<Value> Several(const Value& item, const Value* fallback) const {
    Values keys;
    for (const std::string_view part : Split(attribute_->text(), ",", -1)) {
      const Value path{std::string(part)};
      THAW_ASSIGN(Value key, LookUp(heap_, item, path, fallback));
      if (!case_sensitive_ && key.is_string()) {
        THAW_ASSIGN(key, heap_.MakeString(ToLower(key.text())));
      }
      keys.push_back(std::move(key));
    }
    return heap_.MakeList(std::move(keys));
  }

  Heap& heap_;
  const Value* attribute_;
  bool case_sensitive_;
};

struct Keyed {
  Value key;
  Value item;
};

// Stable merge sort: the order comes from comparisons that can fail, which std::sort cannot take.
Result<void> Sort(Heap& heap, std::vector<Keyed>& items, bool reverse) {
  std::vector<Keyed> merged(items.size());
  for (size_t width = 1; width < items.size(); width *= 2) {
    for (size_t begin = 0; begin < items.size(); begin += 2 * width) {
      const size_t middle = std::min(begin + width, items.size());
      const size_t end = std::min(begin + 2 * width, items.size());
      size_t left = begin, right = middle, out = begin;
      while (left < middle && right < end) {
        THAW_ASSIGN(const auto order, Compare(heap, items[right].key, items[left].key));
        const bool take_right = reverse ? std::is_gt(order) : std::is_lt(order);
        merged[out++] = std::move(items[take_right ? right++ : left++]);
      }
      while (left < middle) merged[out++] = std::move(items[left++]);
      while (right < end) merged[out++] = std::move(items[right++]);
    }
    items.swap(merged);
  }
  return {};
}

Result<std::vector<Keyed>> WithKeys(Heap& heap, const Values& items, const KeyOf& key_of,
                                    const Value* fallback = nullptr) {
  THAW_TRY(heap.Check(items.size() * sizeof(Keyed)));
  std::vector<Keyed> keyed;
  keyed.reserve(items.size());
  for (const Value& item : items) {
    THAW_ASSIGN(Value key, key_of(item, fallback));
    keyed.push_back({std::move(key), item});
  }
  return keyed;
}

Values ItemsOf(std::vector<Keyed> keyed) {
  Values items;
  items.reserve(keyed.size());
  for (Keyed& entry : keyed) items.push_back(std::move(entry.item));
  return items;
}

Result<Value> SortFilter(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  const KeyOf key_of(call.heap(), call.Get(2), call.Flag(1, false));
  THAW_ASSIGN(std::vector<Keyed> keyed, WithKeys(call.heap(), list->items(), key_of));
  THAW_TRY(Sort(call.heap(), keyed, call.Flag(0, false)));
  return call.heap().MakeList(ItemsOf(std::move(keyed)));
}

Result<Value> DictSort(Call& call) {
  if (!call.self().is_dict())
    return call.Fail("expected a dict, found '{}'", call.self().type_name());
  THAW_ASSIGN(const std::string_view by, call.Text(1, "key"));
  if (by != "key" && by != "value") return call.Fail("sorts by 'key' or 'value'");
  const KeyOf key_of(call.heap(), nullptr, call.Flag(0, false));
  std::vector<Keyed> keyed;
  for (const auto& [key, value] : call.self().dict().entries()) {
    THAW_ASSIGN(Value sort_key, key_of(by == "key" ? key : value));
    THAW_ASSIGN(Value pair, call.heap().MakeList({key, value}, ListKind::kTuple));
    keyed.push_back({std::move(sort_key), std::move(pair)});
  }
  THAW_TRY(Sort(call.heap(), keyed, call.Flag(2, false)));
  return call.heap().MakeList(ItemsOf(std::move(keyed)));
}

Result<Value> GroupBy(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  const KeyOf key_of(call.heap(), call.Get(0), call.Flag(2, false));
  THAW_ASSIGN(std::vector<Keyed> keyed, WithKeys(call.heap(), list->items(), key_of, call.Get(1)));
  THAW_TRY(Sort(call.heap(), keyed, false));
  const KeyOf name_of(call.heap(), call.Get(0), true);
  Values groups;
  for (size_t begin = 0; begin < keyed.size();) {
    Values group;
    size_t end = begin;
    for (; end < keyed.size(); ++end) {
      THAW_ASSIGN(const bool same, Equal(call.heap(), keyed[end].key, keyed[begin].key));
      if (!same) break;
      group.push_back(keyed[end].item);
    }
    THAW_ASSIGN(Value name, name_of(group.front(), call.Get(1)));
    THAW_ASSIGN(Value members, call.heap().MakeList(std::move(group)));
    THAW_ASSIGN(Value pair,
                call.heap().MakeList({std::move(name), std::move(members)}, ListKind::kTuple));
    groups.push_back(std::move(pair));
    begin = end;
  }
  return call.heap().MakeList(std::move(groups));
}

Result<Value> Unique(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  const KeyOf key_of(call.heap(), call.Get(1), call.Flag(0, false));
  Values keys, items;
  for (const Value& item : list->items()) {
    THAW_ASSIGN(Value key, key_of(item));
    bool seen = false;
    for (size_t i = 0; i < keys.size() && !seen; ++i) {
      THAW_ASSIGN(seen, Equal(call.heap(), keys[i], key));
    }
    if (seen) continue;
    keys.push_back(std::move(key));
    items.push_back(item);
  }
  return Generator(call, std::move(items));
}

template <bool kMax>
Result<Value> Extreme(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  if (list->items().empty()) {
    return Value(Undefined{std::make_shared<const std::string>("no item of an empty sequence")});
  }
  const KeyOf key_of(call.heap(), call.Get(1), call.Flag(0, false));
  const Value* best = nullptr;
  Value best_key;
  for (const Value& item : list->items()) {
    THAW_ASSIGN(Value key, key_of(item));
    bool better = best == nullptr;
    if (!better) {
      THAW_ASSIGN(const auto order, Compare(call.heap(), key, best_key));
      better = kMax ? std::is_gt(order) : std::is_lt(order);
    }
    if (!better) continue;
    best = &item;
    best_key = std::move(key);
  }
  THAW_CHECK(best != nullptr);  // the list is not empty
  return *best;
}

Result<Value> Sum(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  const KeyOf key_of(call.heap(), call.Get(0), true);
  Value sum = call.Get(1) == nullptr ? Value(int64_t{0}) : *call.Get(1);
  if (sum.is_string()) return call.Fail("strings are joined, not summed");
  for (const Value& item : list->items()) {
    THAW_ASSIGN(const Value term, key_of(item));
    THAW_ASSIGN(sum, Apply(call.heap(), BinaryOperator::kAdd, sum, term));
  }
  return sum;
}

Result<Value> Join(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  std::string separator;
  if (call.Get(0) != nullptr) {
    THAW_ASSIGN(separator, ToText(call.heap(), *call.Get(0)));
  }
  const KeyOf key_of(call.heap(), call.Get(1), true);
  std::string out;
  for (const Value& item : list->items()) {
    THAW_TRY(call.heap().Check(out.size() + separator.size()));
    THAW_TRY(call.heap().Scan(separator.size()));
    if (&item != list->items().data()) out += separator;
    THAW_ASSIGN(const Value part, key_of(item));
    THAW_TRY(AppendText(call.heap(), part, out));
  }
  return call.heap().MakeString(std::move(out));
}

template <bool kLast>
Result<Value> End(Call& call) {
  if (kLast && call.self().is_list() && call.self().list().list_kind() == ListKind::kGenerator) {
    return call.Fail("a generator cannot be reversed");
  }
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  if (!list->items().empty()) return kLast ? list->items().back() : list->items().front();
  return Value(Undefined{std::make_shared<const std::string>("no item of an empty sequence")});
}

Result<Value> ToList(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  return call.heap().MakeList(list->items());
}

Result<Value> Reverse(Call& call) {
  if (call.self().is_string()) {
    return GetSlice(call.heap(), call.self(), None{}, None{}, Value(int64_t{-1}));
  }
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  return Generator(call, Values(list->items().rbegin(), list->items().rend()));
}

Result<Value> Items(Call& call) {
  if (call.self().is_undefined()) return Generator(call, {});
  if (!call.self().is_dict())
    return call.Fail("expected a dict, found '{}'", call.self().type_name());
  Values pairs;
  for (const auto& [key, value] : call.self().dict().entries()) {
    THAW_ASSIGN(Value pair, call.heap().MakeList({key, value}, ListKind::kTuple));
    pairs.push_back(std::move(pair));
  }
  return Generator(call, std::move(pairs));
}

Result<Value> Map(Call& call) {
  const Arguments& all = call.all();
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  Values out;
  if (!all.positional.empty()) {
    if (!all.positional[0].is_string()) return call.Fail("expected the name of a filter");
    Arguments rest = all;
    rest.positional.erase(rest.positional.begin());
    for (const Value& item : list->items()) {
      THAW_ASSIGN(Value mapped, ApplyFilter(call.runtime(), all.positional[0].text(), item, rest));
      out.push_back(std::move(mapped));
    }
    return Generator(call, std::move(out));
  }
  const Value* attribute = nullptr;
  const Value* fallback = nullptr;
  for (const auto& [name, value] : all.named) {
    if (name != "attribute" && name != "default")
      return call.Fail("unexpected argument '{}'", name);
    (name == "attribute" ? attribute : fallback) = &value;
  }
  if (attribute == nullptr) return call.Fail("needs a filter or an attribute");
  const bool has_fallback = fallback != nullptr && !fallback->is_none();
  for (const Value& item : list->items()) {
    THAW_ASSIGN(Value mapped,
                LookUp(call.heap(), item, *attribute, has_fallback ? fallback : nullptr));
    out.push_back(std::move(mapped));
  }
  return Generator(call, std::move(out));
}

// The items (kAttribute: the items whose attribute) that pass a test, or that fail it.
template <bool kWanted, bool kAttribute>
Result<Value> SelectItems(Call& call) {
  Arguments arguments = call.all();
  if (!call.self().Truth()) return Generator(call, {});
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  const auto take_first = [&] {
    Value first = std::move(arguments.positional.front());
    arguments.positional.erase(arguments.positional.begin());
    return first;
  };
  if (kAttribute && arguments.positional.empty()) return call.Fail("missing attribute name");
  const Value attribute = kAttribute ? take_first() : Value();
  const Value test = arguments.positional.empty() ? Value() : take_first();
  if (!test.is_undefined() && !test.is_string()) return call.Fail("expected the name of a test");
  Values out;
  for (const Value& item : list->items()) {
    Value subject = item;
    if (kAttribute) {
      THAW_ASSIGN(subject, LookUp(call.heap(), item, attribute, nullptr));
    }
    bool passes = subject.Truth();
    if (!test.is_undefined()) {
      THAW_ASSIGN(passes, ApplyTest(call.runtime(), test.text(), subject, arguments));
    }
    THAW_TRY(call.heap().Work(1));
    if (passes == kWanted) out.push_back(item);
  }
  return Generator(call, std::move(out));
}

Result<Value> Batch(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  THAW_ASSIGN(const int64_t size, call.Integer(0, 1));
  if (size < 1) return call.Fail("expected a size of at least 1");
  const Values& items = list->items();
  Values batches;
  for (size_t begin = 0; begin < items.size();) {
    const size_t count = std::min<size_t>(static_cast<size_t>(size), items.size() - begin);
    Values batch(items.begin() + begin, items.begin() + begin + count);
    if (call.Get(1) != nullptr && !call.Get(1)->is_none()) {
      THAW_TRY(call.heap().Check(static_cast<uint64_t>(size)));
      batch.resize(static_cast<size_t>(size), *call.Get(1));
    }
    THAW_ASSIGN(Value made, call.heap().MakeList(std::move(batch)));
    batches.push_back(std::move(made));
    begin += count;
  }
  return Generator(call, std::move(batches));
}

// Into `slices` lists of sizes that differ by one at most.
Result<Value> SliceFilter(Call& call) {
  THAW_ASSIGN(const ListPtr list, ListInput(call));
  THAW_ASSIGN(const int64_t slices, call.Integer(0, 1));
  if (slices < 1) return call.Fail("expected at least 1 slice");
  THAW_TRY(call.heap().Check(static_cast<uint64_t>(slices)));
  const size_t count = static_cast<size_t>(slices);
  const size_t size = list->items().size() / count;
  const size_t longer = list->items().size() % count;
  Values out;
  auto at = list->items().begin();
  for (size_t i = 0; i < count; ++i) {
    const size_t length = size + (i < longer ? 1 : 0);
    Values slice(at, at + static_cast<int64_t>(length));
    at += static_cast<int64_t>(length);
    if (call.Get(1) != nullptr && !call.Get(1)->is_none() && i >= longer) {
      slice.push_back(*call.Get(1));
    }
    THAW_ASSIGN(Value made, call.heap().MakeList(std::move(slice)));
    out.push_back(std::move(made));
  }
  return Generator(call, std::move(out));
}

constexpr std::array<Builtin, 20> kSequenceFilters = {{
    {"batch", "linecount fill_with=", Batch},
    {"dictsort", "case_sensitive= by= reverse=", DictSort},
    {"first", "", End<false>},
    {"groupby", "attribute default= case_sensitive=", GroupBy},
    {"items", "", Items},
    {"join", "d= attribute=", Join},
    {"last", "", End<true>},
    {"list", "", ToList},
    {"map", "*", Map},
    {"max", "case_sensitive= attribute=", Extreme<true>},
    {"min", "case_sensitive= attribute=", Extreme<false>},
    {"reject", "*", SelectItems<false, false>},
    {"rejectattr", "*", SelectItems<false, true>},
    {"reverse", "", Reverse},
    {"select", "*", SelectItems<true, false>},
    {"selectattr", "*", SelectItems<true, true>},
    {"slice", "slices fill_with=", SliceFilter},
    {"sort", "reverse= case_sensitive= attribute=", SortFilter},
    {"sum", "attribute= start=", Sum},
    {"unique", "case_sensitive= attribute=", Unique},
}};

}  // namespace

const Builtin* FindSequenceFilter(std::string_view name) {
  return FindBuiltin(kSequenceFilters, name);
}

}  // namespace thaw::jinja
