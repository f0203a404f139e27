#include "engine/freeze_output.h"

#include <algorithm>
#include <array>

#include "base/round_up.h"
#include "codec/frozen_format.h"
#include "gguf/gguf_writer.h"
#include "io/free_space.h"

namespace thaw {
namespace {

constexpr uint64_t kPieceBytes = 1 << 20;

// Tiles are read at multiples of 64 bytes.
uint32_t AlignmentOf(const GgufFile& input) {
  return static_cast<uint32_t>(std::max<uint64_t>(input.alignment(), kFrozenAlignment));
}

uint64_t DataBytes(const OutputTensor& tensor) {
  return tensor.is_frozen ? tensor.record.blob_bytes() : tensor.plan->source_bytes();
}

uint64_t FileBytes(const GgufFile& input, std::span<const OutputTensor> tensors) {
  const uint64_t alignment = AlignmentOf(input);
  uint64_t bytes = ContainerBytes(input, tensors);
  for (const OutputTensor& tensor : tensors) {
    if (tensor.is_frozen) bytes += RoundUp(tensor.record.blob_bytes(), alignment);
  }
  return bytes;
}

Result<GgufWriter> Declare(const GgufFile& input, std::span<const OutputTensor> tensors,
                           const std::string& path) {
  THAW_ASSIGN(GgufWriter writer, GgufWriter::Create(path, AlignmentOf(input)));
  THAW_TRY(writer.CopyFields(input));
  THAW_TRY(writer.SetNumber<uint32_t>(kFrozenVersionKey, kFrozenVersion));
  for (const OutputTensor& tensor : tensors) {
    if (tensor.is_frozen) {
      const std::array<int64_t, 1> bytes = {static_cast<int64_t>(tensor.record.blob_bytes())};
      THAW_TRY(writer.AddTensor(tensor.plan->name, ElementType::kI8, bytes));
      continue;
    }
    for (const TensorInfo* source : tensor.plan->tensors) {
      THAW_TRY(writer.AddTensor(source->name, source->type, source->extents()));
    }
  }
  return writer;
}

}  // namespace

uint64_t ContainerBytes(const GgufFile& input, std::span<const OutputTensor> tensors) {
  const uint64_t alignment = AlignmentOf(input);
  // Magic, version, counts; then of a field its key's length, key, type and value, of a tensor its
  // name's length, name, count of dimensions, dimensions, type and offset.
  uint64_t head = 4 + 4 + 8 + 8;
  for (const GgufField& field : input.fields()) {
    if (field.key == kAlignmentKey || field.key.starts_with("split.")) continue;
    head += 8 + field.key.size() + 4 + field.value_bytes;
  }
  head += 8 + kFrozenVersionKey.size() + 4 + sizeof(uint32_t);
  head += 8 + std::string_view(kAlignmentKey).size() + 4 + sizeof(uint32_t);
  uint64_t kept = 0;
  const auto add_entry = [&](const std::string& name, int dims) {
    head += 8 + name.size() + 4 + 8 * static_cast<uint64_t>(dims) + 4 + 8;
  };
  for (const OutputTensor& tensor : tensors) {
    if (tensor.is_frozen) {
      add_entry(tensor.plan->name, 1);
      continue;
    }
    for (const TensorInfo* source : tensor.plan->tensors) {
      add_entry(source->name, source->n_dims);
      kept += RoundUp(source->bytes, alignment);
    }
  }
  return RoundUp(head, alignment) + kept;
}

Result<uint64_t> WriteFrozenModel(const GgufFile& input, std::span<const OutputTensor> tensors,
                                  const FreezeJournal& journal, const std::string& path,
                                  FunctionRef<bool(uint64_t done, uint64_t total)> on_progress) {
  const uint64_t bytes = FileBytes(input, tensors);
  THAW_TRY(CheckFreeSpace(path, bytes));
  THAW_ASSIGN(GgufWriter writer, Declare(input, tensors, path));
  uint64_t total = 0;
  for (const OutputTensor& tensor : tensors) total += DataBytes(tensor);
  uint64_t done = 0;
  const auto append = [&](std::span<const std::byte> piece) -> Result<void> {
    THAW_TRY(writer.AppendData(piece));
    done += piece.size();
    if (!on_progress(done, total)) return Fail(ErrorCode::kCancelled, "stopped");
    return {};
  };
  std::vector<std::byte> piece;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const OutputTensor& tensor = tensors[i];
    if (tensor.is_frozen) {
      THAW_TRY(journal.ReadBlob(i, tensor.record, append));
      continue;
    }
    for (const TensorInfo* source : tensor.plan->tensors) {
      for (uint64_t at = 0; at < source->bytes; at += piece.size()) {
        piece.resize(std::min(kPieceBytes, source->bytes - at));
        THAW_TRY(input.ReadTensor(*source, at, piece));
        THAW_TRY(append(piece));
      }
    }
  }
  THAW_TRY(writer.Commit());
  return bytes;
}

}  // namespace thaw
