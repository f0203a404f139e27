#include "kernels/x86/peak_rate.h"
#include "kernels/x86/tile_configuration.h"
#include "kernels/x86/tiles_amx.h"

namespace thaw::x86 {

int32_t RunPeakAmx(int64_t rounds) {
  static_assert(kAmxProductsPerRound == 4);
  TileConfiguration configuration = {};
  configuration.palette = 1;
  for (int tile = 0; tile < kTiles; ++tile) {
    configuration.rows[tile] = kTileRows;
    configuration.row_bytes[tile] = kTileRowBytes;
  }
  alignas(64) int8_t a[kTileRows * kTileRowBytes];
  alignas(64) int8_t b[kTileRows * kTileRowBytes];
  alignas(64) int32_t sums[4][kTileRows * kTileRowBytes / 4];
  for (int8_t& number : a) number = 3;
  for (int8_t& number : b) number = -2;
  for (int i = 0; i < 4; ++i) {
    for (int32_t& sum : sums[i]) sum = i;
  }
  AmxTiles::Configure(configuration);
  AmxTiles::Load<0>(sums[0], kTileRowBytes);
  AmxTiles::Load<1>(sums[1], kTileRowBytes);
  AmxTiles::Load<2>(sums[2], kTileRowBytes);
  AmxTiles::Load<3>(sums[3], kTileRowBytes);
  AmxTiles::Load<4>(a, kTileRowBytes);
  AmxTiles::Load<5>(a, kTileRowBytes);
  AmxTiles::Load<6>(b, kTileRowBytes);
  AmxTiles::Load<7>(b, kTileRowBytes);
  for (int64_t round = 0; round < rounds; ++round) {
    AmxTiles::AddProducts<0, 4, 6>();
    AmxTiles::AddProducts<1, 4, 7>();
    AmxTiles::AddProducts<2, 5, 6>();
    AmxTiles::AddProducts<3, 5, 7>();
  }
  AmxTiles::Store<0>(sums[0], kTileRowBytes);
  AmxTiles::Store<1>(sums[1], kTileRowBytes);
  AmxTiles::Store<2>(sums[2], kTileRowBytes);
  AmxTiles::Store<3>(sums[3], kTileRowBytes);
  AmxTiles::Release();
  return sums[0][0] + sums[1][0] + sums[2][0] + sums[3][0];
}

}  // namespace thaw::x86
