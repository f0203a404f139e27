#include "chat/heap.h"

namespace thaw::jinja {

Result<void> Heap::Work(uint64_t units) {
  work_done_ += units;
  if (work_done_ <= limits_.work_units) return {};
  return Fail(ErrorCode::kResourceExhausted, "the template takes too long: more than {} steps",
              limits_.work_units);
}

Result<void> Heap::Check(uint64_t bytes) const {
  if (bytes <= limits_.value_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted, "a value of {} bytes, the limit is {}", bytes,
              limits_.value_bytes);
}

Result<void> Heap::Claim(uint64_t bytes) {
  THAW_TRY(Check(bytes));
  THAW_TRY(Scan(bytes));
  bytes_made_ += bytes;
  if (bytes_made_ <= limits_.total_bytes) return {};
  return Fail(ErrorCode::kResourceExhausted,
              "the template makes too many values: more than {} bytes", limits_.total_bytes);
}

Result<Value> Heap::MakeString(std::string text) {
  THAW_TRY(Claim(text.size() + sizeof(String)));
  return Value(std::move(text));
}

Result<Value> Heap::MakeList(Values items, ListKind list_kind) {
  THAW_TRY(Claim(items.size() * sizeof(Value) + sizeof(List)));
  Value list(std::make_shared<const List>(std::move(items), list_kind));
  if (list.depth() <= kMaxValueDepth) return list;
  return Fail(ErrorCode::kResourceExhausted, "lists and dicts nested more than {} deep",
              kMaxValueDepth);
}

Result<Value> Heap::MakeDict(std::vector<Dict::Entry> entries) {
  THAW_TRY(Claim(entries.size() * (sizeof(Dict::Entry) + sizeof(uint32_t)) + sizeof(Dict)));
  for (const auto& [key, value] : entries) {
    if (Dict::IsKey(key)) continue;
    return Fail(ErrorCode::kInvalidArgument, "unhashable type: '{}'", key.type_name());
  }
  Value dict(std::make_shared<const Dict>(std::move(entries)));
  if (dict.depth() <= kMaxValueDepth) return dict;
  return Fail(ErrorCode::kResourceExhausted, "lists and dicts nested more than {} deep",
              kMaxValueDepth);
}

Result<void> DepthGuard::ok() const {
  if (heap_.evaluation_depth_ <= kMaxEvaluationDepth) return {};
  return Fail(ErrorCode::kResourceExhausted, "evaluation nested more than {} deep",
              kMaxEvaluationDepth);
}

}  // namespace thaw::jinja
