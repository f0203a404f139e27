// The decoders of codec/tile_decoder.h for x86-64: `decode_ecq` and `decode_bf16` of TileDecoder.
//
// Those of avx512vbmi2 may be called only where the CPU has AVX-512 F, BW, VL, VBMI and VBMI2,
// those of avx2 where it has AVX2 and POPCNT, which every CPU with AVX2 has.
//
// Rule for both files, as for those of kernels/x86/avx2.h and for its reason: they emit no symbol
// that another object file emits too, so they call no inline function or template of another header
// and keep their own in an anonymous namespace. A test lists the symbols of their objects.
//
// Why they stay within the stream, whatever its bytes: before each 8 vectors, `coded` is held at or
// below the end of its section. From there 8 vectors move it on by at most 512 bytes, and whole
// registers are loaded there, at most 64 bytes from a place that 7 vectors moved: nothing is read
// 512 bytes or more behind the end, where 1024 bytes of states stand. Raw planes have their fixed
// place for every vector of the stream.
#pragma once

#include "codec/frozen_stream.h"

namespace thaw {

namespace avx512vbmi2 {
void DecodeEcq(StreamCursor& cursor, std::byte* packed);
void DecodeBf16(StreamCursor& cursor, std::byte* packed);
}  // namespace avx512vbmi2

namespace avx2 {
void DecodeEcq(StreamCursor& cursor, std::byte* packed);
void DecodeBf16(StreamCursor& cursor, std::byte* packed);
}  // namespace avx2

}  // namespace thaw
