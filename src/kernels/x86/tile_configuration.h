// What tile registers are configured with: LDTILECFG of Intel's manual (SDM volume 2) reads these
// 64 bytes. For *_amx.cc files and tests; in an anonymous namespace, for the reason given in
// avx2.h.
#pragma once

#include <cstdint>

namespace thaw {
namespace {

inline constexpr int kTiles = 8;
inline constexpr int kTileRows = 16;      // at most
inline constexpr int kTileRowBytes = 64;  // at most

struct alignas(64) TileConfiguration {
  uint8_t palette;  // 1: tiles of the numbers above
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];  // of tile after tile
  uint8_t rows[16];
};
static_assert(sizeof(TileConfiguration) == 64);

}  // namespace
}  // namespace thaw
