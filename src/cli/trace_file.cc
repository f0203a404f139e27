#include "cli/trace_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <string_view>
#include <utility>

#include "base/system_message.h"
#include "cli/json_text.h"

namespace thaw::cli {
namespace {

// Some hundred lines, so that the system is called a few times a token.
constexpr size_t kBufferBytes = 64 << 10;

Result<void> CannotBeWritten(const std::string& path, int error_number) {
  return Fail(ErrorCode::kIo, "{}: cannot be written: {}", path, SystemMessage(error_number));
}

}  // namespace

std::string TraceLine(const VisitEvent& visit, double hit_rate) {
  const double fullness = visit.capacity_bytes == 0 ? 0.0
                                                    : static_cast<double>(visit.resident_bytes) /
                                                          static_cast<double>(visit.capacity_bytes);
  return fmt::format(
      R"({{"pass": {}, "layer": {}, "weight": {}, "tile": {}, "result": "{}", "bytes": {}, )"
      R"("stall_us": {:.1f}, "resident_bytes": {}, "capacity_bytes": {}, "fullness": {:.4f}, )"
      R"("hit_rate": {:.4f}}})",
      visit.pass, visit.layer, CompactJson(visit.matrix), visit.tile, visit.hit ? "HIT" : "MISS",
      visit.bytes, 1e-3 * static_cast<double>(visit.stall_ns), visit.resident_bytes,
      visit.capacity_bytes, fullness, hit_rate);
}

Result<std::unique_ptr<TraceFile>> TraceFile::Create(const std::string& path) {
  Stream stream(std::fopen(path.c_str(), "wb"), &std::fclose);
  if (stream == nullptr) return Fail(CannotBeWritten(path, errno).error());
  // The library's own buffer, made as large as it says.
  std::setvbuf(stream.get(), nullptr, _IOFBF, kBufferBytes);
  return std::unique_ptr<TraceFile>(new TraceFile(path, std::move(stream)));
}

void TraceFile::Write(const VisitEvent& visit) {
  const std::lock_guard lock(mutex_);
  if (failure_ != 0) return;
  ++visits_;
  if (visit.hit) ++hits_;
  const std::string line =
      TraceLine(visit, static_cast<double>(hits_) / static_cast<double>(visits_)) + '\n';
  if (std::fwrite(line.data(), 1, line.size(), stream_.get()) < line.size()) failure_ = errno;
}

Result<void> TraceFile::Close() {
  const std::lock_guard lock(mutex_);
  if (std::fclose(stream_.release()) != 0 && failure_ == 0) failure_ = errno;
  if (failure_ != 0) return CannotBeWritten(path_, failure_);
  return {};
}

}  // namespace thaw::cli
