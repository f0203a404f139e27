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
        blob, expected = make_goldens.ecq(
            m.astype(np.int64), scales, raw_planes, rows_per_stream, streams_per_tile, shifts=shifts)
        assert reference.decode_tensor(reference.parse_blob(blob, "w")).tobytes() == expected
        bits = random.randint(0, 1 << 16, m.shape) & random.randint(0, 1 << 16)
        blob, expected = make_goldens.bf16(bits, rows_per_stream, streams_per_tile)
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
