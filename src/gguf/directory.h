// The directory of one GGUF file: header, fields, tensor infos, all checked.
//
// Plain data that owns itself. Reading one costs a pass over the front of the file through a
// window; nothing of the tensor data behind it is asked for.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_types.h"
#include "gguf/name_index.h"
#include "io/file.h"

namespace thaw {

using FieldIndex = NameIndex<GgufField, &GgufField::key>;
using TensorIndex = NameIndex<TensorInfo, &TensorInfo::name>;

struct GgufDirectory {
  int version = 0;
  uint64_t alignment = kDefaultAlignment;
  std::vector<GgufField> fields;  // in the order of the file, keys unique
  FieldIndex fields_by_key;
  std::vector<TensorInfo> tensors;  // in the order of the file

  const GgufField* Find(std::string_view key) const { return fields_by_key.Find(fields, key); }
};

// Fields, and tensors, that one file may declare. Real models have below 100 and 3000; an entry
// takes some 100 bytes of memory.
inline constexpr uint64_t kMaxDirectoryEntries = 4 << 20;

// The alignment is a power of two, as ggml demands (the format says a multiple of 8; smaller powers
// are accepted as ggml does). Tensor data must be aligned, lie in the file behind the directory and
// not overlap; their order and gaps are free. That tensor names are unique is left to the caller,
// who may have several files.
Result<GgufDirectory> ReadDirectory(const File& file);

}  // namespace thaw
