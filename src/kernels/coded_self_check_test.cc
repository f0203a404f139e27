#include "kernels/coded_self_check.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr FrozenKind kEcq[] = {FrozenKind::kEcq};
constexpr FrozenKind kBf16[] = {FrozenKind::kBf16};

const KernelTable& PortableTable() { return *AllKernelTables().back(); }

// The portable table under a name that allows every decoder.
KernelTable TableForAnyDecoder() {
  KernelTable table = PortableTable();
  table.name = "any";
  return table;
}

class CodedSelfCheck : public EachKernelTable {};

TEST_P(CodedSelfCheck, FindsNothingWrongWithTheDecodersAsTheyAre) {
  for (const TileDecoder* decoder : DecodersFor(table().name, HostCpu())) {
    EXPECT_EQ(FindDisagreement(table(), *decoder, kAllFrozenKinds), std::nullopt) << decoder->name;
  }
}

TEST_P(CodedSelfCheck, ChoosesTheFirstDecoderThatTheTableAllows) {
  const auto chosen = SelectCheckedDecoder(kCpuBackend, table(), kAllFrozenKinds);
  ASSERT_TRUE(chosen) << chosen.error().message;
  EXPECT_EQ(*chosen, DecodersFor(table().name, HostCpu()).front());
}

INSTANTIATE_FOR_KERNEL_TABLES(CodedSelfCheck, AllAndEmulatedKernelTables());

// The portable decoder under another name.
TileDecoder DecoderNamed(const char* name) {
  TileDecoder decoder = PortableDecoder();
  decoder.name = name;
  return decoder;
}

// One byte is wrong, of the last group of the tile.
template <FrozenKind kKind>
void DecodeButOneByte(StreamCursor& cursor, std::byte* packed) {
  const bool is_ecq = kKind == FrozenKind::kEcq;
  (is_ecq ? PortableDecoder().decode_ecq : PortableDecoder().decode_bf16)(cursor, packed);
  if (cursor.stream.groups() != 1) return;
  packed[ThawedGroupBytes(kKind, cursor.stream.cols) - 1] ^= std::byte{1};
}

TileDecoder WrongForEcq() {
  TileDecoder decoder = DecoderNamed("wrong-ecq");
  decoder.decode_ecq = DecodeButOneByte<FrozenKind::kEcq>;
  return decoder;
}

TileDecoder WrongForBf16() {
  TileDecoder decoder = DecoderNamed("wrong-bf16");
  decoder.decode_bf16 = DecodeButOneByte<FrozenKind::kBf16>;
  return decoder;
}

std::string Disagreement(const TileDecoder& decoder, std::span<const FrozenKind> kinds) {
  return FindDisagreement(PortableTable(), decoder, kinds).value_or("");
}

TEST(FindDecoderDisagreement, NamesTheByteOfTheKindThatDiffers) {
  EXPECT_THAT(Disagreement(WrongForEcq(), kAllFrozenKinds),
              AllOf(StartsWith("decoding of ecq: byte "), HasSubstr(" of group 4 is ")));
  EXPECT_THAT(Disagreement(WrongForBf16(), kAllFrozenKinds),
              AllOf(StartsWith("decoding of bf16: byte "), HasSubstr(" of group 4 is ")));
}

TEST(FindDecoderDisagreement, LooksAtTheKindsThatItIsToldAlone) {
  EXPECT_EQ(Disagreement(WrongForEcq(), kBf16), "");
  EXPECT_EQ(Disagreement(WrongForBf16(), kEcq), "");
  EXPECT_EQ(Disagreement(WrongForBf16(), {}), "");
}

TEST(FindDecoderDisagreement, FindsBytesThatWereNotWritten) {
  TileDecoder decoder = DecoderNamed("lazy");
  decoder.decode_bf16 = [](StreamCursor& cursor, std::byte* packed) {
    const auto bytes = static_cast<size_t>(ThawedGroupBytes(FrozenKind::kBf16, cursor.stream.cols));
    std::vector<std::byte> elsewhere(bytes);
    PortableDecoder().decode_bf16(cursor, elsewhere.data());
    std::ranges::copy_n(elsewhere.begin(), static_cast<int64_t>(bytes) - 2, packed);
  };
  EXPECT_THAT(Disagreement(decoder, kBf16), StartsWith("decoding of bf16: byte "));
}

