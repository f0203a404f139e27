// Stands in for libFuzzer where the compiler has none: runs a fuzz target over its corpus, and over
// mutations of it that are the same in every run.
//
//   gguf_fuzz CORPUS_DIRECTORY MUTATIONS
//
// A finding is a crash or a sanitizer's report, as with libFuzzer. Exit status 1 without a corpus.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string_view>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Input = std::vector<uint8_t>;

// Every regular file below `directory`, in the order of their paths.
std::vector<Input> ReadCorpus(const std::filesystem::path& directory) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<Input> inputs;
  for (const auto& path : paths) {
    std::ifstream file(path, std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return inputs;
}

class Mutator {
 public:
  explicit Mutator(const std::vector<Input>& corpus) : corpus_(corpus) {}

  // One corpus input with one to four changes.
  Input Next() {
    Input input = corpus_[Below(corpus_.size())];
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(input);
    return input;
  }

 private:
  // The standard fixes this generator's numbers; it does not fix those of its distributions.
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void Change(Input& input) {
    switch (Below(5)) {
      case 0:
        return FlipBits(input);
      case 1:
        return Truncate(input);
      case 2:
        return Splice(input);
      case 3:
        return OverwriteInteger(input);
      default:
        return InsertInteger(input);
    }
  }

  void FlipBits(Input& input) {
    if (!input.empty()) input[Below(input.size())] ^= static_cast<uint8_t>(1 + Below(255));
  }

  void Truncate(Input& input) { input.resize(Below(input.size() + 1)); }

  // The start of this input, then the end of another: at most the sum of two corpus inputs' sizes.
  void Splice(Input& input) {
    const Input& other = corpus_[Below(corpus_.size())];
    Truncate(input);
    input.insert(input.end(), other.begin() + Offset(other), other.end());
  }

  void OverwriteInteger(Input& input) {
    const Input bytes = InterestingInteger();
    if (input.size() < bytes.size()) return;
    const size_t offset = Below(input.size() - bytes.size() + 1);
    std::memcpy(input.data() + offset, bytes.data(), bytes.size());
  }

  void InsertInteger(Input& input) {
    const Input bytes = InterestingInteger();
    input.insert(input.begin() + Offset(input), bytes.begin(), bytes.end());
  }

  ptrdiff_t Offset(const Input& input) { return static_cast<ptrdiff_t>(Below(input.size() + 1)); }

  // Counts and sizes at the edges of what fits, in 1, 2, 4 or 8 little-endian bytes.
  Input InterestingInteger() {
    constexpr std::array<uint64_t, 14> kValues = {
        0,         1,         7,          0x7f,       0x80,       0xff,
        0x7fff,    0xffff,    0x7fffffff, 0x80000000, 0xffffffff, uint64_t{1} << 62,
        INT64_MAX, UINT64_MAX};
    const uint64_t value = kValues[Below(kValues.size())];
    Input bytes(size_t{1} << Below(4));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(value >> (8 * i));
    return bytes;
  }

  const std::vector<Input>& corpus_;
  std::mt19937_64 random_;
};

// Passes a heap block of exactly the input's size, so that AddressSanitizer sees one byte too many.
void Run(const Input& input) {
  const auto block = std::make_unique<uint8_t[]>(input.size());
  std::ranges::copy(input, block.get());
  LLVMFuzzerTestOneInput(block.get(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t mutations = 0;
  const std::string_view count = argc == 3 ? argv[2] : "";
  const auto parsed = std::from_chars(count.data(), count.data() + count.size(), mutations);
  if (count.empty() || parsed.ptr != count.data() + count.size()) {
    std::fprintf(stderr, "usage: %s CORPUS_DIRECTORY MUTATIONS\n", argv[0]);
    return 2;
  }
  const std::vector<Input> corpus = ReadCorpus(argv[1]);
  if (corpus.empty()) {
    std::fprintf(stderr, "%s: no corpus in %s\n", argv[0], argv[1]);
    return 1;
  }
  for (const Input& input : corpus) Run(input);
  Mutator mutator(corpus);
  for (uint64_t i = 0; i < mutations; ++i) Run(mutator.Next());
  std::printf("%zu inputs, %llu mutations, no finding\n", corpus.size(),
              static_cast<unsigned long long>(mutations));
  return 0;
}
