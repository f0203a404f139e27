// Causal attention of a run of tokens to the stored positions of one KV head, and the form in which
// a KV cache stores them.
//
// A KV head serves `group` query heads (grouped-query attention; 1 for multi-head attention). The
// heads of up to AttentionTileTokens tokens, the rows of a tile, share each key and value that is
// read. The softmax is computed online: positions are taken in blocks of kAttentionBlock, and when
// a block raises the largest score, what was summed before is scaled down. Blocks form spans of
// kAttentionSpan positions, which know nothing of each other and may run on different threads;
// their states are merged in the order of positions.
//
// Blocks and spans are fixed in absolute positions, and each row does its own additions in its own
// order, so the result depends on the token's query and the positions it sees alone: not on the
// tile, the batch, the chunk or the threads.
//
// The caller owns everything. All functions are pure.
//
// Costs: a tile reads every visible key and value once, whatever its rows; tiles of more than 8
// rows turn float16 and bfloat16 into float32 in their scratch first. Scratch does not grow with
// the context; states of spans that run apart from each other do, by one row of v_head_dim numbers
// for each head and span.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace thaw {

struct KernelTable;

// How the numbers of a KV cache are stored.
enum class KvType {
  kF32,
  kF16,
  kBF16,
  kQ8_0,  // blocks of a scale and 32 int8, below
  kI16,   // a scale and int16, below: what kF16 becomes where integers multiply faster
};

inline constexpr KvType kAllKvTypes[] = {KvType::kF32, KvType::kF16, KvType::kBF16, KvType::kQ8_0,
                                         KvType::kI16};

// The paired types are integers times scales in bfloat16. Queries, and weights of values times the
// scales of those, are rounded to 16 bits, so that products are sums of integers
// (docs/decisions/0006).
constexpr bool IsPaired(KvType type) { return type == KvType::kQ8_0 || type == KvType::kI16; }

// A block of kQ8_0: a scale, then 32 int8; number = scale * int8.
//
// The scale is that of the block's largest magnitude / 127, rounded to nearest, and the integers
// are rounded for that rounded scale, so a number is off by at most half the scale. Two bytes hold
// it because memory is what the type is for; bfloat16 because a float16 has no scales for blocks
// above 8e6 and ever coarser ones for blocks below 0.008, while the 2^-8 that a bfloat16 is off
// at most leave the largest number below 127.5, which still rounds to 127. A block whose largest
// magnitude is below 2^-119 is zero; one with a NaN or an infinity reads as NaN.
//
// A row of kI16: a scale, then an int16 for each number. The scale is the largest magnitude / 32767
// rounded up, so a number is off by at most a 65000th of the largest: among numbers within a 16th
// of it by less than a float16 is. A row whose largest magnitude is below 2^-111 is zero; one with
// a NaN or an infinity reads as NaN.
inline constexpr int64_t kKvBlock = 32;
inline constexpr int64_t kKvBlockBytes = 2 + kKvBlock;

// Values of one KV head are rows, one for each position: v_head_dim numbers.
//
// Keys are interleaved in units of 16 positions, so that one load brings the same number of 16
// keys, one for each lane of a 64-byte vector: [head_dim][16] numbers, position by position the
// fastest.
//
// The paired types pair what a product sums at once: numbers of keys, positions of values. kQ8_0
// has the keys of a unit as [head_dim / 32] of 16 scales, then [32 / 2][16][2] int8, and values in
// units of 64 positions, [v_head_dim / 32] of 64 scales, then [64 / 2][32][2] int8. kI16 has both
// in units of 64 positions: 64 scales, then the numbers, of keys [64 / 16][head_dim / 2][16][2],
// of values [v_head_dim / 32][64 / 2][32][2].
inline constexpr int64_t kKeyUnit = 16;
inline constexpr int64_t kPairedUnit = 64;

// "f32", "f16", "bf16", "q8_0" or "i16".
std::string_view KvTypeName(KvType type);

// Whether rows of n numbers can be stored so: those of the paired types are multiples of 32, of
// kI16 up to 1024.
bool CanStoreKv(KvType type, int64_t n);

// Bytes of a stored row of n numbers; a started block counts as a whole one. A unit takes as many
// times as much as it has positions.
int64_t KvRowBytes(KvType type, int64_t n);

// Bytes of the keys and of the values of n_positions positions; a started unit counts as a whole
// one.
int64_t KeyBytes(KvType type, int64_t head_dim, int64_t n_positions);
int64_t ValueBytes(KvType type, int64_t v_head_dim, int64_t n_positions);

// Stores a key or a value of n numbers, as the table's store_kv rounds them, as that of `position`.
void StoreKey(const KernelTable& table, const float* x, int64_t n, KvType type, int64_t position,
              std::byte* keys);
void StoreValue(const KernelTable& table, const float* x, int64_t n, KvType type, int64_t position,
                std::byte* values);

// Copies a key or a value of n numbers from one place of `from` to another of `to`, as they are
// stored.
void CopyKey(KvType type, int64_t n, const std::byte* from, int64_t from_position, std::byte* to,
             int64_t to_position);
void CopyValue(KvType type, int64_t n, const std::byte* from, int64_t from_position, std::byte* to,
               int64_t to_position);

// A block's keys or values, 16 KiB in float32 at a head size of 64, stay in the first-level cache
// while the rows of a tile pass by. With 128 prefill was 4 % faster, having fewer rounds of finding
// the largest score and loading the sums, but decode at 8 rows from memory 16 % slower.
inline constexpr int64_t kAttentionBlock = 64;
static_assert(kPairedUnit == kAttentionBlock, "a block of positions is one unit");

