// The arguments of calls that are written like Python's, as JSON.
//
// Pure functions. Time is linear in the text, nesting bounded by kMaxJsonDepth.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace thaw {

struct LiteralSyntax {
  std::string_view call_prefix;  // before the name
  char open;                     // of the arguments
  char close;
  char separator;                          // between an argument's key and its value
  std::array<std::string_view, 2> quotes;  // of strings; empty ones do not count
  bool has_escapes;                        // Python's, in strings
  bool has_bare_keys;                      // in objects inside of arguments
};

inline constexpr LiteralSyntax kPythonSyntax = {.call_prefix = "",
                                                .open = '(',
                                                .close = ')',
                                                .separator = '=',
                                                .quotes = {"\"", "'"},
                                                .has_escapes = true,
                                                .has_bare_keys = false};
// Gemma's: strings between tokens, so that nothing in them needs an escape.
inline constexpr LiteralSyntax kBraceSyntax = {.call_prefix = "call:",
                                               .open = '{',
                                               .close = '}',
                                               .separator = ':',
                                               .quotes = {"<|\"|>", "<escape>"},
                                               .has_escapes = false,
                                               .has_bare_keys = true};

// The quotes with which the text begins; empty where it begins with none.
std::string_view LeadingQuotes(std::string_view text, const LiteralSyntax& syntax);

// An object of JSON for what stands between the brackets of a call: key=value, key=value. Values
// are strings, numbers, True, False, None (or JSON's words), lists, tuples and dicts of these.
// Nothing for all else, also for arguments without a key: only the function knows their names.
std::optional<std::string> JsonOfArguments(std::string_view text, const LiteralSyntax& syntax);

}  // namespace thaw
