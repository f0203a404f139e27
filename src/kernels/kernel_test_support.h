// What the tests of the kernels share: one test body over every kernel table, and rows of random
// but sane blocks of any element type.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "kernels/kernel_table.h"

namespace thaw {

// The base of a test fixture whose tests run once for each table of this build and are skipped
// where the CPU lacks it:
//   class NormKernels : public EachKernelTable {};
//   TEST_P(NormKernels, DoX) { table().rms_norm(...); }
//   INSTANTIATE_FOR_KERNEL_TABLES(NormKernels, TablesByFunctions(&KernelTable::rms_norm));
class EachKernelTable : public ::testing::TestWithParam<const KernelTable*> {
 protected:
  void SetUp() override {
    if (!GetParam()->is_available(HostCpu())) {
      GTEST_SKIP() << "this CPU cannot run the " << GetParam()->name << " kernels";
    }
  }
  const KernelTable& table() const { return *GetParam(); }
};

#define INSTANTIATE_FOR_KERNEL_TABLES(Suite, tables)             \
  INSTANTIATE_TEST_SUITE_P(, Suite, ::testing::ValuesIn(tables), \
                           [](const auto& test) { return std::string(test.param->name); })

// Of tables that share all of the functions, the last, which most CPUs can run: for tests of
// nothing but those.
template <typename... Functions>
std::vector<const KernelTable*> TablesByFunctions(Functions KernelTable::*... functions) {
  std::vector<const KernelTable*> tables;
  for (const KernelTable* table : AllKernelTables()) {
    std::erase_if(tables, [&](const KernelTable* other) {
      return ((other->*functions == table->*functions) && ...);
    });
    tables.push_back(table);
  }
  return tables;
}

// AllKernelTables, and those that emulate instructions which few CPUs have: for what those do.
std::vector<const KernelTable*> AllAndEmulatedKernelTables();

// `n` floats, normally distributed.
std::vector<float> RandomFloats(int64_t n, std::mt19937& random);

// RowBytes(type, n) random bytes whose scales are normal numbers near 0.01 and whose floats, for
// the float types, are normally distributed.
std::vector<std::byte> RandomRows(ElementType type, int64_t n, std::mt19937& random);

// Sets bytes [begin, end) of every block of such rows.
void FillBlocks(ElementType type, int64_t begin, int64_t end, int fill, std::span<std::byte> rows);

// Memory that lies `misalignment` bytes behind a multiple of 64.
class ScratchMemory {
 public:
  explicit ScratchMemory(int64_t bytes, size_t misalignment = 0);
  std::byte* data();

 private:
  size_t misalignment_;
  std::vector<std::byte> memory_;
};

// The copies of activations that rows of k numbers of a type may meet in the products of a table;
// the last is the one that they are multiplied with fastest, as far as k allows.
std::vector<ActivationCopy> CopiesFor(const KernelTable& table, ElementType type, int64_t k);

// Activations that own their memory, quantized by `table`.
class OwnedActivations {
 public:
  OwnedActivations(const KernelTable& table, std::vector<float> values, int64_t n_tokens, int64_t k,
                   ActivationCopy copy = ActivationCopy::kNarrow);
  OwnedActivations(const OwnedActivations&) = delete;
  OwnedActivations& operator=(const OwnedActivations&) = delete;

  const Activations& view() const { return view_; }
  // The value that the quantized copy, outliers included, stands for.
  double Quantized(int64_t token, int64_t i) const;
  // What its quant counts.
  double Step(int64_t token, int64_t i) const;

 private:
  std::vector<float> values_;
  ScratchMemory memory_;
  Activations view_;
};

}  // namespace thaw
