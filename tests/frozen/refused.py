"""The files of `refused/`: each breaks one rule of docs/format.md, and what follows from that.

All but those that are refused before a tile is read start from a small tensor that keeps the rules.
`cases` has for each its name, the stage at which a reader finds it, a sentence that says what is wrong,
and a function that writes it.
"""
import struct
from functools import partial

import numpy as np

from encoder import (BF16, ECQ, LONGEST_GAP, Blob, Table, bf16_stream, ecq_stream, write_gguf)

# CODED: columns of streams that have coded bytes. With 32 each state decodes one lane, which the bits
# of the states alone pay for; with 64 it decodes two, and two of the rarest symbols do not fit.
# LONG: columns whose 16 rows take more than the longest gap.
COLS, CODED, LONG = 32, 64, 4128
TABLE = Table(-3, [8, 8, 24, 48, 24, 8, 8])


def numbers(seed=1, rows=16, cols=COLS):
    m = np.rint(np.random.RandomState(seed).normal(0, 1.2, (rows, cols))).astype(np.int64)
    m[0, 1:4] = [30, 12, -9]  # patched, whatever the seed
    return m


def stream(seed=1, raw_planes=0, rows=16, cols=COLS, last_states=None):
    m = np.clip(numbers(seed, rows, cols) << raw_planes, -64, 63)
    return ecq_stream(m, np.linspace(0.5, 1, rows), TABLE, raw_planes, last_states=last_states)


def stream_of_bf16(cols=COLS):
    values = np.random.RandomState(2).normal(0, 1, (16, cols)).astype("<f4").view("<u4")
    return bf16_stream((values >> 16).astype("<u2"), Table(122, [8, 8, 8, 8, 16, 40, 40]))


def blob(tiles=None, **fields):
    """One matrix of 16 rows in one tile of one stream, or as the fields say."""
    standard = {"kind": ECQ, "cols": COLS, "rows": 16, "matrices": 1, "rows_per_stream": 16,
                "streams_per_tile": 1, "dimensions": 2}
    return Blob(**(standard | fields), tiles=[stream().pack()] if tiles is None else tiles)


def unread(count=1, **fields):
    """A blob that is refused before a tile is read: 128 bytes stand for each, to keep the files small."""
    return blob([bytes([1 + index]) * 128 for index in range(count)], **fields)


def changed(data, offset):
    """The bytes with one bit another."""
    return data[:offset] + bytes([data[offset] ^ 1]) + data[offset + 1:]


def file_of(data):
    return lambda path: write_gguf(path, {"w": data})


def broken_blobs():
    """(name, sentence, bytes of the blob) of what is found in the header and around the directory."""
    good = unread().pack()
    yield "magic", "The magic is THAWTILF.", unread().pack(magic=b"THAWTILF")
    yield "tile_empty", "A tile has no bytes.", blob([b""]).pack()
    for version in (0, 1, 3):
        yield (f"version_{version}", f"The version of the blob is {version}.",
               unread().pack(version=version))
    for kind in (0, 3):
        yield f"kind_{kind}", f"The kind is {kind}.", unread(kind=kind).pack()
    yield "cols_0", "There are no columns.", unread(cols=0).pack()
    yield "cols_48", "48 columns are no multiple of 32.", unread(cols=48).pack()
    yield "cols_too_many", "There are more than 2^20 columns.", unread(cols=(1 << 20) + 32).pack()
    yield "rows_0", "There are no rows.", unread(0, rows=0).pack()
    yield "rows_24", "24 rows are no multiple of 16.", unread(rows=24, rows_per_stream=32).pack()
    yield "rows_too_many", "There are more than 2^32 rows.", unread(rows=(1 << 32) + 16).pack()
    yield "matrices_0", "There are no matrices.", unread(0, matrices=0, dimensions=3).pack()
    yield ("matrices_too_many", "There are more than 2^16 matrices.",
           unread(matrices=(1 << 16) + 1, dimensions=3).pack())
    yield "rows_per_stream_0", "A stream has no rows.", unread(rows_per_stream=0).pack()
    yield "rows_per_stream_24", "24 rows of a stream are no multiple of 16.", unread(
        rows_per_stream=24).pack()
    yield "stream_too_large", "A stream may have more than 2^24 weights.", unread(
        rows_per_stream=(1 << 19) + 16).pack()
    yield "streams_per_tile_0", "A tile has no streams.", unread(streams_per_tile=0).pack()
    yield "streams_per_tile_65", "A tile has more than 64 streams.", unread(streams_per_tile=65).pack()
    yield "tiles_too_few", "There is one tile, where the rows need two.", unread(rows=32).pack()
    yield "tiles_too_many", "There are two tiles, where the rows need one.", unread(
        2).pack()
    yield ("tiles_beyond_32_bits", "There are no tiles, where 2^44 are needed, which is 0 in 32 bits.",
           unread(0, rows=1 << 32, matrices=1 << 16, dimensions=3).pack())
    for dimensions in (0, 1, 4):
        yield (f"dimensions_{dimensions}", f"The tensor has {dimensions} dimensions.",
               unread(dimensions=dimensions).pack())
    yield ("dimensions_2_of_experts", "Two matrices are a tensor of 2 dimensions.",
           unread(2, matrices=2).pack())
    yield "header_hash", "The hash over header and directory is another.", changed(good, 56)
    yield ("directory_changed", "The hash of a tile was changed after the directory was hashed.",
           changed(good, 64 + 16))
    yield "header_truncated", "The blob ends within its header.", good[:32]
    yield "directory_truncated", "The blob ends within its directory.", good[:64]
    yield ("directory_beyond_blob", "The directory of 2^27 tiles is larger than the blob.",
           unread(rows=1 << 31).pack(tile_count=1 << 27))
    yield ("directory_padding", "The padding behind the directory is not zeros.",
           unread().pack(directory_padding=b"\1"))


