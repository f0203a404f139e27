#include "base/small_files.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>

namespace thaw {
namespace {

bool HasWord(const std::string& comma_separated, std::string_view word) {
  std::istringstream words(comma_separated);
  for (std::string one; std::getline(words, one, ',');) {
    if (one == word) return true;
  }
  return false;
}

}  // namespace

std::string ReadSmallFile(const std::string& path) {
  std::ifstream in(path);
  std::ostringstream text;
  if (in) text << in.rdbuf();
  return std::move(text).str();
}

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return number;
}

std::optional<uint64_t> NumberOfLine(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    if (line.starts_with(name) && line.substr(name.size()).starts_with(' ')) {
      return LeadingNumber(line.substr(name.size() + 1));
    }
    text.remove_prefix(std::min(line.size() + 1, text.size()));
  }
  return std::nullopt;
}

// Lines of /proc/self/cgroup read "hierarchy:controllers:path"; version 2 has no controllers there.
void VisitCgroupFolders(const std::string& root, std::string_view controller,
                        FunctionRef<void(const std::string&, bool)> visit) {
  std::istringstream lines(ReadSmallFile(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const size_t first = line.find(':');
    const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos || second + 1 >= line.size() || line[second + 1] != '/') {
      continue;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool is_version1 = !controllers.empty();
    if (is_version1 && !HasWord(controllers, controller)) continue;
    std::string mount = root + "/sys/fs/cgroup";
    if (is_version1) mount += "/" + std::string(controller);
    std::string path = line.substr(second + 1);
    while (true) {
      visit(mount + path + (path.ends_with('/') ? "" : "/"), is_version1);
      if (path.size() <= 1) break;
      path.resize(path.find_last_of('/'));
    }
  }
}

}  // namespace thaw
