// Reads the payload of tool calls a byte at a time: one reader for each way of writing calls.
//
// A reader begins a call in the DeltaWriter as soon as it is sure that there is one, and never
// earlier: what fails before is no call, and its text is still the caller's. JSON arguments come
// out as they arrive; other ways of writing them are turned into JSON, argument by argument (kTags)
// or call by call (kPython, kBraces). Readers belong to their parser, see reply_parser.h; not
// thread safe. Time is linear in the text; memory is what the parser lets a reader hold
// (kMaxHeldBytes).
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "chat/reply_delta.h"
#include "chat/reply_format.h"

namespace thaw {

// Of one call or argument whose text is not known to be one yet: a file of twenty thousand lines.
inline constexpr size_t kMaxHeldBytes = size_t{1} << 20;
// Of a name, an id or a header, of which real ones have some dozens.
inline constexpr size_t kMaxNameBytes = 1024;

class CallReader {
 public:
  enum class Status {
    kMore,
    kDone,    // the payload has ended
    kFailed,  // what was read is no call, or no arguments of the call that began
  };

  virtual ~CallReader() = default;

  virtual Status Step(char c) = 0;
  // The end of the text after kMore: writes what the reader holds of the call that is open.
  virtual void Finish() {}

  // After kDone and kFailed: the last bytes, which the reader did not use.
  const std::string& unread() const { return unread_; }

 protected:
  Status EndBefore(Status status, std::string unread) {
    unread_ = std::move(unread);
    return status;
  }

 private:
  std::string unread_;
};

// `writer` and `format` must outlive the reader.
// {"name", "arguments"}, or a list of these. Where `strict`, an object needs both and may have
// nothing else than what belongs to calls: text without a marker may be any JSON.
std::unique_ptr<CallReader> NewJsonCallReader(DeltaWriter& writer, bool strict);
// The arguments of a call that has begun.
std::unique_ptr<CallReader> NewArgumentsReader(DeltaWriter& writer);
// By format.syntax, one of kNamedJson, kTags, kPython, kBraces.
std::unique_ptr<CallReader> NewNamedCallReader(DeltaWriter& writer, const CallFormat& format);
std::unique_ptr<CallReader> NewTagCallReader(DeltaWriter& writer, const CallFormat& format);
std::unique_ptr<CallReader> NewLiteralCallReader(DeltaWriter& writer, CallSyntax syntax);

// Whether a function may have this name: letters, digits, '_', '-', '.'.
bool IsCallName(std::string_view name);
bool IsCallNameCharacter(char c);

}  // namespace thaw