def broken_entries():
    """(name, sentence, bytes of the blob) of entries of the directory that lead elsewhere."""
    def directory(name, sentence, change, count=1, **lies):
        return name, sentence, unread(count, rows=16 * count).pack(directory=change, **lies)

    def setter(entry, number, value):
        def change(entries):
            entries[entry][number] = value(entries)
        return change

    first, second = 128, 256
    yield directory("offset_not_of_64", "The offset of a tile is no multiple of 64.",
                    setter(0, 0, lambda _: first + 16))
    yield directory("offset_in_directory", "The first tile begins within the directory.",
                    setter(0, 0, lambda _: 64))
    yield directory("tiles_overlap", "The second tile begins where the first does.",
                    setter(1, 0, lambda _: first), 2)
    yield directory("tiles_swapped", "The entries of two tiles are exchanged.", list.reverse, 2)
    yield directory("gap_before_tiles", "64 bytes lie between the directory and the first tile.",
                    lambda entries: [entry.__setitem__(0, entry[0] + 64) for entry in entries],
                    end=bytes(64))
    yield directory("gap_between_tiles", "64 bytes lie between two tiles.",
                    setter(1, 0, lambda _: second + 64), 2, end=bytes(64))
    yield directory("offset_beyond_blob", "A tile begins behind the blob.",
                    setter(0, 0, lambda _: 1 << 40))
    yield directory("offset_wraps", "Offset and bytes of a tile add up to 0 in 64 bits.",
                    setter(0, 0, lambda entries: (1 << 64) - entries[0][1]))
    yield directory("bytes_not_of_64", "The bytes of a tile are no multiple of 64.",
                    setter(0, 1, lambda entries: entries[0][1] - 32))
    yield directory("bytes_too_many", "A tile has more than 2^28 bytes.",
                    setter(0, 1, lambda _: (1 << 28) + 64))
    yield directory("bytes_wrap", "The bytes of a tile are -64 in 64 bits.",
                    setter(0, 1, lambda _: (1 << 64) - 64))
    yield directory("tile_beyond_blob", "The last tile ends behind the blob.",
                    setter(0, 1, lambda entries: entries[0][1] + 64))
    yield directory("tile_before_end", "The last tile ends before the blob does.",
                    setter(0, 1, lambda entries: entries[0][1] - 64))
    yield "blob_truncated", "The blob lacks its last 64 bytes.", unread().pack()[:-64]
    yield "blob_continues", "64 zeros follow the last tile.", unread().pack(end=bytes(64))


def with_fields(make=stream, **fields):
    """A tile of the stream of `make` with some fields replaced."""
    part = make()
    for name, value in fields.items():
        setattr(part, name, value)
    return part.pack()


def coded_with(frequencies):
    """A tile that one who does not look at the frequencies decodes: all its numbers have the first symbol."""
    return ecq_stream(np.full((16, COLS), -3), np.ones(16), Table(-3, frequencies)).pack()


