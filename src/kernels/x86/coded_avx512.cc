// Products of frozen rows that are decoded in registers, in AVX-512 with VNNI and VBMI2: each
// vector of ecq is multiplied as soon as it is decoded, those of bf16 when some are patched. The
// same operations in the same order as for thawed rows in kernels/direct_products.h. See avx2.h for
// what may be called here.
#include "codec/x86/vectors_avx512vbmi2.h"
#include "kernels/coded_token.h"
#include "kernels/packed_formats.h"
#include "kernels/packed_sums.h"
#include "kernels/x86/avx512.h"
#include "kernels/x86/coded_bf16_group.h"
#include "kernels/x86/lanes_avx512.h"

namespace thaw {
namespace {

using V = Lanes16;

// The scales of the blocks of a group, one after another.
class BlockScales {
 public:
  explicit BlockScales(StreamCursor& cursor)
      : cursor_(cursor),
        of_rows_(V::LoadHalves(cursor.stream.scales + 2 * kGroupRows * cursor.group)),
        first_(cursor.group * (cursor.stream.cols / kFrozenBlock) * kGroupRows) {
    FindNext();
  }

  [[gnu::always_inline]] __m512 Of(int64_t block) {
    if (next_ >= (block + 1) * kGroupRows) [[likely]]
      return of_rows_;
    return Shifted(block);
  }

 private:
  void FindNext() {
    next_ = INT64_MAX;
    if (cursor_.shifts_done == cursor_.stream.header.shifts) return;
    uint32_t shift;
    std::memcpy(&shift, cursor_.stream.shifts + sizeof(shift) * uint64_t{cursor_.shifts_done},
                sizeof(shift));
    next_ = (shift >> kFrozenShiftBits) - first_;
    by_ = static_cast<int>(shift & ((1U << kFrozenShiftBits) - 1));
  }

  [[gnu::noinline]] __m512 Shifted(int64_t block) {
    alignas(64) float scales[kGroupRows];
    _mm512_store_ps(scales, of_rows_);
    while (next_ < (block + 1) * kGroupRows) {
      scales[next_ % kGroupRows] *= static_cast<float>(1 << by_);
      ++cursor_.shifts_done;
      FindNext();
    }
    return _mm512_load_ps(scales);
  }

