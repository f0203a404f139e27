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
  needs.is_refused = needs.missing.empty() && !table.is_available(cpu);
  return needs;
}

std::vector<TableNeeds> NeedsOfAllTables(const CpuFeatures& cpu) {
  std::vector<TableNeeds> tables;
  for (const KernelTable* table : AllKernelTables()) tables.push_back(NeedsOf(*table, cpu));
  return tables;
}

namespace {

std::string WhyNotTaken(const TableNeeds& table) {
  if (table.is_refused) return fmt::format("{} is not for CPUs of this maker", table.name);
  if (table.is_available()) {
    return fmt::format("{} would be better but computes something wrong here", table.name);
  }
  return fmt::format("{} would be better but needs {}, which this CPU lacks", table.name,
                     fmt::join(table.missing, ", "));
}

}  // namespace

std::string WhyChosen(const std::vector<TableNeeds>& tables, const KernelTable& chosen) {
  const std::string_view name = chosen.name;
  const TableNeeds& first = tables.front();
  if (first.name == name) {
    if (first.needed.empty()) return "the best of this build";
    return fmt::format("the best of this build; needs {}", fmt::join(first.needed, ", "));
  }
  std::vector<std::string> reasons;
  for (const TableNeeds& table : tables) {
    if (table.name == name) break;
    reasons.push_back(WhyNotTaken(table));
  }
  return fmt::format("{}", fmt::join(reasons, "; "));
}

}  // namespace thaw::cli
