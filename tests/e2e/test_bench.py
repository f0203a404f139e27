"""thaw bench: what it says of a run agrees with the plan and with what is seen from outside. How
fast anything was is no matter of a test."""
import json
import signal
import time

import pytest

from program import finish, status_bytes

RUNS = 2


def brief(prefill=16, decode=8):
    return ("--prefill", prefill, "--decode", decode, "--runs", RUNS)


def bench(thaw, model, *options, **lengths):
    return json.loads(thaw.results("bench", model, "--json", *brief(**lengths), *options))


def test_every_run_is_told_with_its_rates_and_the_machines(thaw, model):
    report = bench(thaw, model, "-t", "2", "--kernels", "portable")
    machine = report["machine"]
    assert machine["memory_gb_per_s"] > 0 and machine["disk_gb_per_s"] > 0
    assert machine["kernels"] == "portable" and machine["cpu"]
    assert machine["memory_buffer_bytes"] == report["model"]["weight_bytes"]
    assert report["ttft_cold_s"] > 0 and report["ttft_warm_s"] > 0
    assert [(r["what"], r["tokens"]) for r in report["runs"]] == [("prefill", 16), ("decode", 8)]
    for run in report["runs"]:
        rate = run["tok_per_s"]
        assert 0 < rate["min"] <= rate["median"] <= rate["max"]
        assert run["gb_per_s"] == pytest.approx(run["bytes_per_token"] * rate["median"] / 1e9)
        if machine["int8_tops"] is None:
            assert run["share_of_int8_rate"] is None
        else:
            assert run["share_of_int8_rate"] == pytest.approx(run["tops"] / machine["int8_tops"])
        assert run["threads"] == 2 and run["policy"] == "planned"
        assert run["bytes_read_per_token"] == 0 and run["hit_rate_bytes"] == 1
    prefill, decode = report["runs"]
    assert prefill["share_of_memory_rate"] == pytest.approx(
        prefill["gb_per_s"] / machine["memory_gb_per_s"])
    # Of the median step, beside what was read right before and after it.
    assert decode["share_of_memory_rate"] > 0 and decode["memory_gb_per_s"] > 0
    # The first step sees 2 positions, the last 9.
    position_bytes = report["model"]["kv_bytes"] / report["model"]["context"]
    assert decode["kv_bytes_per_token"] == pytest.approx(5.5 * position_bytes)
    assert decode["bytes_per_token"] == pytest.approx(
        report["model"]["weight_bytes"] + decode["kv_bytes_per_token"])
    assert prefill["kv_bytes_per_token"] is None and prefill["tops"] > 0
    assert 0 < decode["decode_ms"]["p50"] <= decode["decode_ms"]["p99"]


@pytest.mark.parametrize("budget", ["floor", "floor+40MiB"])
def test_the_budget_holds_for_the_measuring_too(thaw, model, budget):
    report = bench(thaw, model, "--budget", budget, "--cold")
    decode = report["runs"][1]
    assert report["peak_rss_bytes"] <= decode["budget_bytes"]
    assert decode["bytes_read_per_token"] == report["model"]["streamed_bytes"] > 0
    assert decode["share_of_disk_rate"] == pytest.approx(
        decode["bytes_read_per_token"] * decode["tok_per_s"]["median"] / 1e9
        / report["machine"]["disk_gb_per_s"])
    assert report["machine"]["memory_gb_per_s"] > 0
    assert decode["memory_gb_per_s"] is None  # nothing is read between steps that read the file
    assert decode["share_of_memory_rate"] == pytest.approx(
        decode["gb_per_s"] / report["machine"]["memory_gb_per_s"])


def test_the_budget_is_kept_as_seen_from_outside(thaw, model):
    process = thaw.start("bench", model, *brief(), "--budget", "floor", "--simulate", "--json")
    peak = 0
    while process.poll() is None:
        peak = max(peak, status_bytes(process.pid, "VmHWM"))
        time.sleep(0.002)
    outcome = finish(process)
    assert outcome.status == 0, outcome
    assert 0 < peak <= json.loads(outcome.out)["runs"][0]["budget_bytes"]


def test_the_context_is_what_the_longest_run_needs(thaw, model):
    assert bench(thaw, model)["model"]["context"] == 16
    assert bench(thaw, model, "-c", "64")["model"]["context"] == 64
    outcome = thaw.run("bench", model, *brief(), "-c", "10")
    assert outcome.status == 1 and "-c" in outcome.err


def test_zero_leaves_a_kind_of_run_out(thaw, model):
    assert [run["what"] for run in bench(thaw, model, prefill=0)["runs"]] == ["decode"]
    report = bench(thaw, model, prefill=0, decode=0)
    assert report["runs"] == [] and report["machine"]["disk_gb_per_s"] > 0


def test_tokens_can_be_decoded_after_a_longer_context(thaw, model):
    report = bench(thaw, model, "--decode-after", 30, "-c", 64)  # whole units of keys and values
    prefill, decode = report["runs"]
    assert (prefill["after"], decode["after"]) == (0, 30)
    # The first step sees 31 positions, the last 38.
    position_bytes = report["model"]["kv_bytes"] / report["model"]["context"]
    assert decode["kv_bytes_per_token"] == pytest.approx(34.5 * position_bytes)
    # A context that is not asked for is as long as both take.
    assert bench(thaw, model, "--decode-after", 30)["model"]["context"] == 38