// One span at a head size of 64 is 256 KiB of float16 keys and values, 10 us from memory at 25
// GB/s: long beside the 1 us that handing it to a thread takes, and short enough that 8 of them
// even out the threads at a context of 8192.
inline constexpr int64_t kAttentionSpan = 1024;

// The positions up to its own that a token sees.
struct Window {
  int64_t size = 0;       // the last so many; 0: all
  bool is_chunk = false;  // those of its own chunk: chunks of `size` follow each other from 0 on

  bool operator==(const Window&) const = default;
};

struct AttentionArguments {
  const float* q = nullptr;    // [n_tokens] of [group, head_dim]
  int64_t q_stride = 0;        // numbers from token to token
  int64_t n_tokens = 1;        // 1 to AttentionTileTokens(group)
  int64_t first_position = 0;  // token i stands at first_position + i and sees all up to its own
  int64_t group = 1;
  int64_t head_dim = 0;
  int64_t v_head_dim = 0;

  KvType kv_type = KvType::kF32;  // CanStoreKv of both head sizes
  const std::byte* k = nullptr;   // units of keys from position 0 on
  const std::byte* v = nullptr;   // values likewise
  int64_t ring = 0;  // position p lies where p % ring does, whole blocks; 0: where p does

  float scale = 1;     // of q . k before the softmax
  float soft_cap = 0;  // c: scores become c tanh(score / c); 0: they stay
  Window window = {};
  // [group], or nullptr: a score of each head that takes part in the softmax and has no value.
  const float* sinks = nullptr;
  // [group], or nullptr: times the position of a key less that of the token, added to the scores
  // of a head after the soft cap (ALiBi).
  const float* slopes = nullptr;

  float* out = nullptr;    // [n_tokens] of [group, v_head_dim]
  int64_t out_stride = 0;  // numbers from token to token
};

// Tokens whose heads make up a tile: as many as have 96 rows, and at least one. 96 rows make the
// conversion of a narrow key or value a fiftieth of the work that is done with it; their queries,
// scores and sums, 72 KiB at a head size of 64, fit the second-level cache.
int64_t AttentionTileTokens(int64_t group);

// The span that holds a position, counted from 0.
constexpr int64_t AttentionSpanOf(int64_t position) { return position / kAttentionSpan; }

// Where a position lies in a ring.
[[gnu::always_inline]] constexpr int64_t PlaceInRing(int64_t ring, int64_t position) {
  return ring == 0 ? position : position % ring;
}

// The first position that a token at `position` sees.
[[gnu::always_inline]] constexpr int64_t FirstVisible(Window window, int64_t position) {
  if (window.size == 0 || position < window.size) return 0;
  return window.is_chunk ? position - position % window.size : position - window.size + 1;
}

// The first span that any token sees a position of.
[[gnu::always_inline]] constexpr int64_t FirstSpanOf(const AttentionArguments& a) {
  return AttentionSpanOf(FirstVisible(a.window, a.first_position));
}

// What the positions of one span come to for one row: the sums of the values, each weighted by
// 2^(score - largest), score in units of log2(e); then `largest`, then the sum of the weights.
// The sums are padded to whole cache lines with zeros; the two numbers begin the next one. Behind
// them tables keep numbers of their own, in the last line by the lanes of a vector.
inline constexpr int64_t kStateLanes = 16;
inline constexpr int64_t kStateTail = 32;
constexpr int64_t PaddedValues(int64_t v_head_dim) { return (v_head_dim + 15) / 16 * 16; }
constexpr int64_t AttentionStateFloats(int64_t v_head_dim) {
  return PaddedValues(v_head_dim) + kStateTail;
}

// Before the first position: no weight, below every score that is a number.
inline constexpr float kLowestScore = -0x1.fffffep127f;

// What attend_span keeps for its time, each part beginning on a cache line: the queries times the
// scale, the scores of a block, and its keys (as units) and values (as padded rows) in float32.
// For the paired types queries and weights are in int16, and keys and values stay where they are.
struct SpanScratch {
  float* q;          // [rows, head_dim], or [rows, RoundedQueryStride(head_dim)]
  float* scores;     // [rows, kAttentionBlock]
  int16_t* weights;  // [rows, kWeightStride]
  float* keys;       // [kAttentionBlock / kKeyUnit] of [head_dim][kKeyUnit]
  float* values;     // [kAttentionBlock, PaddedValues(v_head_dim)]
};
// From row to row of weights. At powers of two apart, rows share banks of the first-level cache: a
// Zen 3 did 60 multiply-adds a nanosecond at 64, and 74 at 80.
inline constexpr int64_t kWeightStride = kAttentionBlock + 16;
// The same for queries in int16.
constexpr int64_t RoundedQueryStride(int64_t head_dim) { return head_dim + 16; }
SpanScratch LayOutSpanScratch(int64_t rows, int64_t head_dim, std::byte* scratch);
int64_t SpanScratchBytes(int64_t rows, int64_t head_dim, int64_t v_head_dim);

// Scratch of one thread, aligned to 64 bytes, for Attend; attend_span needs less.
int64_t AttentionScratchBytes(int64_t group, int64_t head_dim, int64_t v_head_dim);

// Attention of the tile, span after span.
void Attend(const KernelTable& table, const AttentionArguments& arguments, std::byte* scratch);

// The same for one token whose spans, all from that of its first visible position to its own, were
// run apart by KernelTable::attend_span: writes `out` from their states, [spans from 0 on] of
// [group] of AttentionStateFloats, in the order of the spans. The states are overwritten.
void MergeSpans(const AttentionArguments& arguments, float* states);

}  // namespace thaw
