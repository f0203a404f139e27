"""Makes frozen tensors for tests, whole ones and such as break a rule.

Written from docs/format.md alone, and without a line of tools/frozen_reference.py, which is tested with
it. It takes the numbers m of the trellis or the bits of bfloat16 numbers, not weights: all that it
chooses is how patched ones are coded, so that a test states what its file holds. Every section is a
field that may be replaced before `pack`, and `lies` of `pack` replaces what else it would write.
"""
import struct
from dataclasses import dataclass, field

import gguf
import numpy as np
import xxhash

ECQ, BF16 = 1, 2
LANES, SETS = 64, 8
SYMBOLS = 44  # at most
LONGEST_GAP = 65535  # of patches


def zeros_to_64(data):
    return data + bytes(-len(data) % 64)


@dataclass
class Table:
    """Frequencies of consecutive symbols from `first` on, 128 together."""
    first: int
    frequencies: list

    def knows(self, s):
        """Whether each number of an array is a symbol that owns a slot."""
        owned = np.array([self.first + i for i, f in enumerate(self.frequencies) if f])
        return np.isin(s, owned)

    @staticmethod
    def of(numbers, most=SYMBOLS):
        """A table for numbers as they are distributed: their most frequent run of `most` symbols, two at
        least. All own a slot; so even and odd ones do, as which the others can be coded."""
        values, counts = np.unique(numbers, return_counts=True)
        histogram = dict(zip(values.tolist(), counts.tolist()))
        lowest = min(histogram)
        width = min(most, max(histogram) - lowest + 1)
        if width == 1:  # towards 0 both kinds have another symbol
            return Table(lowest - 1, [1, 127]) if lowest > 0 else Table(lowest, [127, 1])
        first = max(range(lowest, max(histogram) - width + 2),
                    key=lambda start: sum(histogram.get(start + i, 0) for i in range(width)))
        counts = [histogram.get(first + i, 0) for i in range(width)]
        frequencies = [max(1, 127 * count // sum(counts)) for count in counts]
        while sum(frequencies) > 128:
            frequencies[frequencies.index(max(frequencies))] -= 1
        frequencies[frequencies.index(max(frequencies))] += 128 - sum(frequencies)
        return Table(first, frequencies)


@dataclass
class Stream:
    """The parts of a stream as they stand in the file."""
    rows: int
    raw_planes: int
    first_symbol: int
    frequencies: list
    raw: bytes = b""
    shifts: list = field(default_factory=list)  # u32
    scales: bytes = b""
    gaps: list = field(default_factory=list)  # u16, of patches
    values: list = field(default_factory=list)  # of patches, signed or not
    coded: bytes = b""
    states: list = field(default_factory=list)  # u16, set after set

    def pack(self, **lies):
        """Its bytes. Lies: rows, coded_bytes, patches, shifts, symbols, reserved, padding."""
        head = struct.pack(
            "<IIIIBBBB", lies.get("rows", self.rows), lies.get("coded_bytes", len(self.coded)),
            lies.get("patches", len(self.gaps)), lies.get("shifts", len(self.shifts)),
            self.raw_planes, lies.get("symbols", len(self.frequencies)), self.first_symbol & 255,
            lies.get("reserved", 0))
        head += bytes(self.frequencies).ljust(44, b"\0")
        body = head + self.raw + struct.pack(f"<{len(self.shifts)}I", *self.shifts) + self.scales
        body += struct.pack(f"<{len(self.gaps)}H", *self.gaps) + bytes(e & 255 for e in self.values)
        planes = np.array(self.states, "<u2").reshape(-1, LANES, 1).view(np.uint8).transpose(0, 2, 1)
        body += self.coded + planes.tobytes()
        packed = zeros_to_64(body)
        return packed[:-1] + lies["padding"] if "padding" in lies else packed


def encode(stream, numbers, last_states=None):
    """Fills coded bytes and states: rANS backwards from 256, the reverse of section 4.

    `numbers` are symbols, [vectors, lanes]; `last_states` has {(set, lane): state} of those that shall
    end elsewhere.
    """
    frequencies = stream.frequencies
    starts = [sum(frequencies[:i]) for i in range(len(frequencies))]
    states = [[(last_states or {}).get((of_set, lane), 256) for lane in range(LANES)]
              for of_set in range(SETS)]
    backwards = bytearray()
    symbols = (numbers - stream.first_symbol).tolist()
    for vector in reversed(range(len(symbols))):
        states_of_set = states[vector % SETS]
        for lane in reversed(range(LANES)):
            i = symbols[vector][lane]
            frequency, state = frequencies[i], states_of_set[lane]
            if state >= 512 * frequency:  # else the next state would not be a u16
                backwards.append(state & 255)
                state >>= 8
            states_of_set[lane] = state // frequency * 128 + state % frequency + starts[i]
    stream.coded = bytes(reversed(backwards))
    stream.states = [state for states_of_set in states for state in states_of_set]


def patch(stream, values):
    """Fills gaps and values of the patches: `values` [vectors, lanes] has 0 where there is none."""
    values, before = values.reshape(-1), 0
    for number in np.flatnonzero(values).tolist():
        while number - before > LONGEST_GAP:
            stream.gaps.append(LONGEST_GAP)
            stream.values.append(0)
            before += LONGEST_GAP
        stream.gaps.append(number - before)
        stream.values.append(int(values[number]))
        before = number


def coded_as(numbers, is_coded, candidates, distance):
    """Numbers as they are coded: those of the mask `is_coded` as they are, others as the nearest other
    one of `candidates`, of several the first. `distance(number, candidates)` is infinite where a patch
    does not lead."""
    def nearest(number):
        distances = np.where(candidates == number, np.inf, distance(number, candidates))
        if not np.isfinite(distances).any():
            raise ValueError(f"no number with a symbol can be patched to {number}")
        return candidates[np.argmin(distances)]

    others = {number: nearest(number) for number in set(numbers[~is_coded].tolist())}
    coded = numbers.copy()
    coded[~is_coded] = [others[number] for number in numbers[~is_coded].tolist()]
    return coded


def in_lanes(values):
    """Values [rows, cols] as vectors in the lanes of ecq."""
    rows, cols = values.shape
    return values.reshape(rows // 16, 16, cols // 4, 4).transpose(0, 2, 1, 3).reshape(-1, LANES)


def ecq_stream(m, scales, table, raw_planes=0, shifts=None, patch_too=None, last_states=None):
    """A stream of the numbers m [rows, cols], a scale a row; shifts as {(row, block of 32): n}.

    Numbers whose symbol the table lacks, and those of the mask `patch_too`, are coded as the nearest
    other number with the same lowest bit, which the trellis walks by, and patched. `last_states` is
    that of `encode`.
    """
    def distance(number, candidates):
        return np.where((candidates - number) % 2 == 0, abs(candidates - number), np.inf)

    vectors, range_of_m = in_lanes(m), np.arange(-64, 64)
    is_coded = table.knows(vectors >> raw_planes)
    if patch_too is not None:
        is_coded &= ~in_lanes(patch_too)
    coded = coded_as(vectors, is_coded, range_of_m[table.knows(range_of_m >> raw_planes)], distance)
    raw = b""
    for vector in coded.tolist():
        for plane in range(raw_planes):
            raw += struct.pack("<Q", sum((x >> plane & 1) << lane for lane, x in enumerate(vector)))
    words = sorted(((row // 16 * (m.shape[1] // 32) + block) * 16 + row % 16) << 4 | n
                   for (row, block), n in (shifts or {}).items())
    stream = Stream(len(m), raw_planes, table.first, table.frequencies, raw, words,
                    np.asarray(scales, "<f2").tobytes())
    encode(stream, coded >> raw_planes, last_states)
    patch(stream, (vectors - coded) // 2)
    return stream


def bf16_stream(bits, table):
    """A stream of the bits of bfloat16 numbers, u16 [rows, cols].

    Exponents that the table lacks are coded as the nearest one, 0 being next to 255, and patched.
    """
    def distance(number, candidates):
        return np.minimum((candidates - number) % 256, (number - candidates) % 256)

    rows, cols = bits.shape
    # Rows are 4 q + r, columns 4 t + 2 h + c, and lanes 16 q + 8 h + 2 r + c.
    vectors = bits.astype(np.int64).reshape(rows // 16, 4, 4, cols // 4, 2, 2)
    vectors = vectors.transpose(0, 3, 1, 4, 2, 5).reshape(-1, LANES)
    exponents = vectors >> 7 & 255
    raw = ((vectors & 127) << 1 | vectors >> 15).astype(np.uint8).tobytes()
    stream = Stream(rows, 8, table.first, table.frequencies, raw)
    every = np.arange(256)
    coded = coded_as(exponents, table.knows(exponents), every[table.knows(every)], distance)
    encode(stream, coded)
    patch(stream, (exponents - coded) % 256)
    return stream


def integers(m):
    """The weights' integers q of the numbers m [rows, cols] of whole groups, by the trellis of section 5."""
    q = np.empty(m.shape, np.int64)
    for row in range(m.shape[0]):
        for first in range(4):
            z1 = z2 = z3 = p1 = p2 = 0  # of one, two and three vectors before
            for column in range(first, m.shape[1], 4):
                z = z1 ^ z3 ^ p2
                q[row, column] = 2 * m[row, column] + z
                z1, z2, z3, p1, p2 = z, z1, z2, int(m[row, column]) & 1, p1
    return q.astype(np.int8)


def q8_0_bytes(m, scales, shifts=None):
    """What a stream of `ecq_stream` decodes to: blocks of Q8_0, block after block."""
    q, result = integers(m), b""
    for row, scale in enumerate(np.asarray(scales, "<f2").tolist()):
        for block in range(m.shape[1] // 32):
            of_block = np.float16(scale * 2 ** (shifts or {}).get((row, block), 0))
            result += of_block.tobytes() + q[row, 32 * block:32 * block + 32].tobytes()
    return result


@dataclass
class Blob:
    """A frozen tensor: its header, and each tile as its bytes."""
    kind: int
    cols: int
    rows: int
    matrices: int
    rows_per_stream: int
    streams_per_tile: int
    dimensions: int
    tiles: list

    def pack(self, **lies):
        """Its bytes, with the hashes that they should have.

        Lies: magic, version, tile_count, directory (a function that changes a list of [offset, bytes,
        hash]), directory_padding, hash (of the header), end (behind the last tile).
        """
        count = len(self.tiles)
        offset, entries = len(zeros_to_64(bytes(64 + 24 * count))), []
        for tile in self.tiles:
            entries.append([offset, len(tile), xxhash.xxh3_64_intdigest(tile)])
            offset += len(tile)
        lies.get("directory", lambda _: None)(entries)
        directory = b"".join(struct.pack("<QQQ", *entry) for entry in entries)
        head = lies.get("magic", b"THAWTILE") + struct.pack(
            "<IIQQQIIII", lies.get("version", 2), self.kind, self.cols, self.rows, self.matrices,
            self.rows_per_stream, self.streams_per_tile, lies.get("tile_count", count), self.dimensions)
        hashed = xxhash.xxh3_64_intdigest(head + directory)
        before = zeros_to_64(head + struct.pack("<Q", lies.get("hash", hashed)) + directory)
        if "directory_padding" in lies:
            before = before[:-1] + lies["directory_padding"]
        return before + b"".join(self.tiles) + lies.get("end", b"")


def blob_of(kind, matrices, stream_of_rows, rows_per_stream, streams_per_tile=1, dimensions=None):
    """A blob of `matrices`, a list of [rows, cols].

    `stream_of_rows(matrix, first row, end)` makes the stream of these rows.
    """
    rows, cols = matrices[0].shape
    tiles, tile_rows = [], rows_per_stream * streams_per_tile
    for matrix in range(len(matrices)):
        for first in range(0, rows, tile_rows):
            starts = range(first, min(first + tile_rows, rows), rows_per_stream)
            tiles.append(b"".join(
                stream_of_rows(matrix, start, min(start + rows_per_stream, rows)).pack()
                for start in starts))
    return Blob(kind, cols, rows, len(matrices), rows_per_stream, streams_per_tile,
                dimensions or (2 if len(matrices) == 1 else 3), tiles)


def write_gguf(path, tensors, version=2, add_version=None):
    """A GGUF of `tensors`, arrays by name; bytes become I8 of one dimension, which frozen tensors are.

    `add_version` writes the field of the version in another way, given the writer.
    """
    writer = gguf.GGUFWriter(path, "llama")
    if add_version is not None:
        add_version(writer)
    elif version is not None:
        writer.add_uint32("thaw.frozen.version", version)
    for name, tensor in tensors.items():
        writer.add_tensor(name, np.frombuffer(tensor, np.int8) if isinstance(tensor, bytes) else tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
