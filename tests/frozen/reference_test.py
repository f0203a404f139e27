"""The slow decoder of frozen tensors against the goldens, the files to refuse, and the encoder.

The encoder and the decoder were written from docs/format.md, neither from the other.
"""
import json
import sys
from pathlib import Path

import gguf
import numpy as np
import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(PROJECT / "tools"), str(Path(__file__).parent)]

import frozen_reference as reference  # noqa: E402
import make_goldens  # noqa: E402
from encoder import Table  # noqa: E402

GOLDENS = PROJECT / "tests" / "golden" / "frozen"
REFUSED = json.loads((GOLDENS / "refused" / "refused.json").read_text())
KINDS = {"q8_0": reference.ECQ, "bf16": reference.BF16}


def decode_all(path):
    """Everything that a file holds, as it is refused or not."""
    return {name: reference.decode_tensor(blob) for name, blob in reference.open_file(path).items()}


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("*.gguf")), ids=lambda path: path.stem)
def test_a_file_decodes_to_its_golden(path):
    blobs = reference.open_file(path)
    expected = {file.name.split(".")[1]: file for file in GOLDENS.glob(f"{path.stem}.*.*")}
    assert blobs.keys() == expected.keys()
    for name, blob in blobs.items():
        assert KINDS[expected[name].suffix[1:]] == blob.kind
        assert reference.decode_tensor(blob).tobytes() == expected[name].read_bytes()


@pytest.mark.parametrize("file", REFUSED)
def test_a_file_is_refused_where_its_defect_shows(file):
    with pytest.raises(reference.FrozenError) as refused:
        decode_all(GOLDENS / "refused" / file)
    assert refused.value.stage == REFUSED[file]["stage"]


def test_each_file_to_refuse_has_its_reason():
    assert {path.name for path in (GOLDENS / "refused").glob("*.gguf")} == REFUSED.keys()


def test_an_error_says_where_it_is():
    place = "tensor w, tile 1, stream 0, offset .*expected 1, found 0"
    with pytest.raises(reference.FrozenError, match=place):
        decode_all(GOLDENS / "refused" / "second_tile_code.gguf")


def test_the_goldens_are_what_their_script_makes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["make_goldens.py", str(tmp_path)])
    make_goldens.main()
    made = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.*")}
    kept = {path.relative_to(GOLDENS): path.read_bytes() for path in GOLDENS.rglob("*.*")}
    assert made.keys() == kept.keys()
    assert [path for path in made if made[path] != kept[path]] == []


@pytest.mark.parametrize("name", ["shifts", "experts"])
def test_float32_is_what_another_program_reads_in_the_blocks(name):
    blob = reference.open_file(GOLDENS / f"{name}.gguf")["w"]
    decoded = reference.decode_tensor(blob)
    expected = gguf.quants.dequantize(decoded, gguf.GGMLQuantizationType.Q8_0)
    weights = reference.to_float32(blob, decoded)
    assert weights.shape == blob.shape[::-1]
    assert np.array_equal(weights.reshape(-1, blob.cols), expected)


def test_the_goldens_have_what_decoders_must_tell_apart():
    """Without these cases a decoder that lacks a rule would pass."""
    cases = set()
    for path in GOLDENS.glob("*.gguf"):
        for blob in reference.open_file(path).values():
            for tile in range(len(blob.tiles)):
                for stream in reference.parse_tile(blob, tile):
                    cases |= set(cases_of(stream))
    assert cases == {
        "no patch", "patch of value 0", "first weight", "last weight", "several in a vector",
        "patched to -128", "patched to 127", "ecq, 0 raw planes, patched", "ecq, 1 raw planes, patched",
        "ecq, 2 raw planes, patched", "bf16, patched", "bf16, wrapped", "2 symbols", "44 symbols",
        "frequency 0", "frequency 127", "several groups, patched", "states below 256", "no coded bytes"}


