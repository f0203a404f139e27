#include "cli/npy_writer.h"

#include <bit>
#include <functional>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/check.h"

namespace thaw::cli {

static_assert(std::endian::native == std::endian::little);

std::string NpyHeader(std::span<const int64_t> shape) {
  using std::string_view_literals::operator""sv;
  constexpr std::string_view kMagicAndVersion = "\x93NUMPY\x01\x00"sv;
  constexpr size_t kAlignment = 64;
  std::string dims;
  for (const int64_t dim : shape) dims += fmt::format("{}, ", dim);
  // A tuple of one element keeps its comma.
  if (shape.size() == 1) dims.resize(dims.size() - 1);
  if (shape.size() > 1) dims.resize(dims.size() - 2);
  std::string description =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}), }}", dims);
  const size_t used = kMagicAndVersion.size() + 2 + description.size() + 1;
  description.append((kAlignment - used % kAlignment) % kAlignment, ' ');
  description += '\n';
  std::string header(kMagicAndVersion);
  header += static_cast<char>(description.size() & 0xff);
  header += static_cast<char>(description.size() >> 8);
  return header + description;
}

Result<NpyWriter> NpyWriter::Create(const std::string& path, std::vector<int64_t> shape) {
  THAW_ASSIGN(OutputFile file, OutputFile::Create(path));
  THAW_TRY(file.Append(NpyHeader(shape)));
  const int64_t elements =
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return NpyWriter(std::move(file), elements);
}

Result<void> NpyWriter::Append(std::span<const float> elements) {
  THAW_CHECK(std::cmp_less_equal(elements.size(), missing_));
  missing_ -= static_cast<int64_t>(elements.size());
  return file_.Append(std::as_bytes(elements));
}

Result<void> NpyWriter::Commit() {
  THAW_CHECK(missing_ == 0);
  return file_.Commit();
}

}  // namespace thaw::cli
