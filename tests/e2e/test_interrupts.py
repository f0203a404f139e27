"""Ctrl+C at any time ends the work cleanly: statistics, exit status 130."""
import json
import signal
import time

import pytest

import small_gguf
from program import TIMEOUT_S, finish, read_until, status_bytes


def wait_for(condition):
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_while_preloading(thaw, tmp_path):
    # 2 GiB of zeros that take no room on disk: long enough to be met in the middle.
    rows = (2 << 30) // (4 * small_gguf.D_MODEL)
    model = small_gguf.write(tmp_path / "large.gguf",
                             tensors={"token_embd.weight": (small_gguf.D_MODEL, rows)})
    stats = tmp_path / "stats.json"
    process = thaw.start("run", model, "--raw", "-p", "x", "--preload", "--stats-json", stats)
    process.stdin.close()
    process.stdin = None
    wait_for(lambda: status_bytes(process.pid, "VmRSS") > 64 << 20 or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.status == 130, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("interrupted while loading, ")
    report = json.loads(stats.read_text())
    assert 0 < report["cache"]["bytes_read"] < report["cache"]["weight_bytes"]
    assert report["decode_tokens"] == 0


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_while_the_prompt_is_computed(thaw, model, tmp_path, signal_number):
    stats = tmp_path / "stats.json"
    process = thaw.start("run", model, "--raw", "-p", "a long prompt " * 1000, "-v", "--kernels",
                         "portable", "--stats-json", stats)
    read_until(process.stderr, b"of working memory\n")  # the model is loaded
    time.sleep(0.2)
    process.send_signal(signal_number)
    outcome = finish(process)
    assert outcome.status == 130, outcome
    assert "interrupted | prompt 3" in outcome.err
    report = json.loads(stats.read_text())
    assert report["decode_tokens"] == 0
    assert report["finish"] == "cancelled"


def test_while_the_answer_comes(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    process = thaw.start("run", model, "-p", "Count to one thousand.", "--temp", "0",
                         "--repeat-penalty", "1.3", "--stats-json", stats)
    first = process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.status == 130, outcome
    assert (first.decode() + outcome.out).endswith("\n"), "the line is ended"
    assert outcome.err.startswith("interrupted | prompt ")
    report = json.loads(stats.read_text())
    assert report["finish"] == "cancelled"
    assert report["decode_tokens"] >= 1


def test_while_a_prompt_is_awaited(thaw, model):
    process = thaw.start("run", model)
    wait_for(lambda: status_bytes(process.pid, "VmRSS") > 0)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    assert finish(process).status == 130


def test_while_logits_are_computed_leaves_no_file(thaw, model, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_text(json.dumps([100] * 4000))
    process = thaw.start("logits", model, "--tokens", tokens, "--out", tmp_path / "l.npy", "-v",
                         "--kernels", "portable")
    read_until(process.stderr, b"of working memory\n")
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.status == 130
    assert [p.name for p in tmp_path.iterdir()] == ["tokens.json"]


def test_a_reader_that_goes_away_ends_the_answer_without_a_complaint(thaw, model):
    process = thaw.start("run", model, "-p", "Count to one thousand.", "--temp", "0",
                         "--repeat-penalty", "1.3")
    started = time.monotonic()
    process.stdout.read(1)
    process.stdout.close()
    process.stdout = None
    outcome = finish(process)
    assert outcome.status == 0
    assert "thaw: " not in outcome.err
    assert outcome.err.startswith("prompt ")
    assert time.monotonic() - started < TIMEOUT_S / 2
