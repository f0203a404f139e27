"""Freezing a model: what is written, what is reported, and that nothing is lost by interruptions."""
import json
import os
import signal
import time

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from program import TIMEOUT_S, finish

D_MODEL, D_FF, N_VOCAB, N_LAYERS = 256, 1024, 48, 2
FROZEN_OF_LAYER = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A llama of two layers with random weights in float32."""
    path = tmp_path_factory.mktemp("freeze") / "in.gguf"
    random = np.random.default_rng(1)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(D_MODEL)
    writer.add_block_count(N_LAYERS)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")

    def matrix(name, rows, cols):
        weights = random.standard_normal((rows, cols)) / np.sqrt(cols)
        writer.add_tensor(name + ".weight", weights.astype(np.float32))

    def ones(name):
        writer.add_tensor(name + ".weight", np.ones(D_MODEL, dtype=np.float32))

    matrix("token_embd", N_VOCAB, D_MODEL)
    ones("output_norm")
    for layer in range(N_LAYERS):
        ones(f"blk.{layer}.attn_norm")
        ones(f"blk.{layer}.ffn_norm")
        for part in FROZEN_OF_LAYER:
            rows = D_FF if part in ("ffn_gate", "ffn_up") else D_MODEL
            matrix(f"blk.{layer}.{part}", rows, D_FF if part == "ffn_down" else D_MODEL)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def frozen_names():
    return {f"blk.{layer}.{part}.weight" for layer in range(N_LAYERS) for part in FROZEN_OF_LAYER}


def sentence(outcome, status=1):
    assert outcome.status == status, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("thaw: ") and outcome.err.count("\n") == 1, outcome.err
    return outcome.err


def test_another_reader_lists_the_output(thaw, source, tmp_path):
    out = tmp_path / "out.gguf"
    report = json.loads(thaw.results("freeze", source, out, "--bits", "4", "--verify", "--json"))
    reader = GGUFReader(out)
    assert reader.get_field("thaw.frozen.version").parts[-1][0] == 2
    assert reader.get_field("general.alignment").parts[-1][0] == 64
    before = {t.name: t for t in GGUFReader(source).tensors}
    assert [t.name for t in reader.tensors] == list(before)
    sizes = {}
    for tensor in reader.tensors:
        if tensor.name not in frozen_names():
            assert tensor.tensor_type == before[tensor.name].tensor_type
            assert np.array_equal(tensor.data, before[tensor.name].data)
            continue
        assert tensor.tensor_type == GGMLQuantizationType.I8
        assert tensor.data.tobytes()[:8] == b"THAWTILE"
        assert tensor.data_offset % 64 == 0
        sizes[tensor.name] = tensor.data.nbytes
    assert {t["name"]: t["bytes"] for t in report["tensors"]} == sizes
    assert report["bytes"] == out.stat().st_size
    assert report["verified"] is True
    assert report["seconds"] > 0
    assert [p.name for p in tmp_path.iterdir()] == ["out.gguf"]


def test_the_report_tells_bits_and_errors_and_what_was_kept(thaw, source, tmp_path):
    report = json.loads(thaw.results("freeze", source, tmp_path / "o.gguf", "--json"))
    assert {t["name"] for t in report["tensors"]} == frozen_names()
    for tensor in report["tensors"]:
        # As Q4_K errs, in fewer than its 4.5 bits.
        assert 3 < tensor["bits_per_weight"] < 4.3
        assert abs(tensor["relative_rmse"] / tensor["type_rmse"] - 1) < 0.05
        assert tensor["kind"] == "ecq" and tensor["source_type"] == "F32"
        assert tensor["bits_per_weight"] == 8 * tensor["bytes"] / tensor["weights"]
    kept = {t["name"]: t["reason"] for t in report["kept"]}
    assert "fewer than 65536" in kept["token_embd.weight"]
    table = thaw.results("freeze", source, tmp_path / "o.gguf")
    assert "14 tensors frozen" in table and "blk.0.ffn_up.weight" in table


def test_threads_and_budgets_change_no_byte(thaw, source, tmp_path):
    outputs = []
    for i, options in enumerate([("-t", 1), ("-t", 3), ("-t", 2, "--budget", "floor")]):
        out = tmp_path / f"{i}.gguf"
        thaw.results("freeze", source, out, "--bits", 3, *options)
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]
    refused = thaw.run("freeze", source, tmp_path / "r.gguf", "--budget", "1MiB")
    assert "budget is 1.0 MiB" in sentence(refused)


def test_named_tensors_are_kept(thaw, source, tmp_path):
    out = tmp_path / "out.gguf"
    report = json.loads(thaw.results("freeze", source, out, "--bits", 4, "--keep", "blk.0.*",
                                     "--keep", "*.ffn_up.*", "--json"))
    wanted = {n for n in frozen_names() if n.startswith("blk.1.") and ".ffn_up." not in n}
    assert {t["name"] for t in report["tensors"]} == wanted
    refused = thaw.run("freeze", source, out, "--keep", "blk.9.*")
    assert "blk.9.*" in sentence(refused)


def test_a_file_fits_the_size_it_is_given(thaw, source, tmp_path):
    out = tmp_path / "out.gguf"
    size = 900 << 10
    thaw.results("freeze", source, out, "--fit", "900KiB")
    assert 0.99 * size < out.stat().st_size <= size
    message = sentence(thaw.run("freeze", source, out, "--fit", "300KiB"))
    assert "cannot be reached" in message
    least = int(message.split("takes ")[1].split()[0])
    thaw.results("freeze", source, out, "--fit", least)
    assert out.stat().st_size <= least


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_run_goes_on_to_the_same_file(thaw, source, tmp_path, kill):
    whole, out = tmp_path / "whole.gguf", tmp_path / "out.gguf"
    thaw.results("freeze", source, whole, "--bits", 3.5, "-t", 1)
    journal = tmp_path / "out.gguf.freezing"
    process = thaw.start("freeze", source, out, "--bits", 3.5, "-t", 1)
    deadline = time.monotonic() + TIMEOUT_S
    while not (journal / "tensor-00005").exists() and process.poll() is None:
        assert time.monotonic() < deadline
    process.send_signal(kill)
    stopped = finish(process)
    if kill == signal.SIGINT:
        assert stopped.status == 130, stopped
        assert "interrupted" in stopped.err
    assert stopped.out == ""
    assert not out.exists()
    finished = len([p for p in journal.iterdir() if p.name.startswith("tensor-")
                    and "partial" not in p.name])
    assert 0 < finished < 14
    outcome = thaw.run("freeze", source, out, "--bits", 3.5)
    assert outcome.status == 0, outcome
    assert f"{finished} of 14 tensors are finished" in outcome.err
    assert out.read_bytes() == whole.read_bytes()
    assert not journal.exists()


def test_lossless_keeps_float32_that_needs_all_its_bits(thaw, source, tmp_path):
    report = json.loads(thaw.results("freeze", source, tmp_path / "o.gguf", "--lossless", "--json"))
    assert report["tensors"] == []
    reasons = {t["reason"] for t in report["kept"] if t["name"] in frozen_names()}
    assert reasons == {"its F32 weights have more bits than BF16 has"}


def test_what_cannot_be_frozen_is_refused(thaw, source, tmp_path):
    frozen = tmp_path / "frozen.gguf"
    thaw.results("freeze", source, frozen, "--bits", 4)
    assert "frozen already" in sentence(thaw.run("freeze", frozen, tmp_path / "o.gguf"))
    assert "is the input" in sentence(thaw.run("freeze", source, source))
    missing = thaw.run("freeze", tmp_path / "none.gguf", tmp_path / "o.gguf")
    assert "no such file" in sentence(missing)
    nowhere = thaw.run("freeze", source, tmp_path / "none" / "o.gguf")
    assert str(tmp_path / "none" / "o.gguf") in sentence(nowhere)
    legacy = tmp_path / "imatrix.dat"
    legacy.write_bytes(b"\x01\x00\x00\x00rest")
    refused = thaw.run("freeze", source, tmp_path / "o.gguf", "--imatrix", legacy)
    assert ".dat" in sentence(refused)
    for wrong in [("--bits", "1"), ("--like", "Q9"), ("--bits", "4", "--lossless")]:
        sentence(thaw.run("freeze", source, tmp_path / "o.gguf", *wrong), status=2)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_results_that_cannot_be_written_are_an_error(thaw, source, tmp_path):
    with open("/dev/full", "wb") as full:
        process = thaw.start("freeze", source, tmp_path / "o.gguf", "--bits", 4, stdout=full)
        outcome = finish(process)
    assert outcome.status == 1
    assert outcome.err.startswith("thaw: ")