def cases_of(stream):
    """Which of the cases of the test above a stream is."""
    patched = stream.patched[stream.patch_values != 0]
    values = stream.patch_values[stream.patch_values != 0]
    found = {
        "no patch": not len(stream.patched),
        "patch of value 0": len(values) < len(stream.patched),
        "first weight": 0 in patched,
        "last weight": 64 * stream.vectors - 1 in patched,
        "several in a vector": len(np.unique(patched // 64)) < len(patched),
        "several groups, patched": len(np.unique(patched // 64 // (stream.cols // 4))) > 1,
        "2 symbols": len(stream.frequencies) == 2,
        "44 symbols": len(stream.frequencies) == 44,
        "frequency 0": 0 in stream.frequencies,
        "frequency 127": 127 in stream.frequencies,
        "states below 256": stream.states.min() < 256,
        "no coded bytes": not len(stream.coded),
    }
    if stream.kind == reference.ECQ:
        found[f"ecq, {stream.raw_planes} raw planes, patched"] = len(patched) > 0
        q = reference.decode_ecq(stream)[0].reshape(-1, 16, stream.cols // 4, 4)
        q = q.transpose(0, 2, 1, 3).reshape(-1)[patched]  # as they are coded
        found |= {"patched to -128": -128 in q, "patched to 127": 127 in q}
    else:
        found["bf16, patched"] = len(patched) > 0
        numbers = reference.decode_numbers(stream).reshape(-1)[patched]
        found["bf16, wrapped"] = (numbers + values >= 256).any()
    return (case for case, is_there in found.items() if is_there)


@pytest.mark.parametrize(
    "gaps", [[0, 65535, 65535], [65535, 65536], [131070], [65534, 131071], [131072, 1]])
def test_patches_come_back_over_gaps_of_any_length(gaps):
    m = np.zeros((1, 16, 12320), np.int64)
    in_lanes = np.zeros(m.size, np.int64)
    in_lanes[np.cumsum(gaps)] = [40, -64, 63][:len(gaps)]
    m[0] = in_lanes.reshape(-1, 16, 4).transpose(1, 0, 2).reshape(16, -1)
    blob, expected = make_goldens.ecq(m, np.ones((1, 16)), table=Table(-1, [1, 127]))
    parsed = reference.parse_blob(blob, "w")
    patches = reference.parse_tile(parsed, 0)[0].patched
    assert set(np.cumsum(gaps)) <= set(patches.tolist())
    assert reference.decode_tensor(parsed).tobytes() == expected


def test_many_random_tensors_come_back():
    random = np.random.RandomState(50)
    for _ in range(30):
        rows, cols = 16 * random.randint(1, 6), 32 * random.randint(1, 5)
        matrices, raw_planes = random.randint(1, 3), random.randint(0, 3)
        rows_per_stream, streams_per_tile = 16 * random.randint(1, 4), random.randint(1, 4)
        m = np.clip(np.rint(random.laplace(0, random.uniform(0.1, 30), (matrices, rows, cols))), -64, 63)
        scales = random.uniform(0, 1, (matrices, rows))
        shifts = {(random.randint(rows), random.randint(cols // 32)): random.randint(1, 16)
                  for _ in range(random.randint(4))}
        symbols = random.randint(2, 45)
        blob, expected = make_goldens.ecq(
            m.astype(np.int64), scales, raw_planes, rows_per_stream, streams_per_tile, symbols=symbols,
            shifts=shifts)
        assert reference.decode_tensor(reference.parse_blob(blob, "w")).tobytes() == expected
        bits = random.randint(0, 1 << 16, m.shape) & random.randint(0, 1 << 16)
        blob, expected = make_goldens.bf16(bits, rows_per_stream, streams_per_tile, symbols=symbols)
        assert reference.decode_tensor(reference.parse_blob(blob, "w")).tobytes() == expected


def test_no_changed_byte_raises_anything_but_the_error():
    """With hashes made right again, as for one who means harm: refused, or decoded to something."""
    random = np.random.RandomState(51)
    blob = reference.parse_blob(make_goldens.bell(52, 1, 16, 64, 3)[0], "w")
    tile = reference.read_tile(blob, 0)
    refused = 0
    for _ in range(300):
        changed = bytearray(tile)
        at = random.randint(160 if random.randint(2) else len(tile))  # in the header as often as elsewhere
        changed[at] = random.randint(256)
        whole = make_goldens.blob_of(
            reference.ECQ, np.zeros((1, 16, 64)), lambda *_, data=bytes(changed): Raw(data), 16)
        try:
            reference.decode_tensor(reference.parse_blob(whole.pack(), "w"))
        except reference.FrozenError:
            refused += 1
    assert refused > 200


class Raw:
    """A stream of given bytes."""

    def __init__(self, data):
        self.data = data

    def pack(self):
        return self.data
