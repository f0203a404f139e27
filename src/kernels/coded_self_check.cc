#include "kernels/coded_self_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/check.h"
#include "base/log.h"
#include "codec/stream_encoder.h"
#include "kernels/check_data.h"
#include "kernels/coded_matmul.h"
#include "tensor/half.h"

namespace thaw {
namespace {

// An odd number of blocks: the last one of a packed group stands alone, and the last scale of
// activations is for half a block. More than the 256 columns of bf16 that are decoded at once where
// they are multiplied in registers.
constexpr int64_t kCols = 9 * kFrozenBlock;

// The streams of a tile. Two groups, so that one begins where another has ended; the last stream of
// a tile is a shorter one.
constexpr int64_t kRowsPerStream = 2 * kFrozenGroupRows;
constexpr int64_t kRows = 2 * kRowsPerStream + kFrozenGroupRows;

// Of the numbers m of each stream of ecq: some 3.6, 5.4 and 6.1 bits, which are coded with 0, 1 and
// 2 raw planes.
constexpr double kDeviations[] = {3, 10, 17};
static_assert(std::ssize(kDeviations) * kRowsPerStream == kRows + kFrozenGroupRows);

// One, which tables may multiply in registers, and more than are multiplied by single groups.
constexpr int64_t kTokens[] = {1, 9};

// Nearly normal, with a deviation of 1.
double NextNormal(CheckNumbers& numbers) {
  double sum = 0;
  for (int i = 0; i < 3; ++i) sum += double{numbers.NextFloat()};
  return sum;
}

// [0, n)
uint32_t NextBelow(uint32_t n, CheckNumbers& numbers) { return (numbers.Next() >> 16) % n; }

// One weight in 100 is any number, of bf16 any exponent: most of these are patched.
bool NextIsTail(CheckNumbers& numbers) { return NextBelow(100, numbers) == 0; }

void AppendEcq(double deviation, int64_t rows, CheckNumbers& numbers,
               std::vector<std::byte>& tile) {
  std::vector<int8_t> drawn(static_cast<size_t>(rows * kCols));
  for (int8_t& m : drawn) {
    const auto normal = static_cast<int>(std::lround(deviation * NextNormal(numbers)));
    const int tail = static_cast<int>(NextBelow(128, numbers)) - 64;
    m = static_cast<int8_t>(NextIsTail(numbers) ? tail : normal);
  }
  std::vector<uint16_t> scales;
  std::vector<BlockShift> shifts;
  for (int64_t row = 0; row < rows; ++row) {
    scales.push_back(F32ToF16(0.003F + 0.002F * numbers.NextFloat()));
    if (row % 3 != 0) continue;
    const int64_t block = NextBelow(kCols / kFrozenBlock, numbers);
    shifts.push_back({.row = row, .block = block, .shift = static_cast<int>(1 + row % 4)});
  }
  AppendEcqStream(rows, kCols, TrellisIntegers(rows, kCols, drawn), scales, shifts, tile);
}

void AppendBf16(int64_t rows, CheckNumbers& numbers, std::vector<std::byte>& tile) {
  // Below 2^9: small enough for what a product adds up to still to show the other weights.
  constexpr uint32_t kExponents = 136;
  std::vector<uint16_t> weights(static_cast<size_t>(rows * kCols));
  for (uint16_t& weight : weights) {
    weight = F32ToBF16(static_cast<float>(0.02 * NextNormal(numbers)));
    const uint32_t exponent = NextBelow(kExponents, numbers);
    if (NextIsTail(numbers)) weight = static_cast<uint16_t>((weight & 0x807f) | exponent << 7);
  }
  AppendBf16Stream(rows, kCols, weights, tile);
}

std::vector<std::byte> MakeTile(FrozenKind kind) {
  CheckNumbers numbers;
  std::vector<std::byte> tile;
  int64_t row = 0;
  for (const double deviation : kDeviations) {
    const int64_t rows = std::min(kRowsPerStream, kRows - row);
    if (kind == FrozenKind::kEcq) {
      AppendEcq(deviation, rows, numbers, tile);
    } else {
      AppendBf16(rows, numbers, tile);
    }
    row += rows;
  }
  return tile;
}

// Compares one decoder, on a tile of one kind.
class KindChecker {
 public:
  KindChecker(const KernelTable& table, const TileDecoder& decoder, FrozenKind kind)
      : table_(table), decoder_(decoder), kind_(kind), tile_(MakeTile(kind)) {}

  std::optional<std::string> Run() const {
    if (auto disagreement = CheckGroups()) return disagreement;
    for (const int64_t tokens : kTokens) {
      if (auto disagreement = CheckProducts(tokens)) return disagreement;
    }
    return std::nullopt;
  }

