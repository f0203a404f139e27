// Which kernel table is chosen and why: what each table of this build needs of the CPU, and what
// the CPU lacks of that. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/kernel_table.h"

namespace thaw::cli {

struct TableNeeds {
  const char* name = "";
  std::vector<std::string> needed = {};   // CPU features, by name
  std::vector<std::string> missing = {};  // those of them that the CPU lacks
  bool is_refused = false;                // lacks none, but the table is not for CPUs of this maker

  bool is_available() const { return missing.empty() && !is_refused; }
};

// Found by asking is_available about CPUs that lack one feature each, so it cannot differ from what
// SelectKernels does.
TableNeeds NeedsOf(const KernelTable& table, const CpuFeatures& cpu);

// Of every table in this build, best first.
std::vector<TableNeeds> NeedsOfAllTables(const CpuFeatures& cpu);

// "the best of this build; needs avx2, fma, f16c" or "avx512 would be better but needs avx512f,
// which this CPU lacks". `tables` is best first; `chosen` is SelectCheckedKernels' among them.
std::string WhyChosen(const std::vector<TableNeeds>& tables, const KernelTable& chosen);

}  // namespace thaw::cli
