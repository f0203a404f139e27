"""Budgets: every one gives the same text and is kept, and every option of the weight cache does
what it says. What an option does is seen in the figures and the trace, never in timings."""
import json
import os
import re
import resource
import shutil
import signal
import time
from pathlib import Path

import pytest

from program import (Terminal, drop_from_page_cache, finish, io_count, read_until,
                     status_bytes)

FRUITS = "List three fruits."
MIB = 1 << 20


def plan(thaw, model, *options):
    return json.loads(thaw.results("plan", model, "--json", *options))


@pytest.fixture
def answer(thaw, model, tmp_path):
    """Answers one question greedily: the text, and the statistics."""
    def run(*options, tokens=8):
        stats = tmp_path / "stats.json"
        text = thaw.results("run", model, "-p", FRUITS, "--temp", "0", "-n", tokens, "--quiet",
                            "--stats-json", stats, *options)
        return text, json.loads(stats.read_text())
    return run


def traced(answer, tmp_path, *options, **more):
    path = tmp_path / "trace.jsonl"
    text, report = answer(*options, "--trace", path, **more)
    return [json.loads(line) for line in path.read_text().splitlines()], report, text


def matrix_bytes(thaw, model, pattern):
    """Bytes of the weight matrices whose names match a regular expression."""
    tensors = json.loads(thaw.results("inspect", model, "--json"))["tensors"]
    return sum(t["bytes"] for t in tensors if len(t["shape"]) == 2 and re.match(pattern, t["name"]))


@pytest.mark.parametrize("budget", ["floor", "floor+20MiB", "floor+50%", "50%"])
def test_every_budget_gives_the_same_text_and_is_kept(answer, budget):
    text, unlimited = answer()
    same, report = answer("--budget", budget)
    assert same == text
    assert report["peak_rss_bytes"] <= report["budget_bytes"]
    assert report["floor_bytes"] <= report["budget_bytes"] <= unlimited["budget_bytes"] * 1.1
    if budget == "floor":
        assert report["budget_bytes"] == report["floor_bytes"]
        assert report["cache"]["planned_bytes"] < 0.1 * report["cache"]["weight_bytes"]
    cache = report["cache"]
    streamed = cache["weight_bytes"] - cache["planned_bytes"]
    assert cache["bytes_read_per_token"] == streamed
    assert (streamed == 0) == (budget == "50%")


@pytest.mark.parametrize("budget", ["floor", "floor+10MiB", "floor+50%", "floor+120MiB"])
def test_the_budget_is_kept_as_seen_from_outside(thaw, model, budget):
    options = ("--budget", budget, "-c", "720")
    planned = plan(thaw, model, *options)
    process = thaw.start("chat", model, *options, "--temp", "0", "-n", "16")
    process.stdin.write(b"Tell me about the sea" + b", about salt and ships" * 120 + b".\n")
    read_until(process.stdout, b"\n")
    peak = status_bytes(process.pid, "VmHWM")
    outcome = finish(process)
    assert outcome.status == 0, outcome
    assert outcome.err == "", "the context holds the question"
    assert 0 < peak <= planned["budget_bytes"]
    assert (planned["streamed_bytes"] == 0) == (budget == "floor+120MiB")