 private:
  std::optional<std::string> CheckGroups() const {
    const auto thaw = [&](const TileDecoder& decoder, std::vector<std::byte>& packed) {
      return ThawTile(decoder, kind_, kCols, kRowsPerStream, kRows, tile_, packed.data());
    };
    const int64_t group_bytes = ThawedGroupBytes(kind_, kCols);
    std::vector<std::byte> expected(static_cast<size_t>(kRows / kFrozenGroupRows * group_bytes));
    THAW_CHECK(thaw(PortableDecoder(), expected));
    // Whatever a decoder leaves as it was differs.
    std::vector<std::byte> found(expected.size());
    std::ranges::transform(expected, found.begin(), [](std::byte byte) { return ~byte; });
    if (const auto thawed = thaw(decoder_, found); !thawed) {
      return fmt::format("decoding of {}: {}", FrozenKindName(kind_), thawed.error().message);
    }
    const auto at = std::ranges::mismatch(found, expected).in1 - found.begin();
    if (at == std::ssize(found)) return std::nullopt;
    return fmt::format("decoding of {}: byte {} of group {} is {} instead of {}",
                       FrozenKindName(kind_), at % group_bytes, at / group_bytes,
                       std::to_integer<int>(found[static_cast<size_t>(at)]),
                       std::to_integer<int>(expected[static_cast<size_t>(at)]));
  }

  std::optional<std::string> CheckProducts(int64_t n_tokens) const {
    CheckNumbers numbers;
    std::vector<float> values = numbers.Floats(n_tokens * kCols);
    // Outliers, one in 19: four times the root mean square of all, 4.6, is less.
    for (size_t i = 5; i < values.size(); i += 19) values[i] += std::copysign(20.0f, values[i]);
    AlignedBuffer quantized = AllocateForCheck(ActivationBytes(n_tokens, kCols));
    const Activations batch = ViewActivations(values.data(), n_tokens, kCols, quantized.data(),
                                              FastestCopy(table_, ThawedType(kind_)));
    table_.quantize_activations(batch, 0, n_tokens);
    const std::vector<float> expected = Multiply(PortableDecoder(), batch);
    const std::vector<float> found = Multiply(decoder_, batch);
    for (size_t at = 0; at < found.size(); ++at) {
      if (std::memcmp(&found[at], &expected[at], sizeof(float)) == 0) continue;
      return fmt::format(
          "product of coded {} with {} token{}: row {} of token {} is {} instead of {}",
          FrozenKindName(kind_), n_tokens, n_tokens == 1 ? "" : "s", at % kRows, at / kRows,
          found[at], expected[at]);
    }
    return std::nullopt;
  }

  // [batch.n_tokens, kRows]
  std::vector<float> Multiply(const TileDecoder& decoder, const Activations& batch) const {
    const CodedRows rows = {.kind = kind_,
                            .data = tile_.data(),
                            .n_rows = kRows,
                            .k = kCols,
                            .rows_per_stream = kRowsPerStream};
    std::vector<float> out(static_cast<size_t>(batch.n_tokens * kRows));
    AlignedBuffer scratch = AllocateForCheck(CodedScratchBytes(kind_, kCols));
    MultiplyCoded(table_, decoder, rows, 0, kRows, batch, out.data(), kRows, scratch.data());
    return out;
  }

  const KernelTable& table_;
  const TileDecoder& decoder_;
  FrozenKind kind_;
  std::vector<std::byte> tile_;
};

}  // namespace

std::optional<std::string> FindDisagreement(const KernelTable& table, const TileDecoder& decoder,
                                            std::span<const FrozenKind> kinds) {
  for (const FrozenKind kind : kAllFrozenKinds) {
    if (std::ranges::find(kinds, kind) == kinds.end()) continue;
    if (auto disagreement = KindChecker(table, decoder, kind).Run()) return disagreement;
  }
  return std::nullopt;
}

Result<const TileDecoder*> SelectCheckedDecoder(std::string_view backend, const KernelTable& table,
                                                std::span<const FrozenKind> kinds) {
  return SelectCheckedDecoder(AllTileDecoders(), backend, table, kinds);
}

Result<const TileDecoder*> SelectCheckedDecoder(std::span<const TileDecoder* const> decoders,
                                                std::string_view backend, const KernelTable& table,
                                                std::span<const FrozenKind> kinds) {
  THAW_TRY(CheckCodecBackend(backend));
  for (const TileDecoder* decoder : DecodersFor(table.name, HostCpu(), decoders)) {
    const auto disagreement = FindDisagreement(table, *decoder, kinds);
    if (!disagreement) return decoder;
    LogWarning(
        "the decoder \"{}\" gives something wrong on this machine with the kernels \"{}\", another "
        "is taken: {}",
        decoder->name, table.name, *disagreement);
  }
  return Fail(ErrorCode::kUnsupported,
              "no decoder of frozen tensors gives what it should on this machine");
}

}  // namespace thaw
