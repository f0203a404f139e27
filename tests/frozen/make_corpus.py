"""Makes tests/corpus/frozen, the inputs that src/codec/frozen_fuzz.cc starts from.

usage: make_corpus.py [FOLDER]    (default: tests/corpus/frozen)

A byte that chooses (see DecodeByAll in the fuzzer), then a tile or the head of a tensor of
tests/golden/frozen. The same files in every run.
"""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import frozen_reference  # noqa: E402

MOST_BYTES = 16384  # of an input of the fuzzers


def choice_of(blob, rows):
    """The byte that stands for a tile's shape, or None where there is none."""
    is_one_stream = rows <= blob.rows_per_stream
    if blob.cols > 256 or rows > 64 or not (is_one_stream or blob.rows_per_stream == 16):
        return None
    is_bf16 = blob.kind == frozen_reference.BF16
    return 2 * is_bf16 | (blob.cols // 32 - 1) << 2 | (rows // 16 - 1) << 5 | 128 * (not is_one_stream)


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "tests/golden/frozen").glob("*.gguf")):
        for blob in frozen_reference.open_file(path).values():
            tile = blob.tiles[0]
            choice = choice_of(blob, tile.rows)
            data = blob.data[tile.offset:tile.offset + tile.bytes]
            if choice is not None and len(data) < MOST_BYTES:
                (folder / f"{path.stem}_{blob.tensor}.tile").write_bytes(bytes([choice]) + data)
            if len(blob.data) < MOST_BYTES // 2:
                (folder / f"{path.stem}_{blob.tensor}.head").write_bytes(b"\1" + blob.data)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/corpus/frozen")
