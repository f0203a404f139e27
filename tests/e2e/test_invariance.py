"""What comes out does not depend on the budget, nor on how weights come into memory: the logits
files are the same to the byte."""
import json
import os
import time
from pathlib import Path

import pytest

MIB = 1 << 20
TOKENS = [1, 504, 3575, 253, 260, 3575, 282, 4649, 47, 1116, 253, 2365, 42, 17, 905, 77, 1200, 31]

BUDGETS = ["floor", "floor+512KiB", "floor+25%", "floor+50%", "floor+75%", "floor+110%"]
RESIDENCY = (
    [("--budget", budget) for budget in BUDGETS]
    + [("--budget", "floor+50%", "--policy", p) for p in ["planned", "lru", "lfu", "mru", "off"]]
    + [("--policy", "keep-all")]
    + [("--budget", "floor+25%", "--prefetch-ahead", n) for n in ["0", "1", "99"]]
    + [("--budget", "floor+25%", "--sync-prefetch", "--prefetch-ahead", n) for n in ["1", "99"]]
    + [("--budget", "floor+25%", "--io-threads", n) for n in ["1", "2"]]
    + [("--budget", "floor+25%", "-t", n) for n in ["1", "2"]]
    + [("--budget", "floor+50%", "--preload"), ("--budget", "floor+50%", "--verify")]
    + [("--budget", "floor+25%", "--prefill-chunk", n) for n in ["1", "7", "64", "4096"]]
)


@pytest.fixture
def logits(thaw, tmp_path):
    """The bytes of a logits file."""
    def run(model, tokens, *options):
        listed = tmp_path / "tokens.json"
        listed.write_text(json.dumps(tokens))
        out = tmp_path / "logits.npy"
        thaw.results("logits", model, "--tokens", listed, "--out", out, "--quiet", *options)
        data = out.read_bytes()
        out.unlink()
        return data
    return run


def test_the_real_models_logits_are_the_same_to_the_byte(logits, model):
    tokens = TOKENS * 4  # more than one chunk of 64
    expected = logits(model, tokens)
    for options in RESIDENCY:
        assert logits(model, tokens, *options) == expected, options


@pytest.fixture(scope="module")
def large_model(thaw, tmp_path_factory):
    """591 MiB of random weights in the shape of a 1.1B model."""
    path = tmp_path_factory.mktemp("large") / "large.gguf"
    free = os.statvfs(path.parent)
    if free.f_bavail * free.f_frsize < 3 << 30:
        pytest.skip("less than 3 GiB of disk are free")
    thaw.results("bench", "--shape", "tinyllama-1.1b", "--type", "Q4_0", "--out", path,
                 "--prefill", "0", "--decode", "0", "--quiet")
    yield path
    path.unlink()


def test_a_large_models_logits_are_the_same_to_the_byte(logits, large_model):
    tokens = TOKENS[:5]
    expected = logits(large_model, tokens)
    for options in [("--budget", budget) for budget in BUDGETS] + [
            ("--budget", "floor+50%", "--policy", "lru"),
            ("--budget", "floor+50%", "--prefetch-ahead", "0"),
            ("--budget", "floor+50%", "--prefill-chunk", "1")]:
        assert logits(large_model, tokens, *options) == expected, options


class MemoryGroup:
    """A version 1 memory cgroup below this process's own."""

    def __init__(self, limit):
        own = next((line.split(":", 2)[2].strip() for line in open("/proc/self/cgroup")
                    if ":memory:" in line), None)
        if own is None:
            pytest.skip("there is no version 1 memory cgroup")
        self.path = Path("/sys/fs/cgroup/memory" + own) / f"thaw-test-{os.getpid()}"
        try:
            self.path.mkdir()
            (self.path / "memory.limit_in_bytes").write_text(str(limit))
        except OSError as error:
            pytest.skip(f"memory cgroups cannot be made here: {error}")

    def read(self, name):
        return int((self.path / name).read_text())

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(100):  # until the system has let go of the group's last process
            try:
                return self.path.rmdir()
            except OSError:
                time.sleep(0.05)
        raise AssertionError(f"{self.path} cannot be removed")


@pytest.mark.parametrize("limit", [100 * MIB, 350 * MIB, 600 * MIB])
def test_it_lives_in_a_cgroup_of_its_budget(thaw, large_model, tmp_path, limit):
    group = MemoryGroup(limit)
    try:
        stats = tmp_path / "stats.json"
        done = thaw.run("run", large_model, "--raw", "-p", "a b c d e f", "-n", "6", "-c", "512",
                        "--temp", "0", "--budget", limit, "--quiet", "--stats-json", stats,
                        preexec_fn=group.enter)
        assert done.status == 0, done.err
        report = json.loads(stats.read_text())
        assert report["budget_bytes"] == limit
        assert report["peak_rss_bytes"] <= limit
        assert group.read("memory.max_usage_in_bytes") <= limit
        assert group.read("memory.failcnt") == 0, "the limit was hit and memory reclaimed"
    finally:
        group.remove()