def broken_headers():
    """(name, sentence, tile) of what the header of an ecq stream shows."""
    for rows in (0, 32):
        yield f"stream_rows_{rows}", f"A stream of 16 rows says {rows}.", stream().pack(rows=rows)
    for planes in (3, 8):
        yield f"raw_planes_{planes}", f"A stream of ecq has {planes} raw planes.", with_fields(
            raw_planes=planes)
    yield "symbols_0", "There are no symbols.", with_fields(frequencies=[])
    yield "symbols_1", "There is one symbol.", coded_with([128])
    yield "symbols_45", "There are 45 symbols.", stream().pack(symbols=45)
    yield "byte_19", "Byte 19 is 1.", stream().pack(reserved=1)
    yield "frequencies_127", "The frequencies add up to 127.", coded_with([8, 8, 24, 48, 24, 8, 7])
    yield "frequencies_129", "The frequencies add up to 129.", coded_with([8, 8, 24, 48, 24, 8, 9])
    yield "frequencies_384", "The frequencies add up to 384, which is 128 in 8 bits.", coded_with(
        [127, 127, 100, 2, 2, 2, 24])
    yield "frequency_128", "The frequency of a symbol is 128, and those of the others are 0.", coded_with(
        [128, 0, 0, 0, 0, 0, 0])
    for name, what, offset in (("directly_behind_frequencies", "The byte", 20 + len(TABLE.frequencies)),
                               ("far_behind_frequencies", "The last byte", 63)):
        behind = bytearray(stream().pack())
        behind[offset] = 1
        yield name, f"{what} behind the frequencies is not zero.", bytes(behind)
    for planes, lowest in ((0, -64), (1, -32), (2, -16)):
        yield (f"first_symbol_{planes}", f"The first symbol is {lowest - 1}, with {planes} raw planes.",
               with_fields(partial(stream, raw_planes=planes), first_symbol=lowest - 1))
        yield (f"last_symbol_{planes}", f"The last symbol is {-lowest}, with {planes} raw planes.",
               with_fields(partial(stream, raw_planes=planes), first_symbol=-lowest - 6))
    yield ("last_symbol_wraps", "The last symbol is 133, which is -123 in 8 bits.",
           with_fields(first_symbol=127))
    for number, what in (("coded_bytes", "coded bytes"), ("patches", "patches"), ("shifts", "shifts")):
        yield (f"{number}_too_many", f"The {what} are 2^32 - 1, more than the tile has.",
               stream().pack(**{number: (1 << 32) - 1}))
    part = stream()
    yield ("sections_wrap", "Patches and coded bytes take what they do in 32 bits alone.",
           part.pack(coded_bytes=len(part.coded) + (1 << 30), patches=len(part.gaps) + (1 << 30)))
    yield ("patches_too_few", "The head counts one patch less than there are.",
           part.pack(patches=len(part.gaps) - 1))
    yield ("shifts_wrap", "The bytes of the shifts are 0 in 32 bits.", part.pack(shifts=1 << 30))
    yield "stream_padding", "The padding behind the states is not zeros.", part.pack(padding=b"\1")


def broken_tiles():
    """(name, sentence, blob) of streams that do not fill their tiles."""
    part = stream().pack()
    yield "tile_of_a_header", "A tile ends behind the header of its stream.", blob([part[:64]])
    yield "tile_lacks_states", "A tile ends within the states of its stream.", blob([part[:-64]])
    two = {"rows": 32, "streams_per_tile": 2}
    yield "stream_lacks", "A tile of two streams has one.", blob([part], **two)
    yield ("stream_cut", "The second stream of a tile is cut off behind its header.",
           blob([part + stream(2).pack()[:64]], **two))
    yield "stream_too_many", "A tile of one stream has two.", blob([part + stream(2).pack()])
    yield "tile_continues", "64 zeros follow the last stream of a tile.", blob([part + bytes(64)])
    second = part + stream(2).pack(rows=32)
    yield "second_stream_rows", "The second stream says 32 rows and has 16.", blob([second], **two)
    whole = stream(1, rows=32).pack()
    yield ("streams_merged", "One stream holds the rows of two.", blob([whole], **two))