def test_the_simulation_shows_why_planned_exists(thaw, model):
    simulation = bench(thaw, model, "--simulate", "--budget", "floor+50%")["simulation"]
    best = simulation["best_possible_hit_rate_bytes"]
    policies = {policy["policy"]: policy for policy in simulation["policies"]}
    assert simulation["passes"] == 50 and 0.3 < best < 0.7
    assert policies["planned"]["hit_rate_bytes"] == pytest.approx(best)
    assert policies["lru"]["hit_rate_bytes"] == policies["off"]["hit_rate_bytes"] == 0
    assert 0 < policies["mru"]["hit_rate_bytes"] <= best
    assert not policies["keep-all"]["fits"] and policies["keep-all"]["hit_rate"] is None


def test_a_mixture_keeps_its_budget_and_finds_more_than_it_was_promised(thaw, tmp_path):
    path = tmp_path / "mixture.gguf"
    options = ("--json", "--prefill", 40, "--decode", 12, "--runs", 1)
    whole = json.loads(thaw.results("bench", "--shape", "mixture-64x8-skewed", "--type", "TQ1_0",
                                    "--out", path, *options))
    assert [run["bytes_read_per_token"] for run in whole["runs"]] == [0, 0]
    report = json.loads(thaw.results("bench", path, *options, "--budget", "150MiB", "--simulate"))
    assert report["peak_rss_bytes"] <= 150 << 20 < report["model"]["weight_bytes"]
    prefill, decode = report["runs"]
    assert prefill["bytes_read_per_token"] > 0, "a prompt goes through nearly all experts"
    # The same for a token as with all in memory: only those experts that it goes through.
    assert decode["bytes_per_token"] == whole["runs"][1]["bytes_per_token"]
    assert decode["bytes_per_token"] < report["model"]["weight_bytes"] / 3
    planned = json.loads(thaw.results("plan", path, "--json", "--budget", "150MiB", "-c", "40"))
    assert planned["streamed_bytes"] == 0 < planned["kept_expert_bytes"] < planned["expert_bytes"]
    assert decode["hit_rate_bytes"] > planned["best_possible_hit_rate_bytes"]
    for name in ["simulation", "skewed_simulation"]:
        rates = {p["policy"]: p["hit_rate_bytes"] for p in report[name]["policies"] if p["fits"]}
        assert max(rates, key=rates.get) == "planned"
        assert rates["planned"] < report[name]["best_possible_hit_rate_bytes"] < 1


def test_people_get_a_table(thaw, model):
    outcome = thaw.run("bench", model, *brief(), "--simulate")
    assert outcome.status == 0 and outcome.err == ""
    for word in ["memory rate", "disk rate", "int8 rate", "int8 %", "first token", "prefill ", "decode ", "simulated",
                 "lru"]:
        assert word in outcome.out


def test_statistics_are_those_of_the_runs(thaw, model, tmp_path):
    path = tmp_path / "stats.json"
    bench(thaw, model, "--stats-json", path)
    report = json.loads(path.read_text())
    assert report["prompt_tokens"] == RUNS * 16 and report["decode_tokens"] == RUNS * 8
    assert report["cache"]["miss_bytes"] == report["cache"]["weight_bytes"], "the load is a pass"


def test_a_generated_model_that_is_not_kept_leaves_nothing_behind(thaw, tmp_path):
    process = thaw.start("bench", "--shape", "tinyllama-1.1b", "--type", "Q4_0",
                         env={"TMPDIR": str(tmp_path)})
    while not any(tmp_path.iterdir()) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    outcome = finish(process)
    assert outcome.status == 130, outcome
    assert not any(tmp_path.iterdir())


def test_a_generated_model_is_kept_where_that_is_asked_for(thaw, tmp_path):
    kept = tmp_path / "kept.gguf"
    brief_run = ("--prefill", 0, "--decode", 1, "--runs", 1, "--json")
    report = json.loads(thaw.results("bench", "--shape", "tinyllama-1.1b", "--type", "iq1_s",
                                     "--out", kept, *brief_run))
    assert report["model"]["path"] == str(kept)
    assert report["model"]["shape"] == "tinyllama-1.1b" and report["model"]["type"] == "IQ1_S"
    assert 0 < report["model"]["weight_bytes"] <= kept.stat().st_size
    assert list(tmp_path.iterdir()) == [kept]
    again = json.loads(thaw.results("bench", kept, *brief_run))
    assert again["model"]["weight_bytes"] == report["model"]["weight_bytes"]


@pytest.mark.parametrize("arguments, complaint", [
    (("--shape", "giraffe"), 'there is no shape "giraffe"; known are: tinyllama-1.1b, '),
    (("--shape", "tinyllama-1.1b", "--type", "Q9_9"), "known are: F32, F16, Q4_0, "),
])
def test_what_cannot_be_generated_is_refused_with_what_can(thaw, arguments, complaint):
    outcome = thaw.run("bench", *arguments)
    assert outcome.status == 2 and complaint in outcome.err
    assert outcome.out == "" and outcome.err.count("\n") == 1
