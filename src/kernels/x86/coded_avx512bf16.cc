// Products of frozen bf16 with rounded activations, decoded in registers, by the dot products of
// AVX512_BF16: the same operations in the same order as for thawed rows in
// kernels/rounded_products.h. See avx2.h for what may be called here.
#include "kernels/rounded_products.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/avx512bf16.h"
#include "kernels/x86/coded_bf16_group.h"
#include "kernels/x86/lanes_avx512bf16.h"

namespace thaw {
namespace {

using V = Bf16Vectors16;

class RoundedSums {
 public:
  explicit RoundedSums(const Activations& token) : x_(token.rounded), k_(token.k) {}

  void AddLine(__m512i words, int line) {
    sums_[line] = V::AddPair(sums_[line], words, x_);
    x_ += 2;
  }
  void EndChunk(int64_t columns) {
    if (columns % kRoundedElements != 0 && columns != k_) return;
    const __m512 sum = V::Add(sums_[0], sums_[1]);
    total_ = columns <= kRoundedElements ? sum : V::Add(total_, sum);
    sums_[0] = sums_[1] = V::Zero();
  }
  __m512 Total() const { return total_; }

 private:
  static_assert(kRoundedElements % (kChunkVectors * kFrozenColsOfVector) == 0);

  const uint16_t* x_;
  int64_t k_;
  __m512 sums_[2] = {V::Zero(), V::Zero()};
  __m512 total_ = V::Zero();
};

}  // namespace

namespace avx512bf16 {

void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out) {
  if (token.activations->rounded == nullptr) {
    return avx512::MultiplyCodedGroup(cursor, token, out);
  }
  MultiplyBf16Group<RoundedSums>(cursor, token, out);
  ++cursor.group;
}

}  // namespace avx512bf16
}  // namespace thaw