  StreamCursor& cursor_;
  __m512 of_rows_;
  int64_t first_;  // block of the group
  int64_t next_;   // shift: the number of its block in the group
  int by_;
};

// The integers of column `col` from its line, patched.
__m512i Column(const CodedToken& token, int64_t col, __m512i line) {
  __m512i numbers = V::Dot<8, 1>(&line, kOneAt[col % 4], V::Broadcast(-128));
  for (int64_t i = 0; i < token.n_outlier_patches; ++i) {
    const OutlierPatch& patch = token.outlier_patches[i];
    if (patch.col != col) continue;
    numbers = _mm512_mask_add_epi32(numbers, static_cast<__mmask16>(1 << patch.row), numbers,
                                    V::Broadcast(patch.added));
  }
  return numbers;
}

// AddOutliers of kernels/direct_products.h over the blocks that were kept.
[[gnu::noinline]] __m512 AddKeptOutliers(const CodedToken& token, OutlierSpan outliers,
                                         __m512 total) {
  const std::byte* kept = token.kept;
  for (const Outlier* outlier = outliers.begin; outlier != outliers.end; ++outlier) {
    const bool begins_block =
        outlier != outliers.begin && outlier->index / kStep != outlier[-1].index / kStep;
    if (begins_block) kept += kKeptBlockBytes;
    const __m512i line = V::Load(kept + 64 * (outlier->index % kStep / 4));
    const __m512 scale = _mm512_load_ps(reinterpret_cast<const float*>(kept + 64 * kSets));
    const __m512 weights = V::Multiply(scale, V::ToFloats(Column(token, outlier->index, line)));
    total = V::MultiplyAdd(weights, V::Broadcast(outlier->value), total);
  }
  return total;
}

template <int kRawPlanes>
void MultiplyGroupOf(StreamCursor& cursor, const CodedToken& token, float* out) {
  const TokenRows rows(*token.activations, 0);
  const int64_t blocks = rows.k / kStep;
  // Unsigned bytes, q + 128.
  const SlotRegisters slots = LoadSlots(cursor.tables, 0x80);
  TrellisRegisters trellis = BeginTrellis();
  BlockScales scales(cursor);
  __m512 total = V::Zero();
  __m512 unscaled = V::Zero();
  std::byte* kept = token.kept;
  for (int64_t block = 0; block < blocks; ++block) {
    HoldBack(cursor);
    for (int plane = 0; plane < kRawPlanes; ++plane) PrefetchCoded(cursor.raw + 64 * plane);
    const __m512 scale = scales.Of(block);
    const int8_t* quants = rows.quants + kStep * block;
    __m512i sum = _mm512_add_epi32(V::Broadcast(rows.Correction<32>(0, block)),
                                   _mm512_load_si512(token.patch_sums + kGroupRows * block));
    const std::byte* coded = cursor.coded;
#pragma GCC unroll 8
    for (int set = 0; set < kSets; ++set) {
      const __m512i w =
          TakeIntegers<kRawPlanes>(slots, cursor.states[set], cursor.raw, set, coded, trellis);
      _mm512_store_si512(kept + 64 * set, w);
      sum = V::Dot<8, 1>(&w, quants + 4 * set, sum);
    }
    cursor.coded = coded;
    cursor.raw += 8 * kRawPlanes * kSets;
    _mm512_store_ps(kept + 64 * kSets, scale);
    kept += token.has_outliers[block] != 0 ? kKeptBlockBytes : 0;
    unscaled = V::MultiplyAdd(V::ToFloats(sum), scale, unscaled);
    if (!rows.EndsScale(block)) continue;
    total = V::MultiplyAdd(unscaled, V::Broadcast(rows.Scale(0, block)), total);
    unscaled = V::Zero();
    const int64_t end = (block + 1) * kStep;
    if (end % kSegment != 0 && end != rows.k) continue;
    total = AddKeptOutliers(token, rows.Outliers(0, (end - 1) / kSegment), total);
    kept = token.kept;
  }
  V::StoreFloats(total, out);
}

// Four sums of each row, as MultiplyPlainRows of kernels/plain_products.h has them: of the even
// and the odd lines, of their even and their odd columns.
class PlainSums {
 public:
  explicit PlainSums(const Activations& token) : x_(token.values) {}

  void AddLine(__m512i words, int line) {
    const __m512 even = V::AsFloats(_mm512_slli_epi32(words, 16));
    const __m512 odd =
        V::AsFloats(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000))));
    sums_[line][0] = V::MultiplyAdd(even, V::Broadcast(x_[0]), sums_[line][0]);
    sums_[line][1] = V::MultiplyAdd(odd, V::Broadcast(x_[1]), sums_[line][1]);
    x_ += 2;
  }
  void EndChunk(int64_t) {}
  __m512 Total() const {
    return V::Add(V::Add(sums_[0][0], sums_[1][0]), V::Add(sums_[0][1], sums_[1][1]));
  }

 private:
  const float* x_;
  __m512 sums_[2][2] = {{V::Zero(), V::Zero()}, {V::Zero(), V::Zero()}};
};

void MultiplyEcqGroup(StreamCursor& cursor, const CodedToken& token, float* out) {
  switch (cursor.stream.header.raw_planes) {
    case 0:
      MultiplyGroupOf<0>(cursor, token, out);
      break;
    case 1:
      MultiplyGroupOf<1>(cursor, token, out);
      break;
    default:
      MultiplyGroupOf<2>(cursor, token, out);
  }
}

}  // namespace

namespace avx512 {

void MultiplyCodedGroup(StreamCursor& cursor, const CodedToken& token, float* out) {
  if (cursor.stream.kind == FrozenKind::kEcq) {
    MultiplyEcqGroup(cursor, token, out);
  } else {
    MultiplyBf16Group<PlainSums>(cursor, token, out);
  }
  ++cursor.group;
}

}  // namespace avx512
}  // namespace thaw