def test_a_budget_below_the_floor_is_refused_with_the_number(thaw, model, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_text("[1]")
    text = tmp_path / "t.txt"
    text.write_text("some text")
    for command in [("run", model, "-p", "Hi"), ("chat", model), ("plan", model),
                    ("logits", model, "--tokens", tokens, "--out", tmp_path / "l.npy"),
                    ("perplexity", model, "-f", text)]:
        outcome = thaw.run(*command, "--budget", "1MiB")
        assert outcome.status == 1 and outcome.out == ""
        floor = re.search(r"below the floor of .* \((\d+) bytes\)", outcome.err)
        assert floor, outcome.err
        assert "-c" in outcome.err, "what could be lowered"
        assert thaw.run(*command, "--budget", int(floor[1]) + MIB).status == 0


def test_plan_says_what_a_run_does(thaw, model, answer):
    options = ("--budget", "floor+50%", "-c", "512")
    planned = plan(thaw, model, *options)
    shares = ["program", "growth", "kernel", "kv", "scratch", "logits", "weight_capacity"]
    assert sum(planned[share + "_bytes"] for share in shares) <= planned["budget_bytes"]
    assert planned["resident_bytes"] + planned["streamed_bytes"] == planned["weight_bytes"]
    assert planned["context"] == 512
    report = answer(*options)[1]
    # The program is measured anew by every process, so a huge page may fall to either side.
    for mine, its in [(planned["resident_bytes"], report["cache"]["planned_bytes"]),
                      (planned["bytes_read_per_token"], report["cache"]["bytes_read_per_token"]),
                      (planned["budget_bytes"], report["budget_bytes"])]:
        assert abs(mine - its) <= 3 * MIB
    assert planned["kv_bytes"] == report["kv_bytes"]
    assert planned["weight_bytes"] == report["cache"]["weight_bytes"]


def test_halves_are_kept_with_scales_where_that_is_faster(thaw, model):
    if "avx2" not in json.loads(thaw.results("doctor", "--json"))["kernels_available"]:
        pytest.skip("only kernels that take float16 as it is")
    kv_bytes = {(kernels, kv_type): plan(thaw, model, "-c", "64", "--kernels", kernels, "--kv-type", kv_type)["kv_bytes"]
                for kernels in ["avx2", "portable"] for kv_type in ["f16", "bf16"]}
    # 2 bytes more for each key and value of a head, of 64 numbers in the default model.
    assert kv_bytes["avx2", "f16"] * 64 == kv_bytes["portable", "f16"] * 65
    assert kv_bytes["avx2", "bf16"] == kv_bytes["portable", "bf16"] == kv_bytes["portable", "f16"]


def test_chunks_of_a_prompt_are_larger_where_nothing_is_streamed(thaw, model):
    streaming = plan(thaw, model, "--budget", "floor+70MiB")
    resident = plan(thaw, model, "--budget", "900MiB")
    assert streaming["streamed_bytes"] > 0 and streaming["prefill_chunk"] == 160
    assert resident["streamed_bytes"] == 0 and resident["prefill_chunk"] == 256


def test_plan_for_people_names_every_share(thaw, model):
    table = thaw.results("plan", model, "--budget", "floor+20MiB")
    rows = [line.split("  ")[0] or line.split()[0] for line in table.splitlines()]
    assert rows[0] == "budget"
    for word in ["program", "KV cache", "activations", "row cache", "weights", "floor", "resident", "streamed"]:
        assert word in table
    assert "for every token" in table
    assert "for every token" not in thaw.results("plan", model)


def test_a_longer_context_and_a_wider_kv_cache_raise_the_floor(thaw, model):
    floor = plan(thaw, model, "-c", "256")["floor_bytes"]
    assert plan(thaw, model, "-c", "2048")["floor_bytes"] > floor + 20 * MIB
    assert plan(thaw, model, "-c", "256", "--kv-type", "f32")["floor_bytes"] > floor + MIB


def test_planned_hits_as_much_as_can_be_hit(answer):
    few, many = (answer("--budget", "floor+50%", tokens=n)[1]["cache"] for n in (2, 10))
    hit = many["hit_bytes"] - few["hit_bytes"]
    missed = many["miss_bytes"] - few["miss_bytes"]
    assert many["policy"] == "planned"
    assert hit / (hit + missed) == pytest.approx(many["best_possible_hit_rate_bytes"], abs=0.02)
    assert 0.3 < many["best_possible_hit_rate_bytes"] < 0.7


def test_lru_hits_nothing_below_a_full_cycle(answer):
    text, report = answer("--budget", "floor+50%", "--policy", "lru")
    assert text == answer()[0]
    assert report["cache"]["policy"] == "lru"
    assert report["cache"]["hits"] == 0
    assert report["cache"]["evictions"] > 0
    assert report["cache"]["resident_bytes"] > 0.5 * report["cache"]["capacity_bytes"], "still there"


def test_mru_keeps_a_part_of_a_cycle(answer):
    text, report = answer("--budget", "floor+50%", "--policy", "mru")
    assert text == answer()[0]
    assert report["cache"]["hits"] > 0 and report["cache"]["misses"] > 0


def test_lfu_looks_back_over_its_window(answer):
    # A prompt that is computed token by token visits the layers many times and the output once. The
    # budget has room for the layers, but not for the output too.
    text = answer()[0]

    def hits(*options):
        same, report = answer("--budget", "floor+168MiB", "--prefill-chunk", "1", *options)
        assert same == text
        return report["cache"]["hits"]
    by_age = hits("--policy", "lru")
    gain = hits("--policy", "lfu") - by_age
    assert gain > 0.01 * by_age
    # In one pass all are visited equally often. Which slots are free at which moment moves a few.
    assert abs(hits("--policy", "lfu", "--frequency-window", "1") - by_age) < 0.1 * gain


def test_off_reads_everything_for_every_token(answer):
    text, report = answer("--policy", "off")
    assert text == answer()[0]
    cache = report["cache"]
    assert cache["hits"] == 0 and cache["planned_bytes"] == 0
    assert cache["bytes_read_per_token"] == cache["weight_bytes"]


def test_keep_all_reads_once_or_refuses(thaw, model, answer):
    cache = answer("--policy", "keep-all")[1]["cache"]
    assert cache["miss_bytes"] == cache["weight_bytes"] == cache["resident_bytes"]
    outcome = thaw.run("run", model, "-p", "Hi", "--policy", "keep-all", "--budget", "80MiB")
    assert outcome.status == 1 and "floor" in outcome.err


def test_what_is_pinned_stays_whatever_the_policy(thaw, model, answer):
    wanted = matrix_bytes(thaw, model, r"blk\.3\.")
    assert wanted > MIB
    _, report = answer("--policy", "off", "--pin", "blk.3.*")
    assert report["cache"]["planned_bytes"] == wanted
    assert report["cache"]["bytes_read_per_token"] == report["cache"]["weight_bytes"] - wanted
    two = wanted + matrix_bytes(thaw, model, r"blk\.7\.ffn_down\.weight")
    _, report = answer("--policy", "lru", "--budget", "floor", "--pin", "blk.3.*", "--pin",
                       "blk.7.ffn_down.weight")
    assert report["cache"]["planned_bytes"] == two
    assert plan(thaw, model, "--policy", "off", "--pin", "blk.3.*")["resident_bytes"] == wanted


def test_a_pin_that_matches_nothing_is_an_error(thaw, model):
    outcome = thaw.run("run", model, "-p", "Hi", "--pin", "blk.99.*")
    assert outcome.status == 1 and "blk.99.*" in outcome.err


def test_without_reading_ahead_every_miss_waits(answer, tmp_path):
    def misses(*options):
        visits, _, text = traced(answer, tmp_path, "--budget", "floor+20MiB", *options)
        return [v for v in visits if v["result"] == "MISS"], text
    waited, text = misses("--prefetch-ahead", "0")
    assert waited and all(v["stall_us"] > 0 for v in waited)
    ahead, same = misses()
    assert any(v["stall_us"] == 0 for v in ahead), "some were there when they were needed"
    assert same == text


def test_reading_ahead_synchronously_gives_the_same_text(answer):
    text, _ = answer("--budget", "floor+20MiB")
    same, report = answer("--budget", "floor+20MiB", "--sync-prefetch", "--prefetch-ahead", "2")
    assert same == text
    assert report["cache"]["misses"] > 0
    assert report["cache"]["stall_s"] > 0, "what is read ahead is waited for"


def test_preload_reads_what_stays_before_the_first_token(thaw, model, answer):
    text, report = answer()
    assert report["cache"]["miss_bytes"] == report["cache"]["weight_bytes"], "the load is a pass"
    same, report = answer("--preload")
    assert same == text
    assert report["cache"]["misses"] == 0 and report["cache"]["hit_rate"] == 1
    some = answer("--preload", "--budget", "floor+50%")[1]["cache"]
    assert 0 < some["hit_bytes"] and 0 < some["misses"]
    assert some["hit_rate_bytes"] == pytest.approx(some["best_possible_hit_rate_bytes"], abs=0.01)
    told = thaw.run("run", model, "-p", "Hi", "-n", "1", "--preload", "-v").err
    assert re.search(r"\d+ tiles are in memory, 0 tiles of 0 B are streamed; \d", told), told


@pytest.fixture
def own_model(model, tmp_path):
    """A copy of the model that no other test brings into the page cache."""
    copy = Path(shutil.copy(model, tmp_path))
    yield copy
    copy.unlink()


def test_verify_preloads_and_reads_it_once_more(thaw, own_model, answer):
    text, report = answer("--verify")
    assert text == answer()[0]
    assert report["cache"]["misses"] == 0

    def bytes_read(option):
        # What lies in the page cache is read by other calls; io_uring's are not in this count.
        drop_from_page_cache(own_model)
        process = thaw.start("chat", own_model, "-n", "1", option)
        process.stdin.write(b"Hi\n")
        read_until(process.stdout, b"\n")
        count = io_count(process.pid, "rchar")
        assert finish(process).status == 0
        return count

    assert bytes_read("--verify") >= bytes_read("--preload") + report["cache"]["weight_bytes"]


def test_the_kernel_counts_the_same_bytes(thaw, own_model, tmp_path):
    if not json.loads(thaw.results("doctor", own_model, "--json"))["model"]["direct_io"]:
        pytest.skip("SKIP: the model lies on a file system without direct reads")
    stats = tmp_path / "stats.json"

    def read_from_disk(tokens):
        # What lies in the page cache would not come from the disk.
        drop_from_page_cache(own_model)
        process = thaw.start("chat", own_model, "--budget", "floor+20MiB", "--temp", "0", "-n", tokens,
                             "--stats-json", stats)
        process.stdin.write(FRUITS.encode() + b"\n")
        read_until(process.stdout, b"\n")
        # A line may end before the answer does, and chat reads ahead for the answer that may follow:
        # wait until the count has stood still for a second, which a busy disk's pauses do not last.
        count, still = io_count(process.pid, "read_bytes"), 0
        while still < 10:
            time.sleep(0.1)
            before, count = count, io_count(process.pid, "read_bytes")
            still = still + 1 if count == before else 0
        assert finish(process).status == 0
        report = json.loads(stats.read_text())
        assert report["decode_tokens"] == tokens
        return count, report["cache"]["bytes_read_per_token"]
    many, bytes_per_token = read_from_disk(19)
    few, _ = read_from_disk(3)
    # Direct reads begin and end at multiples of the device's blocks.
    assert bytes_per_token <= (many - few) / 16 <= 1.02 * bytes_per_token


def test_a_process_may_be_killed_at_any_moment(thaw, model, tmp_path):
    copy = tmp_path / "model.gguf"
    copy.symlink_to(model)
    answer = ("run", copy, "-p", FRUITS, "--temp", "0", "-n", "8", "--budget", "floor+20MiB")
    text = thaw.results(*answer)
    for seconds in [0.002, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4]:
        process = thaw.start(*answer)
        time.sleep(seconds)
        process.kill()
        assert finish(process).status in (-signal.SIGKILL, 0)
    assert list(tmp_path.iterdir()) == [copy], "nothing is left behind"
    assert thaw.results(*answer) == text


@pytest.mark.parametrize("limit", [20 * MIB, 100 * MIB, 260 * MIB])
def test_memory_that_the_system_refuses_is_an_error(thaw, model, limit):
    def refuse():
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    outcome = thaw.run("run", model, "-p", FRUITS, "-n", "2", preexec_fn=refuse)
    assert outcome.status == 1 and outcome.out == ""
    assert outcome.err.startswith("thaw: ") and outcome.err.count("\n") == 1, outcome.err


@pytest.mark.parametrize("threads", [1, 5])
def test_io_threads_are_threads(thaw, model, threads):
    def running(*options):
        process = thaw.start("chat", model, "-t", "2", "-n", "1", *options)
        process.stdin.write(b"Hi\n")
        read_until(process.stdout, b"\n")
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            count = next(int(line.split()[1]) for line in status if line.startswith("Threads:"))
        assert finish(process).status == 0
        return count
    assert running("--io-threads", threads) == running("--io-threads", 3) + threads - 3


def test_the_trace_has_a_line_for_every_visit(answer, tmp_path):
    visits, report, _ = traced(answer, tmp_path, "--budget", "floor+50%")
    cache = report["cache"]
    hits = [v for v in visits if v["result"] == "HIT"]
    misses = [v for v in visits if v["result"] == "MISS"]
    assert (len(hits), len(misses)) == (cache["hits"], cache["misses"])
    assert len(visits) == len(hits) + len(misses)
    assert sum(v["bytes"] for v in misses) == cache["miss_bytes"]
    assert visits[-1]["hit_rate"] == pytest.approx(cache["hit_rate"], abs=1e-4)
    assert sum(v["stall_us"] for v in visits) == pytest.approx(1e6 * cache["stall_s"], rel=0.01)
    assert {v["capacity_bytes"] for v in visits} == {cache["capacity_bytes"]}
    assert all(v["resident_bytes"] <= v["capacity_bytes"] for v in visits)
    assert all(0 <= v["fullness"] <= 1 for v in visits)
    assert {v["layer"] for v in visits} == set(range(31)), "30 layers and the output"
    assert any(v["weight"] == "blk.0.ffn_down.weight" for v in visits)
    passes = [v["pass"] for v in visits]
    assert passes == sorted(passes) and len(set(passes)) >= report["decode_tokens"]


def test_commands_that_generate_nothing_report_too(thaw, model, tmp_path):
    tokens, text = tmp_path / "tokens.json", tmp_path / "t.txt"
    tokens.write_text(json.dumps(list(range(100, 120))))
    text.write_text("The sea is wide and the sky is high.")
    trace, stats = tmp_path / "t.jsonl", tmp_path / "stats.json"
    for command in [("logits", model, "--tokens", tokens, "--out", tmp_path / "l.npy"),
                    ("perplexity", model, "-f", text)]:
        silent = thaw.run(*command)
        assert (silent.status, silent.err) == (0, "")
        outcome = thaw.run(*command, "--trace", trace, "--stats-json", stats, "--profile")
        assert outcome.status == 0 and outcome.err.startswith("profile ")
        assert outcome.out == silent.out
        report = json.loads(stats.read_text())
        assert report["prompt_tokens"] > 8 and report["prompt_tok_per_s"] > 0
        assert report["decode_tokens"] == 0 and report["load_s"] > 0
        assert report["profile"]["prompt"]["tokens"] == report["prompt_tokens"]
        assert report["profile"]["prompt"]["matmul_s"] > 0
        visits = [json.loads(line) for line in trace.read_text().splitlines()]
        assert len(visits) == report["cache"]["hits"] + report["cache"]["misses"] > 0


def test_a_trace_that_cannot_be_written_fails_at_the_end_or_at_once(thaw, model, tmp_path):
    outcome = thaw.run("run", model, "-p", FRUITS, "-n", "2", "--temp", "0", "--quiet", "--trace",
                       "/dev/full")
    assert outcome.status == 1
    assert outcome.out.strip(), "the answer comes all the same"
    assert outcome.err == "thaw: /dev/full: cannot be written: No space left on device\n"
    outcome = thaw.run("run", model, "-p", FRUITS, "--trace", tmp_path / "none" / "t.jsonl")
    assert (outcome.status, outcome.out) == (1, "")
    assert "t.jsonl" in outcome.err


def test_the_profile_adds_up(thaw, model, answer):
    report = answer("--profile", "--budget", "floor+20MiB")[1]
    profile = report["profile"]
    assert profile["prompt"]["tokens"] == report["prompt_tokens"]
    assert profile["decode_step"]["count"] == report["decode_tokens"] - 1
    for part in profile.values():
        assert part["matmul_s"] > 0 and part["attention_s"] > 0 and part["rest_s"] >= 0
        assert part["matmul_s"] + part["attention_s"] + part["rest_s"] == pytest.approx(part["total_s"])
        assert part["read_s"] > 0 and part["stall_s"] > 0
    cache = report["cache"]
    assert cache["coded_product_s"] == 0, "nothing is frozen"
    for key in ("stall_s", "read_s", "thaw_s"):
        of_answer = (profile["prompt"][key]
                     + profile["decode_step"][key] * profile["decode_step"]["count"])
        assert of_answer == pytest.approx(cache[key], rel=0.1)
    table = thaw.run("run", model, "-p", "Hi", "-n", "3", "--profile", "--quiet").err
    assert [line.split()[0] for line in table.splitlines()] == [
        "profile", "matmul", "attention", "rest", "in", "stalled", "reading", "thawing",
        "coded"]
    assert "profile" not in answer()[1]


def test_statistics_name_the_budget_where_weights_are_streamed(thaw, model):
    options = ("run", model, "-p", "Hi", "-n", "4", "--temp", "0")
    assert "read a token" not in thaw.run(*options).err
    line = thaw.run(*options, "--budget", "floor+20MiB").err
    assert re.search(r"budget [\d.]+ MiB: [\d.]+ MiB of [\d.]+ MiB of weights in memory, "
                     r"[\d.]+ MiB read a token", line), line
    table = thaw.run(*options, "--budget", "floor+20MiB", "--stats").err
    assert "hottest" in table and ".weight" in table and "read from" in table


def test_a_conversation_changes_its_budget(thaw, model, tmp_path):
    floor = plan(thaw, model)["floor_bytes"]
    stats = tmp_path / "stats.json"
    process = thaw.start("chat", model, "--temp", "0", "-n", "12", "--stats-json", stats)

    def ask():
        process.stdin.write(FRUITS.encode() + b"\n")
        return read_until(process.stdout, b"\n").decode()

    def tell(command):
        process.stdin.write(command.encode() + b"\n")
        return read_until(process.stderr, b"\n").decode()

    text = ask()
    assert "of weights resident" in tell("/budget") and status_bytes(process.pid, "VmRSS") > floor
    assert "streamed for every token" in tell(f"/budget {floor + 20 * MIB}")
    assert status_bytes(process.pid, "VmRSS") <= floor + 20 * MIB
    tell("/reset")
    assert ask() == text
    assert status_bytes(process.pid, "VmRSS") <= floor + 20 * MIB
    assert "too small" in tell("/budget 1MiB")
    assert "is no budget" in tell("/budget much")
    assert "streamed for every token" in tell("/budget"), "refusals change nothing"
    assert "streamed" not in tell("/budget 1GiB")
    tell("/reset")
    assert ask() == text
    outcome = finish(process)
    assert outcome.status == 0
    report = json.loads(stats.read_text())
    assert report["budget_bytes"] == 1 << 30
    assert report["cache"]["resident_bytes"] == report["cache"]["weight_bytes"]


def test_the_budget_changes_while_an_answer_is_written(thaw, model):
    options = ("chat", model, "--temp", "0", "-n", "400")
    question = "Tell me about the sea.\n"
    text = thaw.results(*options, stdin=question)
    floor = plan(thaw, model)["floor_bytes"]
    process = thaw.start(*options)

    def tell(command):
        process.stdin.write(command.encode() + b"\n")
        return read_until(process.stderr, b"\n").decode()

    process.stdin.write(question.encode())
    begun = os.read(process.stdout.fileno(), 1)
    assert "streamed for every token" in tell(f"/budget {floor + 20 * MIB}")
    assert status_bytes(process.pid, "VmRSS") <= floor + 20 * MIB
    assert "streamed" not in tell("/budget 1GiB")
    assert "too small" in tell("/budget 1MiB")
    begun += os.read(process.stdout.fileno(), 1 << 16)
    assert len(begun) < len(text.encode()), "the answer is still being written"
    outcome = finish(process)
    assert outcome.status == 0
    assert begun.decode() + outcome.out == text


def test_a_person_changes_the_budget_between_answers(thaw, model):
    with Terminal(thaw, "chat", model, "--temp", "0", "-n", "4") as terminal:
        terminal.wait_for("> ")
        terminal.type("/budget floor+20MiB\n")
        assert "streamed" in terminal.wait_for("token\n> ")
        terminal.type("Hi\n")
        terminal.wait_for("Hi\n")
        assert terminal.wait_for("\n> ").strip("> \n")
        terminal.type("\x04")
        assert terminal.finish()[1] == 0


@pytest.mark.parametrize("arguments", [
    ("--budget", "lots"), ("--budget", "-5MiB"), ("--budget", "floor-1MiB"), ("--policy", "fifo"),
    ("--prefetch-ahead", "-1"), ("--io-threads", "0"), ("--frequency-window", "65"), ("--pin",)])
def test_options_that_make_no_sense_are_wrong_usage(thaw, arguments):
    for command in [("run", "m.gguf"), ("chat", "m.gguf")]:
        outcome = thaw.run(*command, *arguments)
        assert outcome.status == 2, outcome
        assert outcome.err.startswith("thaw: ") and outcome.err.count("\n") == 1
