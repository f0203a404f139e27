// Whether what decodes frozen tensors gives on this CPU what it should: the check of
// kernels/self_check.h for decoders of tiles and for products of coded rows.
//
// A decoder that is wrong would not be noticed while a model runs: a tile that is broken shows, one
// that is read wrongly may not. So the chosen decoder is compared with the portable one at every
// start with frozen tensors, on a small tile of each kind that the model has: every byte of its
// groups, and every bit of its products with one token and with several. The tile is made anew each
// time, the same one.
//
// Pure functions; any thread may call. Costs: 1 to 2 ms a kind on one core of an EPYC with AVX-512,
// of which most are the encoder and the portable decoder, and some 200 KB meanwhile.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "codec/tile_decoder.h"
#include "kernels/kernel_table.h"

namespace thaw {

// What differs: "decoding of ecq: byte 77 of group 3 is 12 instead of 13", "product of coded bf16
// with 1 token: row 5 of token 0 is 1.25 instead of 1.5". nullopt where `decoder`, and the products
// of `table` with it, agree with the portable decoder. The table is one that SelectCheckedKernels
// gave: its products of thawed rows are what others are compared with.
std::optional<std::string> FindDisagreement(const KernelTable& table, const TileDecoder& decoder,
                                            std::span<const FrozenKind> kinds);

// The first of DecodersFor(table.name, HostCpu()) that agrees; those that do not are passed over
// with a warning that says what differs. Without kinds nothing is checked. kInvalidArgument for the
// name of no back end, kUnsupported where none agrees.
Result<const TileDecoder*> SelectCheckedDecoder(std::string_view backend, const KernelTable& table,
                                                std::span<const FrozenKind> kinds);

// The same among `decoders`, best first.
Result<const TileDecoder*> SelectCheckedDecoder(std::span<const TileDecoder* const> decoders,
                                                std::string_view backend, const KernelTable& table,
                                                std::span<const FrozenKind> kinds);

}  // namespace thaw
