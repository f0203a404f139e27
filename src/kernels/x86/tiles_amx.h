// Tile registers of AMX with int8 and bfloat16: the operations that packed_tiles.h is written in.
// For
// *_amx.cc files alone; in an anonymous namespace, for the reason given in avx2.h.
//
// Statements of assembly rather than intrinsics: those take the numbers of tiles as literals only,
// and in GCC 12 the compiler is not told that they read memory. Compilers leave tile registers
// alone, so these need not be named as written.
#pragma once

#include <cstdint>

#include "kernels/x86/tile_configuration.h"

namespace thaw {
namespace {

struct AmxTiles {
  // All tiles are zero then.
  [[gnu::always_inline]] static inline void Configure(const TileConfiguration& configuration) {
    asm volatile("ldtilecfg %0" : : "m"(configuration) : "memory");
  }

  // Gives the tiles back to the system, which need not save them any more.
  [[gnu::always_inline]] static inline void Release() {
    asm volatile("tilerelease" : : : "memory");
  }

  // The rows of a tile, stride_bytes apart.
  template <int tile>
  [[gnu::always_inline]] static inline void Load(const void* p, int64_t stride_bytes) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2"
                 :
                 : "r"(p), "r"(stride_bytes), "i"(tile)
                 : "memory");
  }
  template <int tile>
  [[gnu::always_inline]] static inline void Store(void* p, int64_t stride_bytes) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)"
                 :
                 : "r"(p), "r"(stride_bytes), "i"(tile)
                 : "memory");
  }

  template <int tile>
  [[gnu::always_inline]] static inline void Zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(tile));
  }

  // sums[m][n] += the products of the bytes of a[m] with bytes of b: of row k those of word n.
  template <int sums, int a, int b>
  [[gnu::always_inline]] static inline void AddProducts() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
  }
  // The same of pairs of bfloat16, to sums of floats.
  template <int sums, int a, int b>
  [[gnu::always_inline]] static inline void AddFloatProducts() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(sums), "i"(a), "i"(b));
  }
};

}  // namespace
}  // namespace thaw
