#include "engine/rates_file.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "io/device.h"
#include "io/output_file.h"

namespace thaw {
namespace {

// The version counts up when what is measured changes or kernels become much faster (4: on Intel's
// CPUs), so that old rates are measured again.
constexpr std::string_view kVersion = "4";
constexpr std::string_view kFirstLine = "thaw machine rates 4";

// All types and hundreds of devices take less.
constexpr uint64_t kMaxFileBytes = 64 << 10;

// Takes lines and words off a text, and remembers the line for errors.
class LineReader {
 public:
  LineReader(std::string_view path, std::string_view text) : path_(path), rest_(text) {}

  bool at_end() const { return rest_.empty(); }

  // The next line, without its break, must begin with `word`; what follows it is the value.
  Result<std::string_view> Value(std::string_view word) {
    const size_t length = rest_.find('\n');
    if (length == std::string_view::npos) return Wrong("a whole line");
    ++line_number_;
    const std::string_view line = rest_.substr(0, length);
    rest_.remove_prefix(length + 1);
    if (!line.starts_with(word) || line.size() <= word.size() || line[word.size()] != ' ') {
      return Wrong(word);
    }
    return line.substr(word.size() + 1);
  }

  // Whether the next line begins with `word`.
  bool NextIs(std::string_view word) const {
    return rest_.starts_with(word) && rest_.substr(word.size()).starts_with(' ');
  }

  // A number above 0.
  template <typename Number>
  Result<Number> ParseNumber(std::string_view text) const {
    Number number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool is_whole = error == std::errc() && end == text.data() + text.size();
    if (!is_whole || !(number > 0) || !std::isfinite(static_cast<double>(number))) {
      return Wrong("a number above 0");
    }
    return number;
  }

  template <typename Number>
  Result<Number> NumberOf(std::string_view word) {
    THAW_ASSIGN(const std::string_view value, Value(word));
    return ParseNumber<Number>(value);
  }

  tl::unexpected<Error> Wrong(std::string_view expected) const {
    return Fail(ErrorCode::kCorrupt, "{}: line {}: expected {}", path_, line_number_, expected);
  }

