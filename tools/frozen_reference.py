#!/usr/bin/env python3
"""Decodes frozen tensors, slowly and clearly: the reference of docs/format.md.

usage: frozen_reference.py FILE.gguf [--tensor NAME [--npy OUT]]

Without --tensor it lists the frozen tensors of the file and checks the hashes of their tiles. With it,
it decodes one to float32, prints what its numbers are like, and writes them where --npy says.

Written from the document alone, so that where this and another decoder differ, one of them or the
document is wrong. It checks every rule of the document and favours clarity: only the 64 lanes of a
vector are handled at once, which makes a second of a million weights. Needs numpy, gguf and xxhash.

Numbers of sections in comments are those of docs/format.md.
"""
import argparse
import struct
import sys
from dataclasses import dataclass

import gguf
import numpy as np
import xxhash

VERSION_FIELD = "thaw.frozen.version"
VERSION = 2
MAGIC = b"THAWTILE"
ECQ, BF16 = 1, 2
KIND_NAMES = {ECQ: "ecq", BF16: "bf16"}
HEADER_BYTES, HASHED_HEADER_BYTES, ENTRY_BYTES, STREAM_HEADER_BYTES = 64, 56, 24, 64
ALIGNMENT = 64
MAX_TILE_BYTES = 1 << 28
MAX_STREAM_WEIGHTS = 1 << 24
GROUP_ROWS, VECTOR_COLUMNS, LANES, BLOCK = 16, 4, 64, 32
SLOTS, SETS, SMALLEST_STATE = 128, 8, 256
MIN_SYMBOLS, MAX_SYMBOLS = 2, 44
STATE_BYTES = 2 * SETS * LANES
LONGEST_GAP = 65535  # of patches; alone that of a patch of the value 0

# What a rule belongs to: the header and directory, the hash of a tile, the contents of a tile (7).
OPEN, READ, DECODE = "open", "read", "decode"


class FrozenError(ValueError):
    """A rule of the document that a file breaks; `stage` is where a reader finds it."""

    def __init__(self, stage, where, expected, found):
        super().__init__(f"{where}: expected {expected}, found {found}")
        self.stage = stage


@dataclass(frozen=True)
class Place:
    """Where in a file something stands, to name it in errors. `offset` is counted in the blob."""
    tensor: str
    offset: int = 0
    tile: int | None = None
    stream: int | None = None

    def __str__(self):
        parts = [f"tensor {self.tensor}"]
        parts += [] if self.tile is None else [f"tile {self.tile}"]
        parts += [] if self.stream is None else [f"stream {self.stream}"]
        return ", ".join(parts + [f"offset {self.offset}"])

    def at(self, offset):
        """The place `offset` bytes behind this one."""
        return Place(self.tensor, self.offset + offset, self.tile, self.stream)


def require(holds, stage, place, what, expected, found):
    if not holds:
        raise FrozenError(stage, f"{place}: {what}", expected, found)


