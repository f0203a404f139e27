#include "engine/freeze_journal.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

namespace thaw {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParametersName = "parameters";
constexpr std::string_view kTensorPrefix = "tensor-";

// More than any text of parameters has.
constexpr uint64_t kMaxParametersBytes = 1 << 20;

// Blobs are copied this many bytes at a time: few system calls, and little beside the budget.
constexpr uint64_t kBlobPieceBytes = 1 << 20;

// A record as it lies in the file.
struct StoredRecord {
  FreezeRecord record;
  uint64_t head_hash = 0;  // XXH3 of the head, which has those of the tiles
  uint64_t unused = 0;
  uint64_t record_hash = 0;  // XXH3 of what stands before
};
static_assert(sizeof(StoredRecord) == 96);

uint64_t HashOf(const StoredRecord& stored) {
  return XXH3_64bits(&stored, offsetof(StoredRecord, record_hash));
}

// "" where there is no such file, or none that can be read.
std::string ReadText(const std::string& path) {
  const auto file = OpenFile(path);
  if (!file || (*file)->size() > kMaxParametersBytes) return "";
  std::string text((*file)->size(), '\0');
  if (!ReadExactlyAt(**file, 0, std::as_writable_bytes(std::span(text)))) return "";
  return text;
}

// Files of a run, those among them that were never finished.
bool IsOurs(const std::string& name) {
  return name.starts_with(kParametersName) || name.starts_with(kTensorPrefix);
}

// Removes what runs leave in a folder; kInvalidArgument, before anything is removed, for a folder
// that holds anything else.
Result<void> Empty(const std::string& folder, bool keep_finished) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!IsOurs(name)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: the folder for unfinished work holds '{}', which is no part of it", folder,
                  name);
    }
    const bool is_finished = name.find(".partial-") == std::string::npos;
    if (!keep_finished || !is_finished) files.push_back(it->path());
  }
  for (const fs::path& file : files) {
    if (!error) fs::remove(file, error);
  }
  if (!error) return {};
  return Fail(ErrorCode::kIo, "{}: cannot be emptied: {}", folder, error.message());
}

}  // namespace

Result<FreezeJournal> FreezeJournal::Open(const std::string& output,
                                          const std::string& parameters) {
  const std::string folder = output + ".freezing";
  const std::string parameters_path = (fs::path(folder) / kParametersName).string();
  std::error_code error;
  Found found = Found::kNothing;
  if (fs::exists(folder, error)) {
    if (!fs::is_directory(folder, error)) {
      return Fail(ErrorCode::kInvalidArgument,
                  "{}: the folder for unfinished work cannot be made: a file stands there", folder);
    }
    const std::string earlier = ReadText(parameters_path);
    if (!earlier.empty()) found = earlier == parameters ? Found::kSameRun : Found::kOtherRun;
    THAW_TRY(Empty(folder, /*keep_finished=*/found == Found::kSameRun));
  } else if (!fs::create_directory(folder, error)) {
    return Fail(ErrorCode::kIo, "{}: the folder for unfinished work cannot be made: {}", folder,
                error.message());
  }
  if (found != Found::kSameRun) {
    THAW_ASSIGN(OutputFile file, OutputFile::Create(parameters_path));
    THAW_TRY(file.Append(parameters));
    THAW_TRY(file.Commit());
  }
  return FreezeJournal(folder, found);
}

std::string FreezeJournal::PathOf(size_t tensor) const {
  return (fs::path(folder_) / fmt::format("{}{:05}", kTensorPrefix, tensor)).string();
}

std::optional<FreezeRecord> FreezeJournal::Find(size_t tensor) const {
  const auto opened = OpenFile(PathOf(tensor));
  if (!opened) return std::nullopt;
  const File& file = **opened;
  StoredRecord stored;
  if (file.size() < sizeof(stored)) return std::nullopt;
  const uint64_t before = file.size() - sizeof(stored);
  if (!ReadExactlyAt(file, before, std::as_writable_bytes(std::span(&stored, 1)))) {
    return std::nullopt;
  }
  const FreezeRecord& record = stored.record;
  if (HashOf(stored) != stored.record_hash || record.tile_bytes > before ||
      before - record.tile_bytes != record.head_bytes) {
    return std::nullopt;
  }
  std::vector<std::byte> head(record.head_bytes);
  if (!ReadExactlyAt(file, record.tile_bytes, head)) return std::nullopt;
  if (XXH3_64bits(head.data(), head.size()) != stored.head_hash) return std::nullopt;
  return record;
}

Result<OutputFile> FreezeJournal::Start(size_t tensor) const {
  return OutputFile::Create(PathOf(tensor));
}

Result<void> FreezeJournal::Finish(OutputFile file, std::span<const std::byte> head,
                                   FreezeRecord record) {
  record.tile_bytes = file.size();
  record.head_bytes = head.size();
  StoredRecord stored{.record = record, .head_hash = XXH3_64bits(head.data(), head.size())};
  stored.record_hash = HashOf(stored);
  THAW_TRY(file.Append(head));
  THAW_TRY(file.Append(std::as_bytes(std::span(&stored, 1))));
  return file.Commit();
}

Result<void> FreezeJournal::ReadBlob(
    size_t tensor, const FreezeRecord& record,
    FunctionRef<Result<void>(std::span<const std::byte>)> take) const {
  THAW_ASSIGN(const std::shared_ptr<const File> file, OpenFile(PathOf(tensor)));
  std::vector<std::byte> head(record.head_bytes);
  THAW_TRY(ReadExactlyAt(*file, record.tile_bytes, head));
  THAW_TRY(take(head));
  std::vector<std::byte> piece;
  for (uint64_t at = 0; at < record.tile_bytes; at += piece.size()) {
    piece.resize(std::min(kBlobPieceBytes, record.tile_bytes - at));
    THAW_TRY(ReadExactlyAt(*file, at, piece));
    THAW_TRY(take(piece));
  }
  return {};
}

Result<void> FreezeJournal::Remove() const {
  THAW_TRY(Empty(folder_, /*keep_finished=*/false));
  std::error_code error;
  if (fs::remove(folder_, error)) return {};
  return Fail(ErrorCode::kIo, "{}: cannot be removed: {}", folder_, error.message());
}

}  // namespace thaw
