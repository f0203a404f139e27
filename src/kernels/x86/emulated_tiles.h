// The operations of tiles_amx.h in plain C++, for the tests of packed_tiles.h on CPUs without AMX:
// what Intel's manual (SDM volume 2) says that LDTILECFG, TILELOADD, TILEZERO, TDPBSSD, TDPBF16PS
// and TILESTORED do. What makes those fault is a failed check here.
//
// The tiles are those of the calling thread. For emulated_amx_*.cc alone, which are compiled for an
// instruction set: in an anonymous namespace, for the reason given in avx2.h.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "kernels/x86/denormals.h"
#include "kernels/x86/emulated_tables.h"
#include "kernels/x86/tile_configuration.h"

namespace thaw {
namespace {

struct EmulatedTileState {
  bool is_configured;
  TileConfiguration configuration;
  uint8_t bytes[kTiles][kTileRows][kTileRowBytes];
};

thread_local EmulatedTileState emulated_tiles;

struct EmulatedTiles {
  static void Configure(const TileConfiguration& configuration) {
    // Stricter than a CPU: whoever used tiles has given them back.
    THAW_CHECK(!emulated_tiles.is_configured);
    THAW_CHECK(configuration.palette == 1 && configuration.start_row == 0);
    for (const uint8_t byte : configuration.reserved) THAW_CHECK(byte == 0);
    for (int tile = 0; tile < 16; ++tile) {
      const int rows = configuration.rows[tile];
      const int row_bytes = configuration.row_bytes[tile];
      THAW_CHECK(rows <= (tile < kTiles ? kTileRows : 0));
      THAW_CHECK(row_bytes <= (tile < kTiles ? kTileRowBytes : 0));
      THAW_CHECK((rows == 0) == (row_bytes == 0));
    }
    emulated_tiles = {.is_configured = true, .configuration = configuration, .bytes = {}};
  }

  static void Release() { emulated_tiles = {}; }

  template <int tile>
  static void Load(const void* p, int64_t stride_bytes) {
    Zero<tile>();
    const auto* from = static_cast<const uint8_t*>(p);
    for (int row = 0; row < Rows(tile); ++row) {
      for (int i = 0; i < RowBytes(tile); ++i) {
        emulated_tiles.bytes[tile][row][i] = from[row * stride_bytes + i];
      }
    }
  }

  template <int tile>
  static void Store(void* p, int64_t stride_bytes) {
    CheckIsConfigured(tile);
    auto* to = static_cast<uint8_t*>(p);
    for (int row = 0; row < Rows(tile); ++row) {
      for (int i = 0; i < RowBytes(tile); ++i) {
        to[row * stride_bytes + i] = emulated_tiles.bytes[tile][row][i];
      }
    }
  }

  template <int tile>
  static void Zero() {
    CheckIsConfigured(tile);
    for (auto& row : emulated_tiles.bytes[tile]) {
      for (uint8_t& byte : row) byte = 0;
    }
  }

  template <int sums, int a, int b>
  static void AddProducts() {
    CheckFit<sums, a, b>();
    const auto& tiles = emulated_tiles.bytes;
    const int words = RowBytes(a) / 4;
    const int columns = RowBytes(sums) / 4;
    for (int m = 0; m < Rows(sums); ++m) {
      uint32_t row[kTileRowBytes / 4];  // the sums wrap around
      __builtin_memcpy(row, tiles[sums][m], kTileRowBytes);
      for (int k = 0; k < words; ++k) {
        int8_t four[4];
        __builtin_memcpy(four, tiles[a][m] + 4 * k, 4);
        int8_t numbers[kTileRowBytes];
        __builtin_memcpy(numbers, tiles[b][k], kTileRowBytes);
        for (int n = 0; n < columns; ++n) {
          const int8_t* with = numbers + 4 * n;
          row[n] += static_cast<uint32_t>(four[0] * with[0] + four[1] * with[1] +
                                          four[2] * with[2] + four[3] * with[3]);
        }
      }
      __builtin_memcpy(emulated_tiles.bytes[sums][m], row, kTileRowBytes);
    }
  }

  template <int sums, int a, int b>
  static void AddFloatProducts() {
    CheckFit<sums, a, b>();
    const DenormalsAsZeros denormals;
    AddFloats(sums, a, b);
  }

 private:
  [[gnu::noinline]] static void AddFloats(int sums, int a, int b) {
    const auto& tiles = emulated_tiles.bytes;
    const int words = RowBytes(a) / 4;
    const int columns = RowBytes(sums) / 4;
    for (int m = 0; m < Rows(sums); ++m) {
      float row[kTileRowBytes / 4];
      __builtin_memcpy(row, tiles[sums][m], kTileRowBytes);
      for (int n = 0; n < columns; ++n) {
        float of_first = 0;
        float of_second = 0;
        for (int k = 0; k < words; ++k) {
          const uint32_t pair = Word(a, m, k);
          const uint32_t with = Word(b, k, n);
          of_first = __builtin_fmaf(UpperHalf(pair << 16), UpperHalf(with << 16), of_first);
          of_second = __builtin_fmaf(UpperHalf(pair), UpperHalf(with), of_second);
        }
        row[n] += of_first + of_second;
      }
      __builtin_memcpy(emulated_tiles.bytes[sums][m], row, kTileRowBytes);
    }
  }

  template <int sums, int a, int b>
  static void CheckFit() {
    static_assert(sums != a && sums != b && a != b);
    CheckIsConfigured(sums);
    CheckIsConfigured(a);
    CheckIsConfigured(b);
    THAW_CHECK(Rows(sums) == Rows(a));
    THAW_CHECK(RowBytes(sums) == RowBytes(b));
    THAW_CHECK(RowBytes(sums) % 4 == 0 && RowBytes(a) % 4 == 0 && RowBytes(a) / 4 == Rows(b));
    ++emulated_tile_products;
  }
  static uint32_t Word(int tile, int row, int word) {
    uint32_t found;
    __builtin_memcpy(&found, emulated_tiles.bytes[tile][row] + 4 * word, 4);
    return found;
  }
  // The number of bfloat16 in the upper half of a word.
  static float UpperHalf(uint32_t word) {
    const uint32_t bits = word & 0xffff0000;
    float number;
    __builtin_memcpy(&number, &bits, 4);
    return number;
  }
  static int Rows(int tile) { return emulated_tiles.configuration.rows[tile]; }
  static int RowBytes(int tile) { return emulated_tiles.configuration.row_bytes[tile]; }
  static void CheckIsConfigured(int tile) {
    THAW_CHECK(emulated_tiles.is_configured && Rows(tile) > 0);
  }
};

}  // namespace
}  // namespace thaw