def broken_rows():
    """(name, sentence, tile) of scales and shifts."""
    for name, what, bits in (("negative", "negative", 0xB800), ("minus_0", "-0", 0x8000),
                             ("infinite", "infinite", 0x7C00), ("nan", "not a number", 0x7E00)):
        scales = bytearray(stream().scales)
        scales[-2:] = struct.pack("<H", bits)
        yield f"scale_{name}", f"The scale of the last row is {what}.", with_fields(scales=bytes(scales))
    for name, sentence, words in (
            ("shift_0", "A block is shifted by 0.", [5 << 4]),
            ("shifts_descend", "Shifts stand in descending order.", [5 << 4 | 1, 3 << 4 | 1]),
            ("shift_twice", "A shift stands twice.", [5 << 4 | 1, 5 << 4 | 1]),
            ("shifts_of_one_block", "A block has two shifts, in ascending order.",
             [5 << 4 | 1, 5 << 4 | 2]),
            ("shift_beyond_stream", "A shift is that of block 16 of 16.", [16 << 4 | 1]),
            ("shift_far_beyond_stream", "A shift is that of block 2^28 - 1.", [(1 << 32) - 15]),
            ("shift_overflows", "A scale of 2.5, shifted by 15, is no finite f16.", [15 << 4 | 15])):
        scales = np.full(16, 2.5, "<f2").tobytes() if name == "shift_overflows" else stream().scales
        yield name, sentence, with_fields(shifts=words, scales=scales)


def broken_codes():
    """(name, sentence, tile of CODED columns) of what only decoding shows. Where a decoder that reads on
    into the next section would find the very byte that lacks, it must still see that it left its own."""
    coded_stream = partial(stream, cols=CODED)
    changed_stream = partial(with_fields, coded_stream)

    def ends_at(state, of_set, lane):
        return coded_stream(last_states={(of_set, lane): state}).pack()

    yield "state_ends_at_257", "The first state ends at 257.", ends_at(257, 0, 0)
    yield "state_ends_at_512", "A state ends at 512, whose lower byte is that of 256.", ends_at(512, 3, 33)
    yield "state_ends_at_65535", "The last state ends at 65535.", ends_at(65535, 7, 63)
    flipped = coded_stream()
    flipped.states = flipped.states[:300] + [flipped.states[300] ^ 128] + flipped.states[301:]
    yield "state_changed", "A bit of a state has been changed.", flipped.pack()
    part = coded_stream()
    yield "coded_byte_left", "A coded byte is left.", changed_stream(coded=part.coded + b"\0")
    yield "coded_byte_missing", "The last coded byte is missing.", changed_stream(coded=part.coded[:-1])
    yield "coded_bytes_missing", "All coded bytes are missing.", changed_stream(coded=b"")
    changed_byte = bytes([part.coded[0] ^ 255]) + part.coded[1:]
    yield "coded_byte_changed", "The first coded byte has been changed.", changed_stream(coded=changed_byte)
    alike = next(p for p in map(coded_stream, range(1, 5000)) if p.coded[-1] == p.states[0] & 255)
    alike.coded = alike.coded[:-1]
    yield ("coded_byte_missing_alike", "The last coded byte is missing, and the byte behind is the same.",
           alike.pack())


def with_one_patch(gap, value, m=0, cols=COLS):
    """A tile whose numbers m are alike and have symbols, with a patch of one weight."""
    part = ecq_stream(np.full((16, cols), m), np.ones(16), Table(m - 1, [1, 127]))
    part.gaps, part.values = [gap], [value]
    return part.pack()


def broken_patches():
    """(name, sentence, tile) of patches, with what they make of integers."""
    part = stream()
    yield ("gap_0", "The gap of the second patch is 0.",
           with_fields(gaps=part.gaps[:1] + [0] + part.gaps[2:]))
    yield ("value_0", f"The value of the last patch is 0, and its gap {part.gaps[-1]}.",
           with_fields(values=part.values[:-1] + [0]))
    weights = 16 * COLS
    yield ("patch_behind_last", f"A patch is that of weight {weights} of {weights}.",
           with_one_patch(weights, 1))
    yield ("patch_behind_last_by_sum", f"The last of several patches is that of weight {weights}.",
           with_fields(gaps=part.gaps + [weights - sum(part.gaps)], values=part.values + [1]))
    yield ("patch_far_behind_last", "A patch has the largest gap, which leads behind the last weight.",
           with_one_patch(LONGEST_GAP, 1))
    yield ("value_0_behind_last", "A patch of the value 0 is behind the last weight.",
           with_one_patch(LONGEST_GAP, 0))
    # m = 62 is q = 124 everywhere. m = -63 is q = -125 first in vector 2.
    for name, gap, value, m, q in (("128", weights - 1, 1, 62, 128), ("minus_129", 128, -1, -63, -129),
                                   ("256", 0, 64, 0, 256), ("minus_512", 64, -128, 0, -512)):
        yield f"patched_q_{name}", f"A patch makes an integer {q}.", with_one_patch(gap, value, m)


