// Which of two tables that give the same bits is taken: the one that is faster on this machine.
//
// An instruction that does more at once need not be the faster way everywhere: what it waits for,
// and who shares its unit, differs from machine to machine (docs/decisions/0009-amx.md). So where
// KernelTable::same_bits_as names another table, products of both are timed at start. As the bits
// are the same, the choice never changes a result, and may differ from one start to the next.
//
// Costs: 1 to 4 ms on one thread and 1 MiB meanwhile; nothing where the CPU has no such table.
#pragma once

#include <cstddef>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/function_ref.h"
#include "kernels/activations.h"
#include "kernels/kernel_table.h"

namespace thaw {

struct KernelChoice {
  const KernelTable* table = nullptr;
  // The table that it was timed against, and how many times as fast it was, at least 1; nullptr
  // where nothing was timed.
  const KernelTable* slower = nullptr;
  double speedup = 1;
};

// Seconds, more than 0, that a table takes for some work, the same for all.
using TableTimer = FunctionRef<double(const KernelTable& table)>;

// The faster of two tables by the least of five times of each, taken in turn: what else the machine
// does only ever adds to a time. The first where both are as fast.
KernelChoice ChooseByTime(const KernelTable& first, const KernelTable& second, TableTimer seconds);

// The work that is timed: products of a batch of tokens with rows of Q4_K and of Q6_K, which tables
// of the same bits may multiply in different ways; packed rows where the table takes them. It owns
// what it multiplies, from the first call on. For one thread at a time.
class ProductTimer {
 public:
  double operator()(const KernelTable& table);

 private:
  void Prepare(const KernelTable& table);

  std::vector<float> values_;
  std::vector<float> out_;
  AlignedBuffer memory_;  // the quantized activations, scratch and rows
  Activations activations_;
  std::byte* scratch_ = nullptr;
  std::byte* rows_ = nullptr;
};

}  // namespace thaw