def round_up(number, multiple):
    return -(-number // multiple) * multiple


@dataclass(frozen=True)
class Tile:
    """An entry of the directory, and the rows that the tile holds by the rules of section 2."""
    offset: int
    bytes: int
    hash: int
    matrix: int
    first_row: int
    rows: int


@dataclass(frozen=True)
class Blob:
    """A frozen tensor whose header and directory keep the rules; tiles have not been looked at."""
    tensor: str
    data: bytes
    kind: int
    cols: int
    rows: int
    matrices: int
    rows_per_stream: int
    streams_per_tile: int
    dimensions: int
    tiles: tuple

    @property
    def shape(self):
        """As GGUF states it: the contiguous dimension first."""
        return (self.cols, self.rows, self.matrices)[:self.dimensions]

    @property
    def weights(self):
        return self.cols * self.rows * self.matrices


@dataclass(frozen=True)
class Stream:
    """A stream whose sections keep the rules of section 3; nothing of it has been decoded."""
    place: Place
    kind: int
    rows: int
    cols: int
    raw_planes: int
    first_symbol: int
    frequencies: np.ndarray  # of the symbols
    raw: np.ndarray  # [vectors, raw_planes] u64
    shifts: np.ndarray  # [number of shifts, 2]: block, n
    scales: np.ndarray  # [rows] f16; empty in bf16
    patched: np.ndarray  # [patches]: which weights, numbered in the order of coding, ascending
    patch_values: np.ndarray  # [patches]: i8 in ecq, u8 in bf16
    coded: np.ndarray  # u8
    states: np.ndarray  # [SETS, LANES]
    offsets: dict  # of the sections above, from the start of the stream

    @property
    def vectors(self):
        return self.rows // GROUP_ROWS * self.cols // VECTOR_COLUMNS


def parse_blob(data, tensor):
    """Checks the header and the directory of a blob, which is all that opening a file reads."""
    data, place = bytes(data), Place(tensor)
    require(len(data) >= HEADER_BYTES, OPEN, place, "bytes of the blob", "64 or more", len(data))
    magic, version, kind = struct.unpack_from("<8sII", data, 0)
    cols, rows, matrices = struct.unpack_from("<QQQ", data, 16)
    rows_per_stream, streams_per_tile, tiles, dimensions = struct.unpack_from("<IIII", data, 40)
    stated_hash, = struct.unpack_from("<Q", data, 56)

    def rule(holds, offset, what, expected, found):
        require(holds, OPEN, place.at(offset), what, expected, found)

    rule(magic == MAGIC, 0, "magic", MAGIC, magic)
    rule(version == VERSION, 8, "version", VERSION, version)
    rule(kind in KIND_NAMES, 12, "kind", "1 or 2", kind)
    rule(cols % 32 == 0 and 32 <= cols <= 1 << 20, 16, "cols", "a multiple of 32, 32 to 2^20", cols)
    rule(rows % 16 == 0 and 16 <= rows <= 1 << 32, 24, "rows", "a multiple of 16, 16 to 2^32", rows)
    rule(1 <= matrices <= 1 << 16, 32, "matrices", "1 to 2^16", matrices)
    rule(rows_per_stream % 16 == 0 and rows_per_stream >= 16, 40, "rows_per_stream",
         "a multiple of 16, 16 or more", rows_per_stream)
    rule(rows_per_stream * cols <= MAX_STREAM_WEIGHTS or rows_per_stream == 16, 40,
         "rows_per_stream * cols", "2^24 or less", rows_per_stream * cols)
    rule(1 <= streams_per_tile <= 64, 44, "streams_per_tile", "1 to 64", streams_per_tile)
    tile_rows = rows_per_stream * streams_per_tile
    tiles_of_matrix = -(-rows // tile_rows)
    rule(tiles == matrices * tiles_of_matrix, 48, "tiles", matrices * tiles_of_matrix, tiles)
    rule(dimensions == 3 or (dimensions == 2 and matrices == 1), 52, "dimensions",
         "3, or 2 with one matrix", f"{dimensions} with {matrices}")
    directory_end = HEADER_BYTES + ENTRY_BYTES * tiles
    rule(directory_end <= len(data), 64, "end of the directory", f"{len(data)} or less", directory_end)
    found = xxhash.xxh3_64_intdigest(data[:HASHED_HEADER_BYTES] + data[HEADER_BYTES:directory_end])
    rule(found == stated_hash, 56, "hash of header and directory", f"{stated_hash:016x}", f"{found:016x}")

    next_offset = round_up(directory_end, ALIGNMENT)
    padding = data[directory_end:next_offset]
    rule(not any(padding), directory_end, "padding of the directory", "zeros", padding.hex())
    entries = []
    for index in range(tiles):
        entry = HEADER_BYTES + ENTRY_BYTES * index
        place = Place(tensor, 0, index)
        offset, size, tile_hash = struct.unpack_from("<QQQ", data, entry)
        rule(offset == next_offset, entry, "offset of the tile", next_offset, offset)
        rule(size % ALIGNMENT == 0 and 64 <= size <= MAX_TILE_BYTES, entry + 8, "bytes of the tile",
             "a multiple of 64, 64 to 2^28", size)
        next_offset = offset + size
        rule(next_offset <= len(data), entry + 8, "end of the tile", f"{len(data)} or less", next_offset)
        matrix, tile = divmod(index, tiles_of_matrix)
        first_row = tile * tile_rows
        entries.append(Tile(offset, size, tile_hash, matrix, first_row, min(tile_rows, rows - first_row)))
    place = Place(tensor)
    rule(next_offset == len(data), next_offset, "end of the blob", next_offset, len(data))
    return Blob(tensor, data, kind, cols, rows, matrices, rows_per_stream, streams_per_tile, dimensions,
                tuple(entries))


def read_tile(blob, index):
    """The bytes of a tile, its hash checked, as whenever it is read from the disk."""
    tile = blob.tiles[index]
    data = blob.data[tile.offset:tile.offset + tile.bytes]
    found = xxhash.xxh3_64_intdigest(data)
    require(found == tile.hash, READ, Place(blob.tensor, tile.offset, index), "hash of the tile",
            f"{tile.hash:016x}", f"{found:016x}")
    return data


def parse_tile(blob, index):
    """The streams of a tile, their sections checked: rows of each, and that they fill the tile."""
    data, tile = read_tile(blob, index), blob.tiles[index]
    streams, start = [], 0
    for number, first_row in enumerate(range(0, tile.rows, blob.rows_per_stream)):
        place = Place(blob.tensor, tile.offset + start, index, number)
        rows = min(blob.rows_per_stream, tile.rows - first_row)
        stream, size = parse_stream(data[start:], blob.kind, rows, blob.cols, place)
        streams.append(stream)
        start += size
    require(start == len(data), DECODE, Place(blob.tensor, tile.offset + start, index),
            "bytes of the tile's streams", len(data), start)
    return streams


def parse_stream(data, kind, rows, cols, place):
    """A stream of `rows` rows at the beginning of `data`, and its bytes with the padding."""

    def rule(holds, offset, what, expected, found):
        require(holds, DECODE, place.at(offset), what, expected, found)

    rule(len(data) >= STREAM_HEADER_BYTES, 0, "bytes left in the tile", "64 or more", len(data))
    stated_rows, coded_bytes, patches, shift_count = struct.unpack_from("<IIII", data, 0)
    raw_planes, symbols, first_symbol, reserved = struct.unpack_from(
        "<BBbB" if kind == ECQ else "<BBBB", data, 16)
    rule(stated_rows == rows, 0, "rows of the stream", rows, stated_rows)
    rule(kind == ECQ or shift_count == 0, 12, "shifts", "0 in bf16", shift_count)
    rule(raw_planes in ((0, 1, 2) if kind == ECQ else (8,)), 16, "raw_planes",
         "0, 1 or 2" if kind == ECQ else 8, raw_planes)
    rule(MIN_SYMBOLS <= symbols <= MAX_SYMBOLS, 17, "symbols", "2 to 44", symbols)
    lowest, highest = (-64 >> raw_planes, 63 >> raw_planes) if kind == ECQ else (0, 255)
    rule(first_symbol >= lowest, 18, "first_symbol", f"{lowest} or more", first_symbol)
    last_symbol = first_symbol + symbols - 1
    rule(last_symbol <= highest, 18, "last symbol", f"{highest} or less", last_symbol)
    rule(reserved == 0, 19, "byte 19", 0, reserved)
    frequencies = np.frombuffer(data, np.uint8, MAX_SYMBOLS, 20).astype(int)
    rule(not frequencies[symbols:].any(), 20 + symbols, "bytes behind the frequencies", "zeros",
         frequencies[symbols:].tolist())
    frequencies = frequencies[:symbols]
    rule(frequencies.max() <= SLOTS - 1, 20, "frequencies", "127 or less each", frequencies.max())
    rule(frequencies.sum() == SLOTS, 20, "sum of the frequencies", SLOTS, frequencies.sum())

    vectors = rows // GROUP_ROWS * cols // VECTOR_COLUMNS
    offsets, end = {}, STREAM_HEADER_BYTES
    for section, size in (("raw", 8 * vectors * raw_planes), ("shifts", 4 * shift_count),
                          ("scales", 2 * rows if kind == ECQ else 0), ("gaps", 2 * patches),
                          ("values", patches), ("coded", coded_bytes), ("states", STATE_BYTES)):
        offsets[section] = end
        end += size
    size = round_up(end, ALIGNMENT)
    rule(size <= len(data), 0, "bytes of the stream", f"the {len(data)} left in the tile or less", size)
    padding = data[end:size]
    rule(not any(padding), end, "padding of the stream", "zeros", padding.hex())

    def section(name, kind_of_number, count):
        return np.frombuffer(data, kind_of_number, count, offsets[name])

    scales = section("scales", "<f2", rows if kind == ECQ else 0)
    for row, scale in enumerate(scales):
        rule(np.isfinite(scale) and not np.signbit(scale), offsets["scales"] + 2 * row,
             f"scale of row {row}", "finite, the sign bit 0", scale)
    words = section("shifts", "<u4", shift_count).astype(np.int64)
    shifts = np.stack([words >> 4, words & 15], axis=1)
    check_shifts(shifts, scales, cols, place.at(offsets["shifts"]))
    gaps = section("gaps", "<u2", patches).astype(np.int64)
    patch_values = section("values", np.int8 if kind == ECQ else np.uint8, patches).astype(np.int64)
    check_patches(gaps, patch_values, LANES * vectors, place.at(offsets["gaps"]))
    planes = section("states", np.uint8, STATE_BYTES).reshape(SETS, 2, LANES).astype(np.int64)
    return Stream(place, kind, rows, cols, raw_planes, first_symbol, frequencies,
                  section("raw", "<u8", vectors * raw_planes).reshape(vectors, raw_planes), shifts,
                  scales, np.cumsum(gaps), patch_values, section("coded", np.uint8, coded_bytes),
                  planes[:, 0] + 256 * planes[:, 1], offsets), size


def check_shifts(shifts, scales, cols, place):
    """The rules of section 5 about shifts, `place` being that of the first."""
    blocks, before = len(scales) * (cols // BLOCK), -1
    for index, (block, n) in enumerate(shifts.tolist()):

        def rule(holds, what, expected, found, at=place.at(4 * index)):
            require(holds, DECODE, at, what, expected, found)

        rule(n >= 1, "shift", "1 to 15", n)
        rule(block < blocks, "block of a shift", f"less than {blocks}", block)
        rule(block > before, "block of a shift", f"more than {before}, that of the shift before", block)
        row = row_of_block(block, cols)
        shifted = float(scales[row]) * 2.0 ** n
        rule(shifted <= 65504, f"scale of row {row} shifted by {n}", "65504 or less", shifted)
        before = block


def check_patches(gaps, values, weights, place):
    """The rules of section 4 about patches, `place` being that of the first one's gap."""
    number = 0
    for index, (gap, value) in enumerate(zip(gaps.tolist(), values.tolist())):

        def rule(holds, what, expected, found, at=place.at(2 * index)):
            require(holds, DECODE, at, what, expected, found)

        number += gap
        rule(gap >= 1 or index == 0, f"gap of patch {index}", "1 or more", gap)
        rule(number < weights, f"weight of patch {index}", f"less than {weights}", number)
        rule(value != 0 or gap == LONGEST_GAP, f"gap of patch {index}, of the value 0", LONGEST_GAP, gap)


def row_of_block(block, cols):
    """The row of its stream that a block of section 5 is a part of."""
    group = block // 16 // (cols // BLOCK)
    return GROUP_ROWS * group + block % 16


def decode_numbers(stream):
    """The entropy coder (4): numbers s [vectors, lanes], before they are patched."""
    frequencies = stream.frequencies
    starts = np.cumsum(frequencies) - frequencies
    owner = np.repeat(np.arange(len(frequencies)), frequencies)
    states = stream.states.copy()
    numbers = np.empty((stream.vectors, LANES), np.int64)
    taken = 0

    def rule(holds, section, at, what, expected, found):
        require(holds, DECODE, stream.place.at(stream.offsets[section] + at), what, expected, found)

    for vector in range(stream.vectors):
        state = states[vector % SETS]
        slot = state % SLOTS
        symbol = owner[slot]
        state = frequencies[symbol] * (state // SLOTS) + slot - starts[symbol]
        hungry = np.flatnonzero(state < SMALLEST_STATE)
        rule(taken + len(hungry) <= len(stream.coded), "coded", taken, f"coded bytes at vector {vector}",
             f"{taken + len(hungry)} or more", len(stream.coded))
        state[hungry] = 256 * state[hungry] + stream.coded[taken:taken + len(hungry)]
        taken += len(hungry)
        states[vector % SETS] = state
        numbers[vector] = stream.first_symbol + symbol

    rule(taken == len(stream.coded), "coded", taken, "coded bytes taken", len(stream.coded), taken)
    for of_set, lane in np.argwhere(states != SMALLEST_STATE)[:1]:
        rule(False, "states", 2 * LANES * of_set + lane, f"last state of set {of_set}, lane {lane}",
             SMALLEST_STATE, states[of_set, lane])
    return numbers


def patches_of(stream):
    """What is added for each weight [vectors, lanes]: the values of patches, 0 where there is none."""
    values = np.zeros((stream.vectors, LANES), np.int64)
    values.reshape(-1)[stream.patched] = stream.patch_values  # each weight has one patch at most
    return values


def decode_ecq(stream):
    """Integers [rows, cols] int8, and the scales of their blocks [rows, cols / 32] f16 (5)."""
    numbers = decode_numbers(stream)
    lanes = np.arange(LANES, dtype=np.uint64)
    bits = (stream.raw[:, :, None] >> lanes & np.uint64(1)).astype(np.int64)  # [vectors, planes, lanes]
    m = numbers << stream.raw_planes
    for plane in range(stream.raw_planes):
        m += bits[:, plane] << plane

    groups, steps = stream.rows // GROUP_ROWS, stream.cols // VECTOR_COLUMNS
    m = m.reshape(groups, steps, LANES)
    z = np.zeros((groups, steps + 3, LANES), np.int64)  # three steps of zeros before the group
    p = np.zeros((groups, steps + 3, LANES), np.int64)
    p[:, 3:] = m & 1
    for t in range(3, steps + 3):
        z[:, t] = z[:, t - 1] ^ z[:, t - 3] ^ p[:, t - 2]
    q = 2 * m + z[:, 3:] + 4 * patches_of(stream).reshape(m.shape)
    check_integers(stream, q.reshape(-1))

    integers = np.empty((stream.rows, stream.cols), np.int8)
    for lane in range(LANES):
        integers[lane // 4::GROUP_ROWS, lane % 4::VECTOR_COLUMNS] = q[:, :, lane]
    scales = np.repeat(stream.scales[:, None], stream.cols // BLOCK, axis=1).astype("<f2")
    for block, n in stream.shifts.tolist():
        column = block // 16 % (stream.cols // BLOCK)
        scales[row_of_block(block, stream.cols), column] *= np.float16(2.0 ** n)
    return integers, scales


def check_integers(stream, q):
    """That the integers, in the order of coding, fit 8 bits: those without a patch do."""
    for index, weight in enumerate(stream.patched.tolist()):
        vector, lane = divmod(weight, LANES)
        require(-128 <= q[weight] <= 127, DECODE, stream.place.at(stream.offsets["values"] + index),
                f"patched q of vector {vector}, lane {lane}", "-128 to 127", q[weight])


def decode_bf16(stream):
    """The bits of the bfloat16 numbers, [rows, cols] u16 (6)."""
    numbers = (decode_numbers(stream) + patches_of(stream)) % 256
    raw = stream.raw.astype("<u8").view(np.uint8).astype(np.int64)  # [vectors, lanes]
    bits = numbers * 128 + raw // 2 + raw % 2 * 32768
    bits = bits.reshape(stream.rows // GROUP_ROWS, stream.cols // VECTOR_COLUMNS, LANES)
    result = np.empty((stream.rows, stream.cols), "<u2")
    for lane in range(LANES):
        q, w = divmod(lane, 16)
        row, column = 4 * q + w % 8 // 2, 2 * (w // 8) + w % 2
        result[row::GROUP_ROWS, column::VECTOR_COLUMNS] = bits[:, :, lane]
    return result


def q8_0(integers, scales):
    """Rows of Q8_0 as they stand in a GGUF: for each 32 columns the scale, then the integers."""
    rows, cols = integers.shape
    blocks = np.empty((rows, cols // BLOCK, 2 + BLOCK), np.uint8)
    blocks[:, :, :2] = scales.astype("<f2")[:, :, None].view(np.uint8)
    blocks[:, :, 2:] = integers.reshape(rows, cols // BLOCK, BLOCK).view(np.uint8)
    return blocks.reshape(rows, -1)


def decode_tensor(blob):
    """What the tensor decodes to, all matrices below each other: rows of Q8_0 as bytes, or u16."""
    rows = []
    for index in range(len(blob.tiles)):
        for stream in parse_tile(blob, index):
            rows.append(q8_0(*decode_ecq(stream)) if blob.kind == ECQ else decode_bf16(stream))
    return np.concatenate(rows)


def to_float32(blob, decoded):
    """The weights, in numpy's order of dimensions: (matrices,) rows, cols."""
    if blob.kind == ECQ:
        blocks = decoded.reshape(-1, 2 + BLOCK)
        scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
        weights = scales * blocks[:, 2:].view(np.int8).astype(np.float32)
    else:
        weights = (decoded.astype(np.uint32) << 16).view(np.float32)
    return weights.reshape(blob.shape[::-1])


def open_file(path):
    """The frozen tensors of a file by name, their headers and directories checked (1)."""
    try:
        reader = gguf.GGUFReader(path)
    except (OSError, ValueError, KeyError, IndexError, OverflowError) as error:
        raise FrozenError(OPEN, path, "a GGUF", error) from error
    field = reader.get_field(VERSION_FIELD)
    if field is None:
        return {}
    require(field.types == [gguf.GGUFValueType.UINT32], OPEN, VERSION_FIELD, "type", "UINT32",
            [value_type.name for value_type in field.types])
    version = int(field.contents())
    require(version == VERSION, OPEN, VERSION_FIELD, "value", VERSION, version)
    return {tensor.name: parse_blob(tensor.data.tobytes(), tensor.name) for tensor in reader.tensors
            if tensor.tensor_type == gguf.GGMLQuantizationType.I8 and len(tensor.shape) == 1}


def print_list(blobs):
    print(f"{'kind':5} {'shape':>20} {'tiles':>6} {'bits':>7}  tensor")
    for blob in blobs.values():
        for index in range(len(blob.tiles)):
            read_tile(blob, index)
        shape = " x ".join(str(dimension) for dimension in blob.shape)
        bits = 8 * len(blob.data) / blob.weights
        print(f"{KIND_NAMES[blob.kind]:5} {shape:>20} {len(blob.tiles):>6} {bits:>7.3f}  {blob.tensor}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file")
    parser.add_argument("--tensor", help="decode this one")
    parser.add_argument("--npy", help="write its weights here, as float32")
    options = parser.parse_args()
    try:
        blobs = open_file(options.file)
        if options.tensor is None:
            print_list(blobs)
            return 0
        if options.tensor not in blobs:
            print(f"{options.file}: has no frozen tensor {options.tensor}", file=sys.stderr)
            return 1
        blob = blobs[options.tensor]
        weights = to_float32(blob, decode_tensor(blob))
    except FrozenError as error:
        print(f"{options.file}: {error}", file=sys.stderr)
        return 1
    print(f"{options.tensor}: {KIND_NAMES[blob.kind]}, {weights.shape}, {weights.min()} to {weights.max()}")
    if options.npy:
        np.save(options.npy, weights)
    return 0


if __name__ == "__main__":
    sys.exit(main())
