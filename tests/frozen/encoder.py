"""Makes frozen tensors for tests, whole ones and such as break a rule.

Written from docs/format.md alone, and without a line of tools/frozen_reference.py, which is tested with
it. It takes the numbers m of the trellis or the bits of bfloat16 numbers, not weights: it chooses
nothing, so that a test states what its file holds. Every section is a field that may be replaced before
`pack`, and `lies` of `pack` replaces what else it would write.
"""
import struct
from dataclasses import dataclass, field

import gguf
import numpy as np
import xxhash

ECQ, BF16 = 1, 2
LANES, SETS = 64, 8
# Lanes in the order of their states in the file, in which they also take bytes.
EVEN_THEN_ODD = list(range(0, LANES, 2)) + list(range(1, LANES, 2))


def zeros_to_64(data):
    return data + bytes(-len(data) % 64)


@dataclass
class Table:
    """Frequencies of consecutive symbols from `first` on; what remains of 128 is the escape's."""
    first: int
    frequencies: list

    @property
    def escape(self):
        return 128 - sum(self.frequencies)

    def knows(self, s):
        """Whether each number of an array is a symbol that owns a slot."""
        owned = np.array([self.first + i for i, f in enumerate(self.frequencies) if f])
        return np.isin(s, owned)

    @staticmethod
    def of(numbers, most=43):
        """A table for numbers as they are distributed: their most frequent run of `most` symbols."""
        values, counts = np.unique(numbers, return_counts=True)
        histogram = dict(zip(values.tolist(), counts.tolist()))
        width = min(most, max(histogram) - min(histogram) + 1)
        first = max(range(min(histogram), max(histogram) - width + 2),
                    key=lambda start: sum(histogram.get(start + i, 0) for i in range(width)))
        counts = [histogram.get(first + i, 0) for i in range(width)]
        frequencies = [max(1, 126 * count // max(1, sum(counts))) for count in counts]
        while sum(frequencies) > 127:
            frequencies[frequencies.index(max(frequencies))] -= 1
        return Table(first, frequencies)


@dataclass
class Stream:
    """The parts of a stream as they stand in the file."""
    rows: int
    raw_planes: int
    first_symbol: int
    frequencies: list  # the escape's last
    raw: bytes = b""
    shifts: list = field(default_factory=list)  # u32
    scales: bytes = b""
    escapes: bytes = b""
    coded: bytes = b""
    states: list = field(default_factory=list)  # u16

    def pack(self, **lies):
        """Its bytes. Lies: rows, coded_bytes, escape_bytes, shifts, symbols, reserved, padding."""
        head = struct.pack(
            "<IIIIBBBB", lies.get("rows", self.rows), lies.get("coded_bytes", len(self.coded)),
            lies.get("escape_bytes", len(self.escapes)), lies.get("shifts", len(self.shifts)),
            self.raw_planes, lies.get("symbols", len(self.frequencies) - 1), self.first_symbol & 255,
            lies.get("reserved", 0))
        head += bytes(self.frequencies).ljust(44, b"\0")
        body = head + self.raw + struct.pack(f"<{len(self.shifts)}I", *self.shifts) + self.scales
        body += self.escapes + self.coded + struct.pack(f"<{len(self.states)}H", *self.states)
        packed = zeros_to_64(body)
        return packed[:-1] + lies["padding"] if "padding" in lies else packed


def encode(stream, numbers, escaped, escape_bytes, last_states=None):
    """Fills coded bytes, states and escapes: rANS backwards from 256, the reverse of section 4.

    `numbers` and `escaped` are [vectors, lanes], `escape_bytes` the bytes of the escapes in that shape.
    `last_states` has {(set, lane): state} of those that shall end elsewhere.
    """
    frequencies = stream.frequencies
    starts = [sum(frequencies[:i]) for i in range(len(frequencies))]
    states = [[(last_states or {}).get((of_set, lane), 256) for lane in range(LANES)]
              for of_set in range(SETS)]
    backwards = bytearray()
    for vector in reversed(range(len(numbers))):
        states_of_set = states[vector % SETS]
        for lane in reversed(EVEN_THEN_ODD):
            i = len(frequencies) - 1 if escaped[vector, lane] \
                else int(numbers[vector, lane]) - stream.first_symbol
            frequency, state = frequencies[i], states_of_set[lane]
            if state >= 512 * frequency:  # else the next state would not be a u16
                backwards.append(state & 255)
                state >>= 8
            states_of_set[lane] = state // frequency * 128 + state % frequency + starts[i]
    stream.coded = bytes(reversed(backwards))
    stream.states = [states_of_set[lane] for states_of_set in states for lane in EVEN_THEN_ODD]
    stream.escapes = bytes(escape_bytes[escaped].tolist())


def in_lanes(values):
    """Values [rows, cols] as vectors in the lanes of ecq."""
    rows, cols = values.shape
    return values.reshape(rows // 16, 16, cols // 4, 4).transpose(0, 2, 1, 3).reshape(-1, LANES)


def ecq_stream(m, scales, table, raw_planes=0, shifts=None, escape_too=None):
    """A stream of the numbers m [rows, cols], a scale a row; shifts as {(row, block of 32): n}.

    Where the mask `escape_too` is set, numbers that the table has are escapes all the same.
    """
    cols, vectors = m.shape[1], in_lanes(m)
    s = vectors >> raw_planes
    escaped = ~table.knows(s)
    if escape_too is not None:
        escaped |= in_lanes(escape_too)
    raw = b""
    for vector, is_escape in zip(vectors.tolist(), escaped.tolist()):
        for plane in range(raw_planes):
            bits = (0 if e else x >> plane & 1 for x, e in zip(vector, is_escape))
            raw += struct.pack("<Q", sum(bit << lane for lane, bit in enumerate(bits)))
    words = sorted(((row // 16 * (cols // 32) + block) * 16 + row % 16) << 4 | n
                   for (row, block), n in (shifts or {}).items())
    stream = Stream(len(m), raw_planes, table.first, table.frequencies + [table.escape], raw, words,
                    np.asarray(scales, "<f2").tobytes())
    encode(stream, s, escaped, escape_bytes_of(vectors))
    return stream


def escape_bytes_of(m):
    """The escapes of numbers m: doubled, with their lowest bit once more."""
    return (2 * m + (m & 1)).astype(np.uint8)


def bf16_stream(bits, table):
    """A stream of the bits of bfloat16 numbers, u16 [rows, cols]."""
    rows, cols = bits.shape
    # Rows are 4 q + r, columns 4 t + 2 h + c, and lanes 16 q + 8 h + 2 r + c.
    vectors = bits.astype(np.int64).reshape(rows // 16, 4, 4, cols // 4, 2, 2)
    vectors = vectors.transpose(0, 3, 1, 4, 2, 5).reshape(-1, LANES)
    exponents = vectors >> 7 & 255
    raw = ((vectors & 127) << 1 | vectors >> 15).astype(np.uint8).tobytes()
    stream = Stream(rows, 8, table.first, table.frequencies + [table.escape], raw)
    encode(stream, exponents, ~table.knows(exponents), exponents.astype(np.uint8))
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
            "<IIQQQIIII", lies.get("version", 1), self.kind, self.cols, self.rows, self.matrices,
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


def write_gguf(path, tensors, version=1, add_version=None):
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
