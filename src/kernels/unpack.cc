#include "kernels/unpack.h"

#include <algorithm>

#include "kernels/unpack_block.h"

namespace thaw {

const RowUnpacker* FindRowUnpacker(ElementType type) {
  for (const auto family :
       {SmallBlockUnpackers(), KQuantUnpackers(), TernaryUnpackers(), GridUnpackers()}) {
    const auto found = std::ranges::find(family, type, &RowUnpacker::type);
    if (found != family.end()) return &*found;
  }
  return nullptr;
}

}  // namespace thaw
