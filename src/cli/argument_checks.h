// Checks of single arguments, as the parser of the command line takes them.
//
// A check says in one sentence what is wrong with a text, and nothing in the help: what an option
// takes is said there once, by its type name. Pure functions.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace thaw::cli {

// All of `text` as a number.
template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

// What `parse`, which gives an optional, understands.
template <typename Parse>
CLI::Validator Accepts(Parse parse, const std::string& form) {
  return CLI::Validator(
      [parse, form](std::string& text) {
        return parse(text) ? std::string() : fmt::format("{} is not {}", text, form);
      },
      "");
}

// What `parse`, which gives a Result, understands; its error is the complaint.
template <typename Parse>
CLI::Validator Passes(Parse parse) {
  return CLI::Validator(
      [parse](std::string& text) {
        const auto parsed = parse(text);
        return parsed ? std::string() : parsed.error().message;
      },
      "");
}

template <typename T>
CLI::Validator Between(T low, T high) {
  CLI::Validator range = CLI::Range(low, high);
  return range.description("");
}

}  // namespace thaw::cli
