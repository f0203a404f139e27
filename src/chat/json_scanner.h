// Reads one JSON value (RFC 8259) a byte at a time and says where it ends.
//
// It keeps no text, only a bit for each level: memory and time for a byte are constant, whatever
// the text is. It is strict but for control characters inside of strings, which models write and
// which CopyJson escapes. Bytes beyond ASCII are taken as they are; the text must be UTF-8. Not
// thread safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace thaw {

// Levels of objects and lists: the bits of the scanner's stack, and several times what arguments of
// real tools have.
inline constexpr int kMaxJsonDepth = 64;

class JsonScanner {
 public:
  enum class Status : uint8_t {
    kMore,
    kDone,        // with this byte
    kDoneBefore,  // before this byte, which is not read: a number at the root ends like this
    kBad,         // this byte cannot stand here
  };

  // No byte may follow one that did not return kMore.
  Status Step(char c);
  // The end of the text: whether a number that was read so far is whole.
  bool MayEndHere() const { return depth_ == 0 && IsWholeNumber(); }
  bool in_string() const { return state_ == State::kString; }

 private:
  enum class State : uint8_t {
    kValue,
    kFirstItem,
    kFirstKey,
    kKey,
    kColon,
    kNext,
    kString,
    kEscape,
    kHex,
    kLiteral,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
  };

  Status BeginValue(char c);
  Status StepInString(char c);
  Status StepInNumber(char c);
  Status StepNext(char c);
  Status Open(bool is_object);
  Status Close(bool is_object);
  Status EndValue();
  bool InObject() const { return (objects_ >> (depth_ - 1) & 1) != 0; }
  bool IsWholeNumber() const;

  State state_ = State::kValue;
  bool is_key_ = false;       // the string that is read
  uint8_t hex_count_ = 0;     // digits of \uXXXX still to come
  std::string_view literal_;  // what is still to come of true, false, null
  int depth_ = 0;
  uint64_t objects_ = 0;  // bit for each level: 1 for an object, 0 for a list
};

// The blanks of JSON.
inline bool IsJsonBlank(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
// The text without blanks at its ends.
std::string_view TrimJsonBlanks(std::string_view text);

// Appends a byte of JSON text; `in_string`, as the scanner has it before the byte.
void CopyJson(char c, bool in_string, std::string& out);
// The text, without blanks around it, where it is one whole JSON value.
std::optional<std::string> WholeJson(std::string_view text);
// A string of JSON with its quotes. Invalid UTF-8 becomes U+FFFD.
std::string JsonString(std::string_view text);
// The text of a JSON string with its quotes; fails on halves of surrogate pairs.
std::optional<std::string> TextOfJsonString(std::string_view json);

}  // namespace thaw
