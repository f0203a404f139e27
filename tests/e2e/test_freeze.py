"""Freezing a model: what is written, what is reported, and that nothing is lost by interruptions."""
import json
import os
import re
import resource
import signal
import time

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

from program import TIMEOUT_S, Terminal, finish

D_MODEL, D_FF, N_VOCAB, N_LAYERS = 256, 1024, 48, 2
WIPE = "\x1b[K"
FROZEN_OF_LAYER = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]


def normal(random, rows, cols):
    return (random.standard_normal((rows, cols)) / np.sqrt(cols)).astype(np.float32)


def as_bf16(weights):
    """Cut to the upper halves of float32."""
    return (np.ascontiguousarray(weights, dtype=np.float32).view(np.uint32) >> 16).astype(np.uint16)


def write_llama(path, matrices=None, is_bf16=False):
    """A llama of two layers with random weights in float32 or BF16; `matrices` has those of its own,
    by name: in BF16 their bits."""
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
        weights = normal(random, rows, cols)
        if is_bf16:
            bits = (matrices or {}).get(name, as_bf16(weights))
            writer.add_tensor(name + ".weight", bits.view(np.uint8),
                              raw_dtype=GGMLQuantizationType.BF16)
        else:
            writer.add_tensor(name + ".weight", (matrices or {}).get(name, weights))

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


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    return write_llama(tmp_path_factory.mktemp("freeze") / "in.gguf")


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
        # As Q4_K errs, in fewer than its 4.5 bits; values with a quarter of that.
        is_values = "attn_v" in tensor["name"]
        assert (5.5 if is_values else 3) < tensor["bits_per_weight"] < (6.3 if is_values else 4.3)
        assert (.015 if is_values else .06) < tensor["type_rmse"] < (.02 if is_values else .08)
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


