// Builds the bytes of GGUF files piece by piece, for tests: anything can be written, so that what a
// writer would never do can be tried on the reader.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "gguf/gguf_types.h"

namespace thaw {

struct DirectoryBytes {
  std::string text;

  template <typename T>
  DirectoryBytes& Number(T value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof(value));
    return *this;
  }
  DirectoryBytes& String(std::string_view characters) {
    Number<uint64_t>(characters.size());
    text.append(characters);
    return *this;
  }
  DirectoryBytes& Header(uint64_t tensor_count, uint64_t field_count, uint32_t version = 3) {
    text += kGgufMagic;
    return Number(version).Number(tensor_count).Number(field_count);
  }
  // The value is to follow.
  DirectoryBytes& Key(std::string_view key, GgufType type) {
    return String(key).Number(static_cast<uint32_t>(type));
  }
  // The elements are to follow.
  DirectoryBytes& ArrayHead(GgufType element_type, uint64_t count) {
    return Number(static_cast<uint32_t>(element_type)).Number(count);
  }
  DirectoryBytes& Tensor(std::string_view name, std::initializer_list<uint64_t> dims,
                         uint64_t offset, uint32_t type = 0 /* F32 */) {
    String(name).Number(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) Number(dim);
    return Number(type).Number(offset);
  }
  DirectoryBytes& PadTo(uint64_t alignment) {
    while (text.size() % alignment != 0) text += '\0';
    return *this;
  }
  DirectoryBytes& Data(uint64_t byte_count) {
    text.append(byte_count, '\x5a');
    return *this;
  }
};

}  // namespace thaw
