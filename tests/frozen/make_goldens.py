"""Makes tests/golden/frozen: files with frozen tensors, and what they decode to.

usage: make_goldens.py [FOLDER]    (default: tests/golden/frozen)

FILE.gguf holds frozen tensors; FILE.TENSOR.q8_0 has the bytes of the blocks of Q8_0 that an ecq tensor
decodes to, row after row and matrix after matrix, FILE.TENSOR.bf16 the u16 that a bf16 tensor does.
They come from what the encoder was given, not from a decoder.

refused/FILE.gguf breaks one rule of docs/format.md and what follows from it. refused/refused.json says
for each which one, as a sentence, and where a reader finds it: "open" (header and directory), "read"
(the hash of a tile) or "decode". What is found in decoding stands in tiles whose hashes are right.

The same files in every run. Needs gguf, numpy and xxhash.
"""
import json
import shutil
import sys
from pathlib import Path

import numpy as np

import refused
from encoder import (BF16, ECQ, LANES, SETS, SYMBOLS, Table, bf16_stream, blob_of, ecq_stream,
                     q8_0_bytes, write_gguf)

FOLDER = Path(__file__).resolve().parents[1] / "golden" / "frozen"

# numpy promises the same numbers of RandomState in every version, unlike those of default_rng.
Random = np.random.RandomState


def normal_m(random, rows, cols, deviation):
    """Numbers m as a trellis quantizer makes them: bell-shaped, within their range."""
    return np.clip(np.rint(random.normal(0, deviation, (rows, cols))), -64, 63).astype(np.int64)


def row_scales(random, rows):
    return random.uniform(0.001, 0.1, rows).astype("<f2")


def ecq(m, scales, raw_planes=0, rows_per_stream=None, streams_per_tile=1, dimensions=None, table=None,
        symbols=SYMBOLS, shifts=None, patch_too=None):
    """A blob of matrices m [matrices, rows, cols] and what it decodes to. Where no table is given, each
    stream has its own of so many symbols at most; `shifts` are {(row, block): n} of each matrix."""
    def stream(matrix, first, end):
        part = m[matrix, first:end]
        own_shifts = {(row - first, block): n for (row, block), n in (shifts or {}).items()
                      if first <= row < end}
        return ecq_stream(part, scales[matrix, first:end], table or Table.of(part >> raw_planes, symbols),
                          raw_planes, own_shifts,
                          None if patch_too is None else patch_too[matrix, first:end])

    blob = blob_of(ECQ, m, stream, rows_per_stream or m.shape[1], streams_per_tile, dimensions)
    return blob.pack(), b"".join(q8_0_bytes(*matrix, shifts) for matrix in zip(m, scales))


def bf16(bits, rows_per_stream=None, streams_per_tile=1, table=None, symbols=SYMBOLS):
    """The same of the bits of bfloat16 numbers, [matrices, rows, cols] u16."""
    def stream(matrix, first, end):
        part = bits[matrix, first:end]
        return bf16_stream(part, table or Table.of(part >> 7 & 255, symbols))

    blob = blob_of(BF16, bits, stream, rows_per_stream or bits.shape[1], streams_per_tile)
    return blob.pack(), bits.astype("<u2").tobytes()


def bell(seed, matrices, rows, cols, deviation, **options):
    """An ecq tensor of bell-shaped numbers."""
    random = Random(seed)
    m = np.stack([normal_m(random, rows, cols, deviation) for _ in range(matrices)])
    return ecq(m, np.stack([row_scales(random, rows) for _ in range(matrices)]), **options)


def normal_bf16(seed, matrices, rows, cols):
    """Bits of bfloat16 numbers as in a model, with zeros, infinities, NaNs and subnormals among them."""
    random = Random(seed)
    numbers = random.normal(0, 0.02, (matrices, rows, cols)).astype("<f4")
    bits = (numbers.view("<u4") >> 16).astype("<u2")
    special = [0x0000, 0x8000, 0x7F80, 0xFF80, 0x7FC0, 0xFFFF, 0x0001, 0x807F, 0x7F7F]
    bits.reshape(-1)[random.permutation(bits.size)[:len(special)]] = special
    return bits


def shifted():
    """Shifts at the edges: the first and last block, the largest shift, of scale 0, up to 65504."""
    random = Random(7)
    m = normal_m(random, 32, 96, 6)[None]
    scales = row_scales(random, 32)[None]
    scales[0, [3, 20, 21, 31]] = [0, 2.0 ** -24, 65504 / 2 ** 15, 0.5]
    shifts = {(0, 0): 1, (0, 2): 3, (1, 0): 2, (3, 1): 15, (20, 0): 15, (20, 1): 1, (21, 2): 15,
              (23, 1): 4, (31, 2): 15}
    return ecq(m, scales, shifts=shifts, table=Table.of(m))


def extremes(raw_planes):
    """All numbers of m's range, as often as each other: the integers from -128 to 127, of which the
    table lacks the largest, or the smallest, or both."""
    random = Random(11 + raw_planes)
    m = np.concatenate([np.arange(-64, 64)] * 4).reshape(1, 16, 32)
    m = random.permutation(m.reshape(-1)).reshape(m.shape)
    table = {0: Table(-22, [2] * 4 + [3] * 40), 1: Table(-32, [2] * 4 + [3] * 40),
             2: Table(-8, [5] * 16 + [6] * 8)}[raw_planes]
    return ecq(m, row_scales(random, 16)[None], raw_planes, table=table)


def two_symbols():
    """No coded bytes, and patches of numbers far from both symbols."""
    random = Random(14)
    m = np.zeros((1, 16, 32), np.int64)
    m.reshape(-1)[random.permutation(m.size)[:20]] = random.randint(-64, 64, 20)
    return ecq(m, np.zeros((1, 16)), table=Table(0, [127, 1]))


