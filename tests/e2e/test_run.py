"""thaw run: where the prompt comes from, what the answer is, when it ends."""
import json
import subprocess
import time

import pytest

from program import TIMEOUT_S, finish

JAPAN = "What is the capital of Japan?"  # all kernels agree: no word of the answer is a near tie
TOKYO = "The capital of Japan is Tokyo.\n"
FRUITS = "List three fruits."


def greedy(thaw, model, *arguments, **options):
    return thaw.results("run", model, "--temp", "0", "--quiet", *arguments, **options)


def test_a_question_is_answered_in_one_line(thaw, model):
    outcome = thaw.run("run", model, "-p", JAPAN, "--temp", "0", "-n", "16")
    assert outcome.status == 0
    assert outcome.out == TOKYO
    assert outcome.err.count("\n") == 1, "one line of statistics"
    assert outcome.err.startswith("prompt 37 tokens ")


def test_the_answer_is_the_same_with_all_kernels(thaw, model):
    for kernels in json.loads(thaw.results("doctor", "--json"))["kernels_available"]:
        answer = greedy(thaw, model, "-p", JAPAN, "-n", "16", "--kernels", kernels)
        assert answer == TOKYO, kernels


def test_the_prompt_comes_from_everywhere(thaw, model, tmp_path):
    as_file = tmp_path / "prompt.txt"
    as_file.write_text(FRUITS + "\n")
    as_messages = tmp_path / "messages.json"
    as_messages.write_text(json.dumps([{"role": "user", "content": FRUITS}]))
    answer = greedy(thaw, model, "-n", "8", "-p", FRUITS)
    assert answer.strip()
    assert greedy(thaw, model, "-n", "8", "-f", as_file) == answer
    assert greedy(thaw, model, "-n", "8", "--messages", as_messages) == answer
    assert greedy(thaw, model, "-n", "8", stdin=FRUITS + "\n") == answer


def test_a_system_message_stands_in_front(thaw, model, tmp_path):
    messages = tmp_path / "messages.json"
    messages.write_text(json.dumps([{"role": "system", "content": "You are a pirate."},
                                    {"role": "user", "content": FRUITS}]))
    with_option = greedy(thaw, model, "-n", "24", "-p", FRUITS, "--system", "You are a pirate.")
    assert with_option == greedy(thaw, model, "-n", "24", "--messages", messages)
    assert with_option != greedy(thaw, model, "-n", "24", "-p", FRUITS)


def test_raw_text_is_continued_without_the_template(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    text = greedy(thaw, model, "--raw", "-p", "one two three four", "-n", "4", "--stats-json", stats)
    assert not text.startswith("one two")
    ids = json.loads(thaw.results("tokenize", model, "-p", "one two three four", "--json"))
    assert json.loads(stats.read_text())["prompt_tokens"] == len(ids)


def test_n_limits_the_answer(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    greedy(thaw, model, "-p", FRUITS, "-n", "3", "--stats-json", stats)
    report = json.loads(stats.read_text())
    assert report["decode_tokens"] == 3
    assert report["finish"] == "token limit"
    assert greedy(thaw, model, "-p", FRUITS, "-n", "0") == "\n"


def test_the_earliest_of_several_stops_ends_the_answer_before_it(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    whole = greedy(thaw, model, "-p", FRUITS, "-n", "16").strip()
    second, fourth = whole.split(" ")[1], whole.split(" ")[3]
    stopped = greedy(thaw, model, "-p", FRUITS, "-n", "16", "--stop", fourth, "--stop", second,
                     "--stats-json", stats)
    assert stopped == whole[:whole.index(second)] + "\n"
    assert json.loads(stats.read_text())["finish"] == "stop text"


def test_equal_seeds_give_equal_answers_and_others_differ(thaw, model):
    def answer(seed):
        return thaw.results("run", model, "-p", "Tell a story.", "-n", "12", "--temp", "1.5",
                            "--top-k", "0", "--top-p", "1", "--min-p", "0", "--seed", seed)
    assert answer(7) == answer(7)
    assert len({answer(seed) for seed in (7, 8, 9)}) > 1


def test_a_banned_token_does_not_come(thaw, model):
    first = greedy(thaw, model, "-p", FRUITS, "-n", "1").strip()
    ids = json.loads(thaw.results("tokenize", model, "-p", first, "--json", "--no-bos"))
    other = greedy(thaw, model, "-p", FRUITS, "-n", "1", "--logit-bias", f"{ids[0]}=-inf").strip()
    assert other != first


def test_the_answer_streams(thaw, model):
    process = thaw.start("run", model, "-p", FRUITS, "--temp", "0", "-n", "24", "--quiet")
    process.stdin.close()
    process.stdin = None
    first = process.stdout.read(1)
    came = time.monotonic()
    assert first
    assert process.poll() is None, "the first piece comes before the program has ended"
    outcome = finish(process)
    assert time.monotonic() - came > 0.01
    assert len(outcome.out) > 20


@pytest.mark.parametrize("options", [("--prefill-chunk", "1"), ("--prefill-chunk", "7"),
                                     ("-t", "1"), ("-t", "2", "--prefill-chunk", "33")])
def test_the_text_does_not_depend_on_chunks_or_threads(thaw, model, options):
    plain = greedy(thaw, model, "-p", FRUITS, "-n", "12")
    assert greedy(thaw, model, "-p", FRUITS, "-n", "12", *options) == plain


def test_quiet_says_nothing_and_verbose_names_the_seed(thaw, model):
    assert thaw.run("run", model, "-p", FRUITS, "-n", "1", "--quiet").err == ""
    assert "seed 5" in thaw.run("run", model, "-p", FRUITS, "-n", "1", "-v", "--seed", "5").err


def test_a_small_model_runs_in_2_gib_of_address_space(thaw, model):
    limited = ["bash", "-c", 'ulimit -v 2097152; exec "$0" "$@"',
               *thaw.arguments("run", model, "-p", FRUITS, "-n", "2", "--quiet")]
    done = subprocess.run(limited, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_a_model_with_no_memory_left_for_it_fails_with_a_sentence(thaw, model):
    limited = ["bash", "-c", 'ulimit -v 120000; exec "$0" "$@"',
               *thaw.arguments("run", model, "-p", FRUITS, "-n", "2", "-t", "1")]
    done = subprocess.run(limited, capture_output=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"thaw: ") and done.stderr.count(b"\n") == 1, done.stderr


def test_the_context_ends_an_answer(thaw, model, tmp_path):
    stats = tmp_path / "stats.json"
    greedy(thaw, model, "-p", FRUITS, "-c", "40", "--stats-json", stats)
    report = json.loads(stats.read_text())
    assert report["finish"] in ("context full", "end of generation")
    assert report["prompt_tokens"] + report["decode_tokens"] <= 41