 private:
  std::string_view path_;
  std::string_view rest_;
  int line_number_ = 0;
};

// The word up to the next space, taken off `text` with the space.
std::string_view TakeWord(std::string_view& text) {
  const size_t length = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(std::min(length + 1, text.size()));
  return word;
}

Result<MatMulRate> ReadMatMulRate(LineReader& lines) {
  THAW_ASSIGN(std::string_view value, lines.Value("matmul"));
  const std::optional<WeightForm> form = FindForm(TakeWord(value));
  if (!form) return lines.Wrong("an element type");
  MatMulRate rate = {.type = *form};
  THAW_ASSIGN(rate.decode_bytes_per_second, lines.ParseNumber<double>(TakeWord(value)));
  THAW_ASSIGN(rate.prefill_bytes_per_second, lines.ParseNumber<double>(value));
  return rate;
}

Result<DiskRate> ReadDiskRate(LineReader& lines) {
  THAW_ASSIGN(std::string_view value, lines.Value("disk"));
  DiskRate rate = {.device = std::string(TakeWord(value))};
  THAW_ASSIGN(rate.bytes_per_second, lines.ParseNumber<double>(value));
  return rate;
}

Result<RatesFile> ParseRates(LineReader& lines) {
  RatesFile file;
  MachineIdentity& identity = file.identity;
  THAW_ASSIGN(const std::string_view version, lines.Value("thaw machine rates"));
  if (version != kVersion) return lines.Wrong(kFirstLine);
  THAW_ASSIGN(identity.cpu, lines.Value("cpu"));
  THAW_ASSIGN(identity.cores, lines.NumberOf<int>("cores"));
  THAW_ASSIGN(identity.kernels, lines.Value("kernels"));
  THAW_ASSIGN(identity.threads, lines.NumberOf<int>("threads"));
  MachineRates& rates = file.rates;
  THAW_ASSIGN(rates.buffer_bytes, lines.NumberOf<uint64_t>("buffer_bytes"));
  THAW_ASSIGN(rates.memory_bytes_per_second, lines.NumberOf<double>("memory_bytes_per_second"));
  THAW_ASSIGN(rates.fork_join_seconds, lines.NumberOf<double>("fork_join_seconds"));
  while (lines.NextIs("matmul")) {
    THAW_ASSIGN(const MatMulRate rate, ReadMatMulRate(lines));
    rates.Set(rate);
  }
  while (!lines.at_end()) {
    THAW_ASSIGN(const DiskRate rate, ReadDiskRate(lines));
    rates.Set(rate);
  }
  return file;
}

// What the file holds of this machine; where it is of no use, why.
std::optional<MachineRates> KnownRates(const RatesRequest& request,
                                       const MachineIdentity& identity) {
  if (request.cache_path.empty()) return std::nullopt;
  auto file = LoadRates(request.cache_path);
  if (!file) {
    if (file.error().code != ErrorCode::kNotFound) {
      LogWarning("measuring the machine's rates again: {}", file.error().message);
    }
    return std::nullopt;
  }
  if (file->identity != identity) {
    LogInfo("measuring the machine's rates: those in {} are of another machine or other threads",
            request.cache_path);
    return std::nullopt;
  }
  const auto buffer_bytes = request.limits.BufferBytes();
  if (buffer_bytes && file->rates.buffer_bytes < *buffer_bytes) {
    LogInfo("measuring the machine's rates: those in {} were measured in less memory",
            request.cache_path);
    return std::nullopt;
  }
  return std::move(file->rates);
}

// Measures what the request wants and `rates` lacks. Whether anything was.
Result<bool> MeasureMissing(const RatesRequest& request, const std::string& device,
                            const KernelTable& kernels, ThreadPool& pool, MachineRates& rates) {
  const MeasurementLimits& limits = request.limits;
  bool has_measured = false;
  if (rates.buffer_bytes == 0) {
    THAW_ASSIGN(rates.buffer_bytes, limits.BufferBytes());
    THAW_ASSIGN(rates.memory_bytes_per_second, MeasureMemoryRate(pool, limits));
    rates.fork_join_seconds = MeasureForkJoin(pool, limits);
    has_measured = true;
  }
  for (const WeightForm& type : request.types) {
    if (rates.FindMatMul(type) != nullptr) continue;
    THAW_ASSIGN(const MatMulRate rate,
                MeasureMatMul(type, kernels, *request.decoder, pool, limits));
    rates.Set(rate);
    THAW_ASSIGN(const uint64_t buffer_bytes, limits.BufferBytes());
    rates.buffer_bytes = std::min(rates.buffer_bytes, buffer_bytes);
    has_measured = true;
  }
  if (request.file != nullptr && rates.FindDisk(device) == nullptr) {
    THAW_ASSIGN(const double rate, MeasureDiskRate(*request.file, limits));
    rates.Set({.device = device, .bytes_per_second = rate});
    has_measured = true;
  }
  return has_measured;
}

}  // namespace

Result<RatesFile> LoadRates(const std::string& path) {
  THAW_ASSIGN(const auto file, OpenFile(path));
  if (file->size() > kMaxFileBytes) {
    return Fail(ErrorCode::kCorrupt, "{}: {} bytes are no file of rates, which has at most {}",
                path, file->size(), kMaxFileBytes);
  }
  std::string text(file->size(), '\0');
  THAW_TRY(ReadExactlyAt(*file, 0, std::as_writable_bytes(std::span(text))));
  LineReader lines(path, text);
  return ParseRates(lines);
}

Result<void> SaveRates(const std::string& path, const MachineIdentity& identity,
                       const MachineRates& rates) {
  // Shortest decimals that read back as the same number.
  std::string text = fmt::format(
      "{}\ncpu {}\ncores {}\nkernels {}\nthreads {}\nbuffer_bytes {}\n"
      "memory_bytes_per_second {}\nfork_join_seconds {}\n",
      kFirstLine, identity.cpu, identity.cores, identity.kernels, identity.threads,
      rates.buffer_bytes, rates.memory_bytes_per_second, rates.fork_join_seconds);
  for (const MatMulRate& rate : rates.matmul) {
    text += fmt::format("matmul {} {} {}\n", FormName(rate.type), rate.decode_bytes_per_second,
                        rate.prefill_bytes_per_second);
  }
  for (const DiskRate& rate : rates.disks) {
    text += fmt::format("disk {} {}\n", rate.device, rate.bytes_per_second);
  }
  THAW_ASSIGN(OutputFile file, OutputFile::Create(path));
  THAW_TRY(file.Append(text));
  return file.Commit();
}

Result<MachineRates> ObtainRates(const RatesRequest& request, const KernelTable& kernels,
                                 ThreadPool& pool) {
  const MachineIdentity identity = IdentifyMachine(kernels, pool.thread_count());
  std::string device;
  if (request.file != nullptr) {
    THAW_ASSIGN(device, DeviceOf(request.file->path()));
  }
  std::optional<MachineRates> known;
  if (!request.remeasure) known = KnownRates(request, identity);
  MachineRates rates = std::move(known).value_or(MachineRates());
  THAW_ASSIGN(const bool has_measured, MeasureMissing(request, device, kernels, pool, rates));
  if (has_measured && !request.cache_path.empty()) {
    if (auto saved = SaveRates(request.cache_path, identity, rates); !saved) {
      LogWarning("the machine's rates are not kept: {}", saved.error().message);
    }
  }
  return rates;
}

}  // namespace thaw