def file_limit(size):
    """Writes beyond `size` bytes of any one file fail, as on a disk that is full."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


# The first is more than a matrix of attention takes and less than one of the feed-forward block; the
# second is more than any tensor takes and less than the file.
@pytest.mark.parametrize("limit, failing", [(64 << 10, "out.gguf.freezing/tensor-"),
                                            (600 << 10, "out.gguf: ")])
def test_a_run_without_room_says_so_and_goes_on_later(thaw, source, tmp_path, limit, failing):
    whole, out = tmp_path / "whole.gguf", tmp_path / "out.gguf"
    thaw.results("freeze", source, whole, "--bits", 4)
    before = source.read_bytes()
    message = sentence(thaw.run("freeze", source, out, "--bits", 4, preexec_fn=file_limit(limit)))
    assert str(tmp_path / failing) in message and "File too large" in message
    journal = tmp_path / "out.gguf.freezing"
    assert {p.name for p in tmp_path.iterdir()} == {"whole.gguf", journal.name}
    assert not [p for p in journal.iterdir() if "partial" in p.name]
    finished = len([p for p in journal.iterdir() if p.name.startswith("tensor-")])
    assert finished == (4 if limit == 64 << 10 else 14)
    outcome = thaw.run("freeze", source, out, "--bits", 4)
    assert outcome.status == 0, outcome
    assert f"{finished} of 14 tensors are finished" in outcome.err
    assert out.read_bytes() == whole.read_bytes()
    assert source.read_bytes() == before
    assert not journal.exists()


def test_a_journal_that_cannot_begin_names_its_file(thaw, source, tmp_path):
    out = tmp_path / "out.gguf"
    message = sentence(thaw.run("freeze", source, out, preexec_fn=file_limit(16)))
    assert "out.gguf.freezing/parameters: " in message and "File too large" in message
    assert not out.exists()
    thaw.results("freeze", source, out)
    assert [p.name for p in tmp_path.iterdir()] == ["out.gguf"]


def test_a_terminal_shows_each_phase_in_one_line_and_wipes_it(thaw, source, tmp_path):
    with Terminal(thaw, "freeze", source, tmp_path / "o.gguf", "-t", 1, "--verify") as terminal:
        seen, status = terminal.finish()
    assert status == 0, seen
    table = seen.index("tensor    ")
    lines = seen[:table].split("\r")
    assert lines[0] == "" and lines[-1] == WIPE, "the line is wiped before the table"
    drawn = [line.removesuffix(WIPE) for line in lines[1:] if line != WIPE]
    assert all(line.endswith(WIPE) for line in lines[1:])
    bar = re.compile(r"(measuring|freezing|writing|verifying) \[#*\.*\] \d+ %, \S+ \w+ of \S+ \w+"
                     r"(, \S+ \w+/s, \d+:\d\d left)?")
    assert all(bar.fullmatch(line) and len(line) < 80 for line in drawn), drawn
    phases = [line.split()[0] for line in drawn]
    assert list(dict.fromkeys(phases)) == ["measuring", "freezing", "writing", "verifying"]
    # Measuring takes long enough to be drawn more than once on any machine.
    assert re.search(r"measuring .*/s, \d+:\d\d left", seen), drawn
    assert WIPE not in seen[table:]


def test_without_a_terminal_there_is_no_bar(thaw, source, tmp_path):
    outcome = thaw.run("freeze", source, tmp_path / "o.gguf", "--verify")
    assert outcome.status == 0 and outcome.err == ""
    assert "\x1b" not in outcome.out and "\r" not in outcome.out


def test_ctrl_c_at_a_terminal_wipes_the_bar_and_the_run_goes_on_later(thaw, source, tmp_path):
    whole, out = tmp_path / "whole.gguf", tmp_path / "out.gguf"
    thaw.results("freeze", source, whole)
    with Terminal(thaw, "freeze", source, out, "-t", 1) as terminal:
        terminal.wait_for("measuring [")
        terminal.type("\x03")
        seen, status = terminal.finish()
    assert status == 130, seen
    assert seen.endswith(f"\r{WIPE}interrupted: the same command goes on from what is finished\n")
    assert not out.exists()
    outcome = thaw.run("freeze", source, out)
    assert outcome.status == 0 and "going on from an earlier run" in outcome.err, outcome
    assert out.read_bytes() == whole.read_bytes()


def test_lossless_keeps_float32_that_needs_all_its_bits(thaw, source, tmp_path):
    report = json.loads(thaw.results("freeze", source, tmp_path / "o.gguf", "--lossless", "--json"))
    assert report["tensors"] == []
    reasons = {t["reason"] for t in report["kept"] if t["name"] in frozen_names()}
    assert reasons == {"its F32 weights have more bits than BF16 has"}


def test_lossless_keeps_what_would_grow(thaw, tmp_path):
    """Weights that the coder has no symbols for: zeros among others, and exponents of all sizes."""
    random = np.random.default_rng(2)
    half_zero = as_bf16(normal(random, D_MODEL, D_MODEL) * random.integers(0, 2, (D_MODEL, D_MODEL)))
    signs_and_mantissas = random.integers(0, 1 << 16, (D_FF, D_MODEL)) & 0x807f
    exponents = random.integers(0, 120, (D_FF, D_MODEL))  # below 2^-7
    spread = (signs_and_mantissas | exponents << 7).astype(np.uint16)
    path, out = tmp_path / "in.gguf", tmp_path / "out.gguf"
    write_llama(path, {"blk.0.attn_q": half_zero, "blk.1.ffn_up": spread}, is_bf16=True)
    report = json.loads(thaw.results("freeze", path, out, "--lossless", "--verify", "--json"))
    grown = {"blk.0.attn_q.weight", "blk.1.ffn_up.weight"}
    assert {t["name"] for t in report["tensors"]} == frozen_names() - grown
    reasons = {t["name"]: (t["reason"], t["bytes"]) for t in report["kept"] if t["name"] in grown}
    assert reasons == {"blk.0.attn_q.weight": ("frozen it takes no less", half_zero.nbytes),
                       "blk.1.ffn_up.weight": ("frozen it takes no less", spread.nbytes)}
    kept = {t.name: t for t in GGUFReader(out).tensors}
    for name, bits in [("blk.0.attn_q.weight", half_zero), ("blk.1.ffn_up.weight", spread)]:
        assert kept[name].tensor_type == GGMLQuantizationType.BF16
        assert kept[name].data.tobytes() == bits.tobytes()
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([1, 2, 3, 5, 8, 13, 21, 34]))
    for model in (path, out):
        thaw.results("logits", model, "--tokens", tokens, "--out", model.with_suffix(".npy"))
    logits = np.load(path.with_suffix(".npy"))
    assert np.isfinite(logits).all() and logits.std() > 0
    assert np.array_equal(logits, np.load(out.with_suffix(".npy")))


def test_a_type_that_weights_have_exactly_is_followed_to_a_limit(thaw, tmp_path):
    """A matrix of zeros errs in no type, one of few numbers in none that has them."""
    out = tmp_path / "out.gguf"
    zeros = np.zeros((D_FF, D_MODEL), dtype=np.float32)
    path = write_llama(tmp_path / "in.gguf", {"blk.0.ffn_up": zeros, "blk.0.attn_q":
                                              np.full((D_MODEL, D_MODEL), -0.5, dtype=np.float32)})
    outcome = thaw.run("freeze", path, out, "--like", "Q4_0", "--verify", "--json")
    assert outcome.status == 0, outcome
    assert outcome.err == (f"{path}: 2 of 14 tensors get a relative RMSE of 0.018, as Q4_0 has less "
                           "with them than tensors are frozen with\n")
    errors = {t["name"]: t["relative_rmse"] for t in json.loads(outcome.out)["tensors"]}
    assert errors["blk.0.ffn_up.weight"] == 0 and errors["blk.0.attn_q.weight"] < 0.02


@pytest.mark.parametrize("wrong", [("--like", "Q8_0"), ("--like", "F16"), ("--bits", "8"),
                                   ("--bits", "1")])
def test_what_no_frozen_tensor_has_is_refused_with_what_is_possible(thaw, source, tmp_path, wrong):
    message = sentence(thaw.run("freeze", source, tmp_path / "o.gguf", *wrong), status=2)
    assert f"'{wrong[1]}'" in message or f" {wrong[1]} " in message
    assert "--lossless keeps BF16 exactly" in message
    assert ("the finest is Q6_K" if wrong[0] == "--like" else "from 2 to 6.5") in message
    assert list(tmp_path.iterdir()) == []


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
