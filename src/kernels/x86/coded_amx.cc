// Products of frozen bf16 with rounded activations, decoded in registers: the same operations in
// the same order as for thawed rows in kernels/x86/float_tiles.h. See avx2.h for what may be called
// here.
#include "kernels/x86/amx.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/coded_bf16_group.h"
#include "kernels/x86/denormals.h"
#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

using V = Lanes16;

// As a product of tiles adds them up.
class TileOrderSums {
 public:
  explicit TileOrderSums(const Activations& token) : x_(token.rounded) {}

  void AddLine(__m512i words, int /*line*/) {
    int32_t pair;
    std::memcpy(&pair, x_, sizeof(pair));
    const __m512i x = V::Broadcast(pair);
    even_ = V::MultiplyAdd(Even(words), Even(x), even_);
    odd_ = V::MultiplyAdd(Odd(words), Odd(x), odd_);
    x_ += 2;
    if (++lines_ % kLinesOfProduct != 0) return;
    total_ = V::Add(total_, V::Add(even_, odd_));
    even_ = odd_ = V::Zero();
  }
  void EndChunk(int64_t /*columns*/) {}
  __m512 Total() const { return total_; }

 private:
  static constexpr uint32_t kLinesOfProduct = 16;

  static __m512 Even(__m512i pairs) { return V::AsFloats(V::ShiftLeft<16>(pairs)); }
  static __m512 Odd(__m512i pairs) { return V::AsFloats(V::And(pairs, V::Broadcast(-0x10000))); }

  const uint16_t* x_;
  uint32_t lines_ = 0;
  __m512 even_ = V::Zero();
  __m512 odd_ = V::Zero();
  __m512 total_ = V::Zero();
};

[[gnu::noinline]] void MultiplyGroup(StreamCursor& cursor, const CodedToken& token, float* out) {
  MultiplyBf16Group<TileOrderSums>(cursor, token, out);
}

}  // namespace

namespace amx {

void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out) {
  if (token.activations->rounded == nullptr) {
    return avx512::MultiplyCodedGroup(cursor, token, out);
  }
  const DenormalsAsZeros denormals;
  MultiplyGroup(cursor, token, out);
  ++cursor.group;
}

}  // namespace amx
}  // namespace thaw
