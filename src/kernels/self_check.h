// Whether the kernels that a CPU was found able to run compute what they should on it.
//
// A table may be wrong on a machine that its tests never saw: an emulator that lacks an
// instruction's corner, a compiler that took a liberty, a CPU with a defect. So the chosen table is
// compared with the portable one at every start, on a small case of each function and of each type
// that the model has; that takes a few milliseconds. What decodes frozen tensors is compared by
// kernels/coded_self_check.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "kernels/kernel_table.h"

namespace thaw {

// What differs, and by how much: "matmul of Q4_K, packed: 1.25 instead of 1.5". nullopt where the
// table agrees with the portable kernels. `types` are those of weights; others than CanMultiply's
// are left out.
std::optional<std::string> FindDisagreement(const KernelTable& table,
                                            std::span<const ElementType> types);

// As SelectKernels, among tables that agree. For "" a table that does not agree is passed over with
// a warning that says what differs; one that was asked for by name is an error, kUnsupported.
Result<const KernelTable*> SelectCheckedKernels(std::string_view name,
                                                std::span<const ElementType> types);

// The same among `tables`, best first.
Result<const KernelTable*> SelectCheckedKernels(std::span<const KernelTable* const> tables,
                                                std::string_view name,
                                                std::span<const ElementType> types);

}  // namespace thaw
