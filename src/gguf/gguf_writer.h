// Writes a GGUF file, version 3, little endian.
//
//   THAW_ASSIGN(auto writer, GgufWriter::Create("out.gguf"));
//   THAW_TRY(writer.SetString("general.architecture", "llama"));     // fields and tensors are
//   THAW_TRY(writer.SetNumber<uint32_t>("llama.block_count", 2));    // declared in any order,
//   THAW_TRY(writer.AddTensor("x", ElementType::kF32, dims));
//   THAW_TRY(writer.AppendData(bytes));                              // then the data follow, in
//   THAW_TRY(writer.Commit());                                       // the order of the tensors
//
// The file appears at its path with Commit() alone (io/output_file.h); a writer that goes away
// before leaves nothing. Fields and tensor infos are held in memory until the first data arrive,
// the data are passed on at once. Owned by one thread at a time.
//
// Names and strings that the reader would refuse (empty, too long, not UTF-8, there already) are
// errors here; declaring anything after the first data is a programmer error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "gguf/gguf_file.h"
#include "gguf/gguf_types.h"
#include "io/output_file.h"

namespace thaw {

// The C++ types that are stored as one value, and the type each is stored as.
template <typename T>
inline constexpr GgufType kGgufTypeOf = GgufType::kArray;  // stands for: none
template <>
inline constexpr GgufType kGgufTypeOf<uint8_t> = GgufType::kUint8;
template <>
inline constexpr GgufType kGgufTypeOf<int8_t> = GgufType::kInt8;
template <>
inline constexpr GgufType kGgufTypeOf<uint16_t> = GgufType::kUint16;
template <>
inline constexpr GgufType kGgufTypeOf<int16_t> = GgufType::kInt16;
template <>
inline constexpr GgufType kGgufTypeOf<uint32_t> = GgufType::kUint32;
template <>
inline constexpr GgufType kGgufTypeOf<int32_t> = GgufType::kInt32;
template <>
inline constexpr GgufType kGgufTypeOf<float> = GgufType::kFloat32;
template <>
inline constexpr GgufType kGgufTypeOf<bool> = GgufType::kBool;
template <>
inline constexpr GgufType kGgufTypeOf<uint64_t> = GgufType::kUint64;
template <>
inline constexpr GgufType kGgufTypeOf<int64_t> = GgufType::kInt64;
template <>
inline constexpr GgufType kGgufTypeOf<double> = GgufType::kFloat64;

template <typename T>
concept GgufNumber = kGgufTypeOf<T> != GgufType::kArray;

class GgufWriter {
 public:
  // `alignment` of the tensor data: a power of two. It is stored unless it is the format's default.
  static Result<GgufWriter> Create(const std::string& path, uint32_t alignment = kDefaultAlignment);

  // State the type: SetNumber<uint32_t>("llama.block_count", 2). bool is a number here.
  template <GgufNumber T>
  Result<void> SetNumber(std::string_view key, std::type_identity_t<T> value) {
    return AddField(key, kGgufTypeOf<T>, Bytes(std::span<const T>(&value, 1)));
  }
  Result<void> SetString(std::string_view key, std::string_view text);

  template <GgufNumber T>
  Result<void> SetNumbers(std::string_view key, std::type_identity_t<std::span<const T>> values) {
    return AddField(key, GgufType::kArray, NumbersAsArray<T>(values));
  }
  // Strings inside arrays may be any bytes.
  Result<void> SetStrings(std::string_view key, std::span<const std::string> strings);

  // An array of arrays.
  template <GgufNumber T>
  Result<void> SetNumberArrays(std::string_view key, std::span<const std::span<const T>> arrays) {
    std::string bytes = ArrayHead(GgufType::kArray, arrays.size());
    for (const std::span<const T> inner : arrays) bytes += NumbersAsArray<T>(inner);
    return AddField(key, GgufType::kArray, bytes);
  }

  // A field of another file as it stands there.
  Result<void> CopyField(const GgufFile& source, const GgufField& field);
  // All of them but those that describe the source's own layout: general.alignment and split.*.
  Result<void> CopyFields(const GgufFile& source);

  // `dims` as in TensorInfo: 0 to 4 of them, the contiguous one first.
  Result<void> AddTensor(std::string_view name, ElementType type, std::span<const int64_t> dims);

  // The next bytes of the tensor whose turn it is; they must not reach into the one after it.
  Result<void> AppendData(std::span<const std::byte> bytes);

  // kInvalidArgument when a tensor's data are not complete. Nothing else may be called afterwards.
  Result<void> Commit();

 private:
  struct Tensor {
    std::string name;
    ElementType type;
    std::vector<int64_t> dims;
    uint64_t bytes;
  };

  GgufWriter(OutputFile file, uint32_t alignment);

  template <typename T>
  static std::string_view Bytes(std::span<const T> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size_bytes()};
  }
  template <typename T>
  static std::string NumbersAsArray(std::span<const T> values) {
    return ArrayHead(kGgufTypeOf<T>, values.size()).append(Bytes(values));
  }
  static std::string ArrayHead(GgufType element_type, uint64_t count);

  Result<void> AddField(std::string_view key, GgufType type, std::string_view value_bytes);
  Result<void> CheckName(std::string_view kind, std::string_view name, uint64_t max_bytes) const;
  Result<void> WriteDirectory();
  Result<void> Pad();
  // Moves past tensors whose data are complete.
  Result<void> SkipCompleteTensors();

  OutputFile file_;
  uint64_t alignment_;
  std::string field_bytes_;  // the fields as the file will hold them
  uint64_t field_count_ = 0;
  std::set<std::string, std::less<>> keys_;
  std::vector<Tensor> tensors_;
  std::set<std::string, std::less<>> tensor_names_;
  bool is_directory_written_ = false;
  size_t current_tensor_ = 0;   // whose data come next
  uint64_t current_bytes_ = 0;  // of them that are written
};

}  // namespace thaw