// A decoder that reads everything right, but is not where it should be at a stream's end.
TEST(FindDecoderDisagreement, FindsACursorThatIsLeftInAnotherPlace) {
  TileDecoder decoder = DecoderNamed("forgetful");
  decoder.decode_ecq = [](StreamCursor& cursor, std::byte* packed) {
    PortableDecoder().decode_ecq(cursor, packed);
    if (cursor.group + 1 == cursor.stream.groups()) ++cursor.states[7].low[63];
  };
  EXPECT_THAT(Disagreement(decoder, kEcq), StartsWith("decoding of ecq: the stream at byte 0"));
}

// The portable decoder, but that patches are left out in streams of so many raw planes.
template <int kRawPlanes>
void DecodeWithoutPatchesOf(StreamCursor& cursor, std::byte* packed) {
  PortableDecoder().decode_ecq(cursor, packed);
  const FrozenStreamHeader& header = cursor.stream.header;
  if (header.raw_planes == kRawPlanes) cursor.patches_done = header.patches;
}

TEST(FindDecoderDisagreement, HasPatchesInStreamsOfEveryNumberOfRawPlanes) {
  TileDecoder decoder = DecoderNamed("patchless");
  for (const auto decode :
       {DecodeWithoutPatchesOf<0>, DecodeWithoutPatchesOf<1>, DecodeWithoutPatchesOf<2>}) {
    decoder.decode_ecq = decode;
    EXPECT_THAT(Disagreement(decoder, kEcq), StartsWith("decoding of ecq: byte "));
  }
}

// The portable decoder, but that the cursor moves behind some section of the stream.
template <uint32_t StreamCursor::*kDone, uint32_t FrozenStreamHeader::*kCount>
void DecodeWithout(StreamCursor& cursor, std::byte* packed) {
  const bool is_ecq = cursor.stream.kind == FrozenKind::kEcq;
  (is_ecq ? PortableDecoder().decode_ecq : PortableDecoder().decode_bf16)(cursor, packed);
  cursor.*kDone = cursor.stream.header.*kCount;
}

TEST(FindDecoderDisagreement, HasPatchesAndShifts) {
  TileDecoder decoder = DecoderNamed("wrong-sections");
  decoder.decode_ecq = DecodeWithout<&StreamCursor::patches_done, &FrozenStreamHeader::patches>;
  decoder.decode_bf16 = decoder.decode_ecq;
  EXPECT_THAT(Disagreement(decoder, kEcq), StartsWith("decoding of ecq: byte "));
  EXPECT_THAT(Disagreement(decoder, kBf16), StartsWith("decoding of bf16: byte "));
  decoder.decode_ecq = DecodeWithout<&StreamCursor::shifts_done, &FrozenStreamHeader::shifts>;
  EXPECT_THAT(Disagreement(decoder, kEcq), StartsWith("decoding of ecq: byte "));
}

// A decoder by whose name products with one token go through the table, whatever this CPU has.
TileDecoder NamedForRegisters() { return DecoderNamed("avx512vbmi2"); }

KernelTable WithProductsOfZero() {
  KernelTable table = TableForAnyDecoder();
  table.multiply_coded_group = [](StreamCursor& cursor, const CodedToken&, float* out) {
    std::fill_n(out, kFrozenGroupRows, 0.0f);
    ++cursor.group;
  };
  return table;
}

TEST(FindDecoderDisagreement, FindsWrongProductsInRegisters) {
  const KernelTable table = WithProductsOfZero();
  EXPECT_THAT(FindDisagreement(table, NamedForRegisters(), kBf16).value_or(""),
              StartsWith("product of coded bf16 with 1 token: row 0 of token 0 is 0 instead of "));
  EXPECT_EQ(FindDisagreement(table, PortableDecoder(), kBf16), std::nullopt);
}

