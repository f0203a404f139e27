#include "cli/kernel_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace thaw::cli {

TableNeeds NeedsOf(const KernelTable& table, const CpuFeatures& cpu) {
  CpuFeatures all;
  for (const CpuFeatureName& each : AllCpuFeatures()) all.*each.feature = true;
  TableNeeds needs = {.name = table.name};
  for (const CpuFeatureName& each : AllCpuFeatures()) {
    CpuFeatures all_but_one = all;
    all_but_one.*each.feature = false;
    if (table.is_available(all_but_one)) continue;
    needs.needed.emplace_back(each.name);
    if (!(cpu.*each.feature)) needs.missing.emplace_back(each.name);
  }
  return needs;
}

std::vector<TableNeeds> NeedsOfAllTables(const CpuFeatures& cpu) {
  std::vector<TableNeeds> tables;
  for (const KernelTable* table : AllKernelTables()) tables.push_back(NeedsOf(*table, cpu));
  return tables;
}

std::string WhyChosen(const std::vector<TableNeeds>& tables, std::string_view chosen) {
  std::string why;
  for (const TableNeeds& table : tables) {
    if (table.name != chosen) {
      why += fmt::format("{}{} would be better but needs {}, which this CPU lacks",
                         why.empty() ? "" : "; ", table.name, fmt::join(table.missing, ", "));
      continue;
    }
    if (!why.empty()) return why;
    why = "the best of this build";
    if (!table.needed.empty()) why += fmt::format("; needs {}", fmt::join(table.needed, ", "));
    return why;
  }
  return why;
}

}  // namespace thaw::cli
