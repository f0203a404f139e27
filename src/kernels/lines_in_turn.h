// The order in which memory is asked for where that of its addresses is not the fastest.
//
// Intel's CPUs follow lines within a page of 4 KiB, begin anew with each, and follow several pages
// at once. An Emerald Rapids reads a fifth to a quarter faster when lines of four pages come in
// turn than when they come one page after the other (docs/decisions/0016-memory-ahead.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw {

inline constexpr uintptr_t kPageBytes = 4096;
inline constexpr uintptr_t kPagesInTurn = 4;

// The line to ask for when the one at `place` is used: lines of four pages in turn, while those of
// the four pages before are used one after the other. So every line is asked for once, 4 to 28 KiB
// ahead. Always inlined: files that are compiled for an instruction set of their own call it.
[[gnu::always_inline]] inline const std::byte* LineInTurn(const std::byte* place) {
  constexpr uintptr_t kLine = 64;
  constexpr uintptr_t kPages = kPagesInTurn * kPageBytes;
  const auto address = reinterpret_cast<uintptr_t>(place);
  const uintptr_t line = address % kPages / kLine;
  const uintptr_t next_pages = (address | (kPages - 1)) + 1;
  return reinterpret_cast<const std::byte*>(next_pages + line % kPagesInTurn * kPageBytes +
                                            line / kPagesInTurn * kLine);
}

}  // namespace thaw