// The table whose products in registers are wrong where `multiply` makes them so; nothing where
// this CPU has none.
std::optional<KernelTable> TableThatMultiplies(
    decltype(KernelTable::multiply_coded_group) multiply) {
  for (const KernelTable* table : AllKernelTables()) {
    if (table->multiply_coded_group == nullptr || !table->is_available(HostCpu())) continue;
    if (!AllTileDecoders().front()->is_available(HostCpu())) continue;
    KernelTable wrong = *table;
    wrong.multiply_coded_group = multiply;
    return wrong;
  }
  return std::nullopt;
}

void MultiplyRightly(StreamCursor& cursor, const CodedToken& token, float* out) {
  const auto table = std::ranges::find_if(AllKernelTables(), [](const KernelTable* any) {
    return any->multiply_coded_group != nullptr && any->is_available(HostCpu());
  });
  (*table)->multiply_coded_group(cursor, token, out);
}

TEST(FindDecoderDisagreement, FindsTheLowestBitOfAProductInRegistersThatPatchesAndOutliersShare) {
  const auto table =
      TableThatMultiplies([](StreamCursor& cursor, const CodedToken& token, float* out) {
        MultiplyRightly(cursor, token, out);
        if (token.n_outlier_patches == 0) return;
        float& product = out[token.outlier_patches[0].row];
        product = std::nextafter(product, 1e9f);
      });
  if (!table) GTEST_SKIP() << "this CPU multiplies no coded rows in registers";
  const TileDecoder& decoder = *AllTileDecoders().front();
  EXPECT_THAT(FindDisagreement(*table, decoder, kAllFrozenKinds).value_or(""),
              StartsWith("product of coded ecq with 1 token: row "));
  EXPECT_EQ(FindDisagreement(*table, decoder, kBf16), std::nullopt);
}

TEST(SelectCheckedDecoderTest, PassesOverWhatIsWrongAndSaysWhat) {
  const TileDecoder wrong = WrongForEcq();
  const std::array<const TileDecoder*, 2> decoders = {&wrong, &PortableDecoder()};
  const KernelTable table = TableForAnyDecoder();
  testing::internal::CaptureStderr();
  const auto chosen = SelectCheckedDecoder(decoders, kCpuBackend, table, kAllFrozenKinds);
  const std::string log = testing::internal::GetCapturedStderr();
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, &PortableDecoder());
  EXPECT_THAT(log, AllOf(HasSubstr("\"wrong-ecq\""), HasSubstr("\"any\""),
                         HasSubstr("decoding of ecq: byte ")));
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, table, kBf16), &wrong);
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, table, {}), &wrong);
  // Not allowed, so not looked at.
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, PortableTable(), kBf16),
            &PortableDecoder());
}

TEST(SelectCheckedDecoderTest, PassesOverTheDecoderWithWhichTheTableMultipliesWrongly) {
  const TileDecoder first = NamedForRegisters();
  const std::array<const TileDecoder*, 2> decoders = {&first, &PortableDecoder()};
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, WithProductsOfZero(), kEcq),
            &PortableDecoder());
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, TableForAnyDecoder(), kEcq), &first);
}

TEST(SelectCheckedDecoderTest, FailsWhereNoneAgreesAndForBackEndsThatThereAreNot) {
  const TileDecoder wrong_ecq = WrongForEcq();
  const TileDecoder wrong_bf16 = WrongForBf16();
  const std::array<const TileDecoder*, 2> decoders = {&wrong_ecq, &wrong_bf16};
  const KernelTable table = TableForAnyDecoder();
  const auto none = SelectCheckedDecoder(decoders, kCpuBackend, table, kAllFrozenKinds);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(*SelectCheckedDecoder(decoders, kCpuBackend, table, kEcq), &wrong_bf16);
  const auto unknown = SelectCheckedDecoder("abacus", PortableTable(), kAllFrozenKinds);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(unknown.error().message, HasSubstr("'abacus'"));
}

}  // namespace
}  // namespace thaw