def broken_bf16():
    """(name, sentence, columns, tile) of streams of bfloat16 numbers."""
    def case(name, sentence, cols=COLS, **fields):
        return f"bf16_{name}", sentence, cols, with_fields(partial(stream_of_bf16, cols), **fields)

    part, weights = stream_of_bf16(), 16 * COLS
    yield case("raw_planes", "A stream of bf16 has no raw planes.", raw_planes=0, raw=b"")
    yield case("shifts", "A stream of bf16 has a shift.", shifts=[1])
    yield case("last_symbol", "The last symbol is 256.", first_symbol=250)
    yield "bf16_rows", "A stream of 16 rows says 32.", COLS, part.pack(rows=32)
    yield case("state", "A bit of a state has been changed.",
               states=[part.states[0] ^ 128] + part.states[1:])
    yield case("gap_0", "The gap of the last patch is 0.", gaps=part.gaps[:-1] + [0])
    yield case("value_0", "The value of the last patch is 0, and its gap not 65535.",
               values=part.values[:-1] + [0])
    yield case("patch_behind_last", f"A patch is that of weight {weights} of {weights}.",
               gaps=part.gaps + [weights - sum(part.gaps)], values=part.values + [1])
    coded = stream_of_bf16(CODED).coded
    yield case("coded_byte_left", "A coded byte is left.", CODED, coded=coded + b"\0")
    yield case("coded_byte_missing", "The last coded byte is missing.", CODED, coded=coded[:-1])


def cases():
    good = blob().pack()
    for version in (1, 3):
        yield (f"field_version_{version}", "open", f"The field thaw.frozen.version is {version}.",
               partial(write_gguf, tensors={"w": good}, version=version))
    yield ("field_is_text", "open", "The field thaw.frozen.version is a string.",
           lambda path: write_gguf(path, {"w": good}, add_version=lambda writer: writer.add_string(
               "thaw.frozen.version", "2")))

    def cut_file(path):
        write_gguf(path, {"w": good})
        path.write_bytes(path.read_bytes()[:-512])

    yield "file_truncated", "open", "The file ends within the tensor.", cut_file
    yield ("not_a_blob", "open", "An I8 tensor of one dimension is 256 zeros.", file_of(bytes(256)))
    for group in (broken_blobs, broken_entries):
        for name, why, data in group():
            yield name, "open", why, file_of(data)
    yield "tile_hash", "read", "A bit of the tile has been changed.", file_of(changed(good, len(good) - 200))
    late = blob([stream(1).pack(), stream(2).pack()], rows=32).pack()
    yield ("second_tile_hash", "read", "A bit of the second tile has been changed.",
           file_of(changed(late, len(late) - 200)))
    for name, why, of in broken_tiles():
        yield name, "decode", why, file_of(of.pack())
    for group, cols in ((broken_headers, COLS), (broken_rows, COLS), (broken_patches, COLS),
                        (broken_codes, CODED)):
        for name, why, tile in group():
            yield name, "decode", why, file_of(blob([tile], cols=cols).pack())
    for name, why, cols, tile in broken_bf16():
        yield name, "decode", why, file_of(blob([tile], cols=cols, kind=BF16).pack())
    yield ("kind_of_stream", "decode", "A stream of bf16 stands in a blob of ecq.",
           file_of(blob([stream_of_bf16().pack()]).pack()))
    yield ("value_0_gap_65534", "decode", "A patch of the value 0 has the gap 65534.",
           file_of(blob([with_one_patch(LONGEST_GAP - 1, 0, cols=LONG)], cols=LONG).pack()))
    yield ("second_tile_code", "decode", "A coded byte is left in the second tile.",
           file_of(blob([stream().pack(), with_fields(partial(stream, 2), coded=b"\0")], rows=32).pack()))
