// Opens the bytes as a GGUF file and reads everything it then offers.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "base/check.h"
#include "gguf/gguf_file.h"
#include "io/memory_file.h"

namespace thaw {
namespace {

// Reads an array by every function; those that fit its type must succeed or refuse an element.
void ReadArray(const GgufFile& model, const GgufArray& array, std::string_view key) {
  if (const auto strings = model.ReadStrings(array, key))
    THAW_CHECK(strings->size() == array.count);
  if (const auto ints = model.ReadInts(array, key)) THAW_CHECK(ints->size() == array.count);
  if (const auto floats = model.ReadFloats(array, key)) THAW_CHECK(floats->size() == array.count);
  const auto arrays = model.ReadArrays(array, key);
  if (!arrays) return;
  THAW_CHECK(arrays->size() == array.count);
  for (const GgufArray& inner : *arrays) ReadArray(model, inner, key);
}

void ReadField(const GgufFile& model, const GgufField& field) {
  THAW_CHECK(model.Find(field.key) == &field);
  (void)model.GetUint(field.key);
  (void)model.GetInt(field.key);
  (void)model.GetFloat(field.key);
  (void)model.GetBool(field.key);
  THAW_CHECK(model.GetString(field.key).has_value() == (field.type == GgufType::kString));
  THAW_CHECK(model.ReadRawValue(field).has_value());
  if (const GgufArray* array = field.array()) ReadArray(model, *array, field.key);
}

void ReadFirstBytes(const GgufFile& model, const TensorInfo& tensor) {
  THAW_CHECK(model.FindTensor(tensor.name) == &tensor);
  THAW_CHECK(tensor.bytes <= model.file(tensor.file_index)->size());
  std::array<std::byte, 16> bytes = {};
  const auto out = std::span(bytes).first(std::min<size_t>(bytes.size(), tensor.bytes));
  THAW_CHECK(model.ReadTensor(tensor, 0, out).has_value());
  THAW_CHECK(model.ReadTensor(tensor, tensor.bytes - out.size(), out).has_value());
}

}  // namespace
}  // namespace thaw

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto model = thaw::GgufFile::Open(std::make_shared<thaw::MemoryFile>("fuzz.gguf", bytes));
  if (!model) {
    THAW_CHECK(model.error().message.starts_with("fuzz.gguf: "));
    return 0;
  }
  for (const thaw::GgufField& field : model->fields()) thaw::ReadField(*model, field);
  for (const thaw::TensorInfo& tensor : model->tensors()) thaw::ReadFirstBytes(*model, tensor);
  return 0;
}
