// A GGUF model opened for reading: its fields, its tensor directory, and reads of tensor data.
//
// Opening reads the directory only, through a buffer of 64 KiB; what lies behind it is not touched
// (beyond what that buffer holds), so it takes milliseconds and some hundred KiB for a model of any
// size. Numbers are kept; strings and arrays are read from the file when asked for.
//
// A split model (NAME-00001-of-00003.gguf, as gguf-split writes them) is opened by its first part;
// the others are found beside it. The fields are those of the first part, the tensors those of all.
//
// Everything that a file can get wrong is found while opening, before memory is taken for it: the
// memory used is bounded by the bytes that are there, and an array or string above kMaxValueBytes
// is not read. Checked as UTF-8: keys, tensor names and scalar strings. Not checked: strings inside
// arrays, because tokens of real vocabularies are arbitrary bytes.
//
// Immutable after Open; every function may be called from any thread. Errors name the file, the
// field or tensor, what was expected and what was found.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "gguf/directory.h"
#include "gguf/gguf_types.h"
#include "io/file.h"

namespace thaw {

class GgufFile {
 public:
  // A model, by the path of its file or of its first part.
  static Result<GgufFile> Open(const std::string& path);
  // A model in one file.
  static Result<GgufFile> Open(std::shared_ptr<const File> file);

  // As it was given to Open.
  const std::string& path() const { return files_.front()->path(); }
  int version() const { return directory_.version; }  // 2 or 3
  uint64_t alignment() const {
    return directory_.alignment;
  }  // of the (first) file, a power of two

  // In the order of the file.
  std::span<const GgufField> fields() const { return directory_.fields; }
  // nullptr when there is none.
  const GgufField* Find(std::string_view key) const { return directory_.Find(key); }

  // The value of a field: kNotFound when it is missing, kCorrupt when it has another type or does
  // not fit. Integers of every width and sign are accepted for each other while the value fits;
  // GetFloat accepts float32, float64 and integers; GetBool accepts bool alone.
  Result<uint64_t> GetUint(std::string_view key) const;
  Result<int64_t> GetInt(std::string_view key) const;
  Result<double> GetFloat(std::string_view key) const;
  Result<bool> GetBool(std::string_view key) const;
  Result<std::string> GetString(std::string_view key) const;

  // The same with `missing` where there is no such field; a wrong type stays an error.
  Result<uint64_t> GetUintOr(std::string_view key, uint64_t missing) const;
  Result<int64_t> GetIntOr(std::string_view key, int64_t missing) const;
  Result<double> GetFloatOr(std::string_view key, double missing) const;
  Result<bool> GetBoolOr(std::string_view key, bool missing) const;
  Result<std::string> GetStringOr(std::string_view key, std::string_view missing) const;

  // The elements of an array, read from the file at each call. ReadInts accepts every integer type
  // and bool, ReadFloats float32, float64 (rounded to float) and every integer type.
  Result<std::vector<std::string>> ReadStrings(std::string_view key) const;
  Result<std::vector<int64_t>> ReadInts(std::string_view key) const;
  Result<std::vector<float>> ReadFloats(std::string_view key) const;
  // The inner arrays of an array of arrays; each is read with the functions below.
  Result<std::vector<GgufArray>> ReadArrays(std::string_view key) const;

  // The same for an array that Find or ReadArrays gave; `name` stands for it in errors.
  Result<std::vector<std::string>> ReadStrings(const GgufArray& array, std::string_view name) const;
  Result<std::vector<int64_t>> ReadInts(const GgufArray& array, std::string_view name) const;
  Result<std::vector<float>> ReadFloats(const GgufArray& array, std::string_view name) const;
  Result<std::vector<GgufArray>> ReadArrays(const GgufArray& array, std::string_view name) const;

  // The bytes of a field's value as they stand in the file; at most kMaxValueBytes.
  Result<std::vector<std::byte>> ReadRawValue(const GgufField& field) const;

  // In the order of the file; of a split model, part after part. Their data lie inside their files,
  // aligned, without overlap. Frozen tensors (docs/format.md) stand with the shape that they have
  // for a model; their tiles were not looked at.
  std::span<const TensorInfo> tensors() const { return tensors_; }
  // nullptr when there is none.
  const TensorInfo* FindTensor(std::string_view name) const {
    return tensors_by_name_.Find(tensors_, name);
  }

  // Fills `out` with the tensor's bytes from `offset_in_tensor` on; they must lie within the
  // tensor.
  Result<void> ReadTensor(const TensorInfo& tensor, uint64_t offset_in_tensor,
                          std::span<std::byte> out) const;

  // The parts of the model; file_index of a tensor counts these.
  int file_count() const { return static_cast<int>(files_.size()); }
  const std::shared_ptr<const File>& file(int index) const {
    return files_[static_cast<size_t>(index)];
  }

 private:
  GgufFile() = default;

  static Result<GgufFile> OpenFirstPart(std::shared_ptr<const File> file);
  Result<void> AddOtherParts(std::string_view prefix, uint64_t part_count);
  Result<void> IndexTensors();
  // Gives the tensors that are frozen their shapes.
  Result<void> ReadFrozenTensors();
  // The field, or kNotFound with what it was expected to be.
  Result<const GgufField*> Require(std::string_view key, std::string_view expected) const;
  Result<GgufArray> RequireArray(std::string_view key) const;

  std::vector<std::shared_ptr<const File>> files_;
  GgufDirectory directory_;          // of the first part, but its tensors are in tensors_
  std::vector<TensorInfo> tensors_;  // of all parts
  TensorIndex tensors_by_name_;
};

}  // namespace thaw
