// Which kernel table is chosen and why: what each table of this build needs of the CPU, what the
// CPU lacks of that, and what was faster. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/cpu_features.h"
#include "kernels/kernel_table.h"
#include "kernels/table_choice.h"

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

// "the best of this build; needs avx2, fma, f16c", "avx512 would be better but needs avx512f, which
// this CPU lacks" or "1.12 times as fast as amx here". `tables` is best first; `choice` is
// SelectCheckedKernels' among them.
std::string WhyChosen(const std::vector<TableNeeds>& tables, const KernelChoice& choice);

}  // namespace thaw::cli
