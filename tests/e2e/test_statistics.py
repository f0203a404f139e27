"""--stats-json tells the truth, and --stats tells people."""
import json

from program import finish, status_bytes, read_until

KEYS = {"model", "kernels", "threads", "budget_bytes", "floor_bytes", "peak_rss_bytes", "prompt_tokens", "prompt_tok_per_s",
        "decode_tokens", "decode_tok_per_s", "decode_ms", "ttft_s", "cache"}
CACHE_KEYS = {"instance_id", "policy", "hits", "misses", "hit_bytes", "miss_bytes", "hit_rate",
              "hit_rate_bytes", "evictions", "bytes_read", "bytes_read_per_token", "stall_s",
              "thaw_s", "coded_product_s", "time_saved_s", "resident_bytes", "pinned_bytes", "planned_bytes",
              "weight_bytes", "best_possible_hit_rate_bytes", "reader", "disk_bytes",
              "page_cache_bytes", "rows_read", "row_hits", "row_bytes_read", "capacity_bytes"}


def test_every_key_is_there_and_agrees_with_the_others(thaw, model, tmp_path):
    path = tmp_path / "stats.json"
    thaw.results("run", model, "-p", "List three fruits.", "-n", "6", "--temp", "0", "--quiet", "-t",
                 "2", "--kernels", "portable", "--seed", "3", "--stats-json", path)
    report = json.loads(path.read_text())
    assert KEYS <= report.keys()
    assert CACHE_KEYS <= report["cache"].keys()
    assert {"p50", "p99", "cv"} <= report["decode_ms"].keys()
    assert report["model"] == str(model)
    assert (report["kernels"], report["threads"], report["seed"]) == ("portable", 2, 3)
    assert report["decode_tokens"] == 6
    assert report["decode_ms"]["p50"] <= report["decode_ms"]["p99"]
    assert report["ttft_s"] > 0 and report["decode_tok_per_s"] > 0
    cache = report["cache"]
    assert cache["resident_bytes"] == cache["weight_bytes"] == cache["planned_bytes"]
    # The prompt's pass is the load; after it nothing is read.
    assert cache["miss_bytes"] == cache["weight_bytes"]
    assert cache["hit_rate"] == cache["hits"] / (cache["hits"] + cache["misses"])
    assert cache["hit_rate_bytes"] == cache["hit_bytes"] / (cache["hit_bytes"] + cache["miss_bytes"])
    assert report["peak_rss_bytes"] < report["budget_bytes"]
    assert cache["best_possible_hit_rate_bytes"] == 1
    assert cache["bytes_read_per_token"] == 0
    assert cache["bytes_read"] >= cache["weight_bytes"]
    # Every step visits every weight once.
    assert cache["hit_bytes"] == 5 * cache["weight_bytes"]
    if cache["reader"] == "io_uring":
        assert cache["disk_bytes"] + cache["page_cache_bytes"] >= cache["weight_bytes"]
    assert report["hottest"][0]["name"].endswith(".weight") and len(report["hottest"]) == 5


def test_peak_memory_is_the_kernels_figure(thaw, model, tmp_path):
    path = tmp_path / "stats.json"
    process = thaw.start("chat", model, "--stats-json", path, "--temp", "0", "-n", "4")
    process.stdin.write(b"Hello\n")
    read_until(process.stdout, b"\n")
    seen = status_bytes(process.pid, "VmHWM")
    outcome = finish(process)
    assert outcome.status == 0, outcome
    reported = json.loads(path.read_text())["peak_rss_bytes"]
    assert seen <= reported <= 1.05 * seen


def test_the_table_goes_to_stderr(thaw, model):
    outcome = thaw.run("run", model, "-p", "Hi", "-n", "2", "--stats", "--quiet")
    assert outcome.status == 0
    lines = [line.split()[0] for line in outcome.err.splitlines()]
    assert lines[0] == "model"
    assert {"kernels", "prompt", "answer", "memory", "weights", "cache"} <= set(lines)
    assert "kernels" not in outcome.out
