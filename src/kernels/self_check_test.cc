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

TEST(SelectCheckedKernelsTest, PassesOverWhatIsWrongUnlessItWasAskedFor) {
  const KernelTable wrong = WithWrongNorm();
  const std::array<const KernelTable*, 2> tables = {&wrong, &Portable()};
  const auto chosen = SelectCheckedKernels(tables, "", {});
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, &Portable());
  const auto named = SelectCheckedKernels(tables, "wrong-norm", {});
  ASSERT_FALSE(named);
  EXPECT_EQ(named.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(named.error().message, HasSubstr("rms_norm"));
  EXPECT_FALSE(SelectCheckedKernels(std::span(tables).first(1), "", {}));
  EXPECT_FALSE(SelectCheckedKernels(tables, "none", {}));
}

TEST(SelectCheckedKernelsTest, ChoosesAsSelectKernelsDoes) {
  const auto chosen = SelectCheckedKernels("", AllTypes());
  ASSERT_TRUE(chosen);
  EXPECT_EQ(*chosen, *SelectKernels(""));
  EXPECT_EQ(*SelectCheckedKernels("portable", AllTypes()), &Portable());
}

}  // namespace
}  // namespace thaw
