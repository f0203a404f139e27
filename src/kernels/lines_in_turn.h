// The order in which memory is asked for where that of its addresses is not the fastest.
//
// The prefetchers of Intel's CPUs follow lines within a page of 4 KiB, in several pages at once. An
// Emerald Rapids reads a fifth to a quarter faster when lines of four pages come in turn than when
// they come one page after the other (docs/decisions/0016-memory-ahead.md).
#pragma once

#include <cstddef>
#include <cstdint>

namespace thaw {

// Where memory is asked for to, for __builtin_prefetch: the lanes say which is faster (AsksAhead in
// kernels/packed_products.h).
inline constexpr int kIntoL1 = 3;
inline constexpr int kIntoL2 = 2;

inline constexpr uintptr_t kPageBytes = 4096;
inline constexpr uintptr_t kPagesInTurn = 4;

// What is asked for of a page before the next one's turn, from a multiple of it on: four lines,
// which are as fast as single ones and take one address.
inline constexpr uintptr_t kTurnBytes = 256;

// What to ask for when the turn at `place` is used: turns of four pages, while those of the four
// pages before are used one after the other. So each is asked for once, 4 to 28 KiB ahead.
// Always inlined, as the next one is: files that are compiled for an instruction set of their own
// call them.
[[gnu::always_inline]] inline const std::byte* TurnAhead(uintptr_t place) {
  constexpr uintptr_t kPages = kPagesInTurn * kPageBytes;
  const uintptr_t turn = place % kPages / kTurnBytes;
  const uintptr_t next_pages = (place | (kPages - 1)) + 1;
  return reinterpret_cast<const std::byte*>(next_pages + turn % kPagesInTurn * kPageBytes +
                                            turn / kPagesInTurn * kTurnBytes);
}

// Asks for what is due when `bytes` bytes from `place` on are used.
template <int64_t bytes, int kCacheHint = kIntoL1>
[[gnu::always_inline]] inline void AskInTurn(const std::byte* place) {
  constexpr uintptr_t kLine = 64;
  const auto begin = reinterpret_cast<uintptr_t>(place);
  uintptr_t at = (begin + (kTurnBytes - 1)) / kTurnBytes * kTurnBytes;
#pragma GCC unroll 16
  for (int64_t left = bytes; left > 0; left -= kTurnBytes, at += kTurnBytes) {
    if (left < int64_t{kTurnBytes} && at >= begin + bytes) break;
    const std::byte* turn = TurnAhead(at);
    for (uintptr_t line = 0; line < kTurnBytes; line += kLine) {
      __builtin_prefetch(turn + line, 0, kCacheHint);
    }
  }
}

}  // namespace thaw
