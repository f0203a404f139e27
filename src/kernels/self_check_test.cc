#include "kernels/self_check.h"

#include <gmock/gmock.h>

#include <array>
#include <utility>

#include "kernels/kernel_test_support.h"

namespace thaw {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

std::vector<ElementType> AllTypes() {
  std::vector<ElementType> types;
  for (const ElementTypeInfo& info : AllElementTypes()) types.push_back(info.type);
  return types;
}

const KernelTable& Portable() { return *AllKernelTables().back(); }

class SelfCheck : public EachKernelTable {};

TEST_P(SelfCheck, FindsNothingWrongWithTheKernelsAsTheyAre) {
  EXPECT_EQ(FindDisagreement(table(), AllTypes()), std::nullopt);
}

INSTANTIATE_FOR_KERNEL_TABLES(SelfCheck, AllAndEmulatedKernelTables());

// Kernels that are wrong in one number each.
KernelTable WithWrongMatMul() {
  KernelTable table = Portable();
  table.name = "wrong-matmul";
  table.matmul = [](const WeightRows& weights, int64_t begin, int64_t end, const Activations& a,
                    float* out, int64_t stride, std::byte* scratch) {
    Portable().matmul(weights, begin, end, a, out, stride, scratch);
    if (weights.type == ElementType::kQ4_K) out[(a.n_tokens - 1) * stride + end - 1] *= 1.1f;
  };
  return table;
}

KernelTable WithWrongNorm() {
  KernelTable table = Portable();
  table.name = "wrong-norm";
  table.rms_norm = [](const float* x, const float* weight, int64_t n, float epsilon, float* out) {
    Portable().rms_norm(x, weight, n, epsilon, out);
    out[n - 1] += 0.01f;
  };
  return table;
}

KernelTable WithWrongAttention() {
  KernelTable table = Portable();
  table.name = "wrong-attention";
  table.attend_span = [](const AttentionArguments& arguments, int64_t span, float* states,
                         std::byte* scratch) {
    AttentionArguments shorter = arguments;
    if (arguments.kv_type == KvType::kQ8_0) --shorter.first_position;
    Portable().attend_span(shorter, span, states, scratch);
  };
  return table;
}

TEST(FindDisagreementTest, NamesWhatDiffers) {
  const ElementType types[] = {ElementType::kQ4_0, ElementType::kQ4_K};
  EXPECT_THAT(FindDisagreement(WithWrongMatMul(), types).value_or(""), HasSubstr("matmul of Q4_K"));
  EXPECT_EQ(FindDisagreement(WithWrongMatMul(), std::span(types).first(1)), std::nullopt);
  EXPECT_THAT(FindDisagreement(WithWrongNorm(), types).value_or(""), HasSubstr("rms_norm"));
  EXPECT_THAT(FindDisagreement(WithWrongAttention(), types).value_or(""),
              HasSubstr("attention over q8_0"));
}

constexpr auto NeverTimed = [](const KernelTable& table) {
  ADD_FAILURE() << table.name << " was timed";
  return 1.0;
};

TEST(SelectCheckedKernelsTest, PassesOverWhatIsWrongUnlessItWasAskedFor) {
  const KernelTable wrong = WithWrongNorm();
  const std::array<const KernelTable*, 2> tables = {&wrong, &Portable()};
  const auto chosen = SelectCheckedKernels(tables, "", {}, NeverTimed);
  ASSERT_TRUE(chosen);
  EXPECT_EQ(chosen->table, &Portable());
  EXPECT_EQ(chosen->slower, nullptr);
  const auto named = SelectCheckedKernels(tables, "wrong-norm", {}, NeverTimed);
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(named.error().message, HasSubstr("rms_norm"));
  EXPECT_FALSE(SelectCheckedKernels(std::span(tables).first(1), "", {}, NeverTimed));
  EXPECT_FALSE(SelectCheckedKernels(tables, "none", {}, NeverTimed));
}

// Portable() under two names, of which the first says that the second gives its bits.
class SelectAmongTablesOfTheSameBits : public ::testing::Test {
 protected:
  SelectAmongTablesOfTheSameBits() : first_(Portable()), second_(Portable()) {
    first_.name = "first";
    first_.same_bits_as = &second_;
    second_.name = "second";
  }

  Result<KernelChoice> Select(std::string_view name, TableTimer seconds) const {
    const std::array<const KernelTable*, 2> tables = {&first_, &second_};
    return SelectCheckedKernels(tables, name, {}, seconds);
  }

  KernelTable first_;
  KernelTable second_;
};

TEST_F(SelectAmongTablesOfTheSameBits, TakesTheFasterOne) {
  for (const KernelTable* faster : {&first_, &second_}) {
    const auto choice =
        Select("", [&](const KernelTable& table) { return &table == faster ? 1.0 : 2.0; });
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->table, faster);
    EXPECT_EQ(choice->slower, faster == &first_ ? &second_ : &first_);
    EXPECT_EQ(choice->speedup, 2);
  }
}

TEST_F(SelectAmongTablesOfTheSameBits, TimesNothingWhereOneIsNamed) {
  for (const KernelTable* named : {&first_, &second_}) {
    const auto choice = Select(named->name, NeverTimed);
    ASSERT_TRUE(choice);
    EXPECT_EQ(choice->table, named);
    EXPECT_EQ(choice->slower, nullptr);
  }
}

TEST_F(SelectAmongTablesOfTheSameBits, TimesNothingWhereTheCpuLacksOne) {
  first_.is_available = [](const CpuFeatures&) { return false; };
  EXPECT_EQ(Select("", NeverTimed)->table, &second_);
  std::swap(first_.is_available, second_.is_available);
  EXPECT_EQ(Select("", NeverTimed)->table, &first_);
}

TEST_F(SelectAmongTablesOfTheSameBits, TakesNoneThatIsWrongHoweverFast) {
  first_.rms_norm = WithWrongNorm().rms_norm;
  EXPECT_EQ(Select("", NeverTimed)->table, &second_);
  std::swap(first_.rms_norm, second_.rms_norm);
  const auto choice =
      Select("", [&](const KernelTable& table) { return &table == &second_ ? 1.0 : 2.0; });
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->table, &first_);
  EXPECT_EQ(choice->slower, nullptr);
}

TEST(SelectCheckedKernelsTest, ChoosesAsSelectKernelsDoesOrWhatGivesTheSameBits) {
  const KernelTable* first = *SelectKernels("");
  const auto choice = SelectCheckedKernels("", AllTypes());
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->table, AnyOf(first, first->same_bits_as));
  EXPECT_EQ(choice->slower != nullptr, first->same_bits_as != nullptr);
  EXPECT_EQ(SelectCheckedKernels("portable", AllTypes())->table, &Portable());
}

}  // namespace
}  // namespace thaw
