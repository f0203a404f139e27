// The values of a template: what Python's None, bool, int, float, str, list, tuple, dict and
// functions are to Jinja.
//
// Strings, lists and dicts are immutable and shared, so a Value copies in O(1) and values form no
// cycles. Everything that can change (namespaces, loops, macros) is an Object, owned by the Heap of
// the rendering (heap.h) and only pointed to from here: a Value never outlives that Heap.
// Lists and dicts are made by the Heap, which bounds their size and depth. Not thread safe, except
// that several threads may copy one Value.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"

namespace thaw::jinja {

class Dict;
class List;
class Object;
class String;
class Value;
struct Builtin;

using Values = std::vector<Value>;

enum class Kind {
  kUndefined,
  kNone,
  kBool,
  kInt,
  kFloat,
  kString,
  kList,
  kDict,
  kFunction,
  kObject
};

struct None {};

// A missing variable, attribute or argument. It prints as nothing; `why` is the error of every
// other use ("'x' is undefined").
struct Undefined {
  std::shared_ptr<const std::string> why;
};

// A function of the language itself, or a method with the value it was taken from.
struct Function {
  const Builtin* builtin;
  std::shared_ptr<const Value> self;  // null for plain functions
};

class Value {
 public:
  Value() : data_(Undefined{}) {}
  Value(None) : data_(None{}) {}  // NOLINT(google-explicit-constructor)
  Value(Undefined undefined)
      : data_(std::move(undefined)) {}  // NOLINT(google-explicit-constructor)
  explicit Value(bool value) : data_(value) {}
  explicit Value(int64_t value) : data_(value) {}
  explicit Value(double value) : data_(value) {}
  // Unmetered, for text that exists already (the template's own, the context's); Heap::String is
  // for text made while rendering. Must be valid UTF-8.
  explicit Value(std::string text);
  explicit Value(std::shared_ptr<const String> text) : data_(std::move(text)) {}
  explicit Value(std::shared_ptr<const List> list) : data_(std::move(list)) {}
  explicit Value(std::shared_ptr<const Dict> dict) : data_(std::move(dict)) {}
  explicit Value(Function function) : data_(std::move(function)) {}
  explicit Value(Object* object) : data_(object) {}

  Kind kind() const { return static_cast<Kind>(data_.index()); }
  bool is_undefined() const { return kind() == Kind::kUndefined; }
  bool is_none() const { return kind() == Kind::kNone; }
  bool is_string() const { return kind() == Kind::kString; }
  bool is_list() const { return kind() == Kind::kList; }
  bool is_dict() const { return kind() == Kind::kDict; }

  // Each may be called only on a value of its kind.
  bool boolean() const { return std::get<bool>(data_); }
  int64_t integer() const { return std::get<int64_t>(data_); }
  double real() const { return std::get<double>(data_); }
  const String& string() const { return *std::get<std::shared_ptr<const String>>(data_); }
  const std::string& text() const;
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  std::shared_ptr<const List> shared_list() const {
    return std::get<std::shared_ptr<const List>>(data_);
  }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  const Function& function() const { return std::get<Function>(data_); }
  Object* object() const { return std::get<Object*>(data_); }

  // Why an undefined value is undefined.
  std::string_view why() const;
  // As Python names it in its errors: "str", "dict", "Undefined".
  std::string_view type_name() const;
  // Levels of lists and dicts: 0 for a scalar.
  int depth() const;
  // False, None, undefined, zero and everything empty are false.
  bool Truth() const;

 private:
  std::variant<Undefined, None, bool, int64_t, double, std::shared_ptr<const String>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, Function, Object*>
      data_;
};

// UTF-8 text that knows its length in characters, so that indexing ASCII takes O(1).
class String {
 public:
  explicit String(std::string text);

  const std::string& text() const { return text_; }
  size_t length() const { return length_; }  // in characters, as Python counts
  bool is_ascii() const { return length_ == text_.size(); }
  // Byte offset of a character; `character` <= length(). O(offset) unless the text is ASCII.
  size_t ByteOffset(size_t character) const;

 private:
  std::string text_;
  size_t length_;
};

// What Python keeps apart although all are sequences of values to us.
enum class ListKind : uint8_t { kList, kTuple, kRange, kKeys, kValues, kItems, kGenerator };

class List {
 public:
  List(Values items, ListKind list_kind);

  const Values& items() const { return items_; }
  ListKind list_kind() const { return list_kind_; }
  // Lists, tuples and ranges have a length and can be indexed; the views of a dict have a length.
  bool is_sequence() const { return list_kind_ <= ListKind::kRange; }
  bool is_sized() const { return list_kind_ != ListKind::kGenerator; }
  int depth() const { return depth_; }

 private:
  Values items_;
  ListKind list_kind_;
  int depth_;
};

// Keeps insertion order. Keys are strings, numbers, bools and None; 1, 1.0 and true are one key.
// Lookup takes O(log n) through an index sorted by key.
class Dict {
 public:
  using Entry = std::pair<Value, Value>;

  // Of equal keys, the first keeps its place and the last its value. Every key IsKey().
  explicit Dict(std::vector<Entry> entries);

  static bool IsKey(const Value& value);

  const std::vector<Entry>& entries() const { return entries_; }
  const Value* Find(const Value& key) const;  // null where it is not there
  const Value* Find(std::string_view key) const;
  int depth() const { return depth_; }

 private:
  std::vector<Entry> entries_;
  std::vector<uint32_t> by_key_;
  int depth_;
};

// Arguments of a call as written: positional ones, then named ones. The names live as long as the
// template or, for `**dict`, as long as the dict.
struct Arguments {
  Values positional;
  std::vector<std::pair<std::string, Value>> named;
};

// Something with an identity that can change during the rendering. Owned by the Heap.
class Object {
 public:
  virtual ~Object() = default;
  virtual std::string_view type_name() const = 0;
  virtual bool is_callable() const { return false; }
  // Null where there is no such attribute.
  virtual std::optional<Value> Attribute(std::string_view name) const;
  virtual Result<Value> Call(const Arguments& arguments);
};

// A number for arithmetic: bools count as 0 and 1.
struct Number {
  bool is_float = false;
  int64_t integer = 0;  // where !is_float
  double real = 0;      // always
};
std::optional<Number> AsNumber(const Value& value);

}  // namespace thaw::jinja
