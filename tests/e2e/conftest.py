"""What every end-to-end test starts from: the program, a real model, small files, and scratch room.

THAW_BINARY is the program (default build/release/thaw), THAW_MODEL the real model (default: the one
that `make demo` gets); a test that needs the model skips where it is absent.
"""
import os
from pathlib import Path

import pytest

from program import Program

PROJECT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def thaw():
    binary = Path(os.environ.get("THAW_BINARY", PROJECT / "build" / "release" / "thaw")).resolve()
    assert binary.is_file(), f"{binary} is not there: build it, or set THAW_BINARY"
    return Program(binary)


@pytest.fixture(scope="session")
def model():
    path = Path(os.environ.get("THAW_MODEL", PROJECT / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"))
    if not path.is_file():
        pytest.skip(f"the real model is not there: {path}")
    return path.resolve()


@pytest.fixture(scope="session")
def golden():
    return PROJECT / "tests" / "golden"