def only_patches():
    """Every weight is patched: both symbols stand for numbers that do not occur."""
    random = Random(15)
    m = random.randint(-64, 62, (1, 16, 32))
    return ecq(m, row_scales(random, 16)[None], table=Table(62, [64, 64]))


def unused_symbols():
    """Symbols of frequency 0 within the table, and numbers of the table that are patched all the same."""
    random = Random(16)
    m = random.randint(-3, 4, (1, 16, 32))
    return ecq(m, row_scales(random, 16)[None], table=Table(-4, [0, 20, 30, 0, 35, 30, 0, 13, 0]),
               patch_too=random.uniform(size=m.shape) < 0.1)


def states_below_256():
    """Half of the states are as no encoder makes them: after one step they are 1, and take a byte 0."""
    m = normal_m(Random(12), 16, 32, 1.2)
    scales = row_scales(Random(12), 16)
    ends_at_1 = {(of_set, lane): 1 for of_set in range(SETS) for lane in range(1, LANES, 2)}

    def stream(*_):
        part = ecq_stream(m, scales, Table(-3, [10, 18, 23, 26, 23, 18, 10]), last_states=ends_at_1)
        part.coded = bytes(len(ends_at_1))
        return part

    return blob_of(ECQ, m[None], stream, 16).pack(), q8_0_bytes(m, scales)


def most_symbols():
    """44 symbols, one of which owns most slots."""
    random = Random(17)
    m = normal_m(random, 16, 32, 12)[None]
    return ecq(m, row_scales(random, 16)[None], table=Table(-22, [1] * 22 + [85] + [1] * 21))


def patches_far_apart():
    """Patches of the first and the last weight, with the one of the value 0 that this takes between."""
    random = Random(6)
    m = -(random.uniform(size=(1, 16, 4128)) < 0.005).astype(np.int64)
    m[0, 0, 0], m[0, 15, 4127] = -64, 63
    return ecq(m, row_scales(random, 16)[None], table=Table(-1, [1, 127]))


def bf16_wrapped():
    """bfloat16 numbers of random bits: no exponent is likelier than another. The last symbol is 255, from
    which small exponents are patched across 256, as are those between from the first symbol."""
    bits = Random(18).randint(0, 1 << 16, (1, 16, 32)).astype("<u2")
    return bf16(bits, table=Table(212, [2] * 4 + [3] * 40))


def goldens():
    """{file: {tensor: (blob, what it decodes to)}}"""
    files = {
        "raw_planes_0": bell(1, 1, 16, 64, 4, symbols=21),
        "raw_planes_1": bell(2, 1, 16, 64, 9, raw_planes=1, symbols=24),
        "raw_planes_2": bell(3, 1, 16, 64, 20, raw_planes=2, symbols=26),
        "cols_32": bell(4, 1, 16, 32, 3),
        "patches_far_apart": patches_far_apart(),
        "shifts": shifted(),
        "last_tile_shorter": bell(8, 1, 48, 32, 4, rows_per_stream=16, streams_per_tile=2),
        "last_stream_shorter": bell(9, 1, 112, 32, 6, raw_planes=1, symbols=14,
                                    rows_per_stream=32, streams_per_tile=2),
        "stream_longer_than_matrix": bell(10, 1, 48, 32, 4, rows_per_stream=64, streams_per_tile=64),
        "experts": bell(19, 2, 48, 32, 8, raw_planes=1, symbols=16, rows_per_stream=32),
        "one_expert": bell(20, 1, 16, 32, 4, dimensions=3),
        "extremes_0": extremes(0), "extremes_1": extremes(1), "extremes_2": extremes(2),
        "two_symbols": two_symbols(), "only_patches": only_patches(), "unused_symbols": unused_symbols(),
        "most_symbols": most_symbols(), "states_below_256": states_below_256(),
        "bf16": bf16(normal_bf16(21, 1, 16, 64)),
        "bf16_tiles": bf16(normal_bf16(22, 1, 48, 32), 16, 2),
        "bf16_experts": bf16(normal_bf16(23, 2, 16, 32)),
        "bf16_wrapped": bf16_wrapped(),
        "bf16_two_symbols": bf16(np.full((1, 16, 32), 0x3F80, np.uint16), table=Table(127, [127, 1])),
    }
    return {name: {"w": tensor} for name, tensor in files.items()} | {
        "several": {"first": bell(24, 1, 16, 32, 4), "second": bf16(normal_bf16(25, 1, 16, 32)),
                    "third": bell(26, 2, 16, 32, 5)}}


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, tensors in goldens().items():
        blobs = {tensor: blob for tensor, (blob, _) in tensors.items()}
        if name == "several":  # other tensors are what they are, and I8 of two dimensions is not frozen
            blobs |= {"norm": np.arange(32, dtype="<f4"), "table": np.ones((4, 32), np.int8)}
        write_gguf(folder / f"{name}.gguf", blobs)
        for tensor, (blob, decoded) in tensors.items():
            kind = {ECQ: "q8_0", BF16: "bf16"}[blob[12]]
            (folder / f"{name}.{tensor}.{kind}").write_bytes(decoded)
    # Without the field nothing is frozen, whatever it looks like.
    write_gguf(folder / "without_the_field.gguf", {"w": goldens()["cols_32"]["w"][0]}, version=None)

    corpus = folder / "refused"
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    reasons = {}
    for name, stage, why, write in refused.cases():
        write(corpus / f"{name}.gguf")
        reasons[f"{name}.gguf"] = {"stage": stage, "why": why}
    (corpus / "refused.json").write_text(json.dumps(reasons, indent=1) + "\n")


if __name__ == "__main__":
    main()
