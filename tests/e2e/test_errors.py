"""What goes wrong is said in one sentence, with exit status 1; wrong usage is status 2."""
import json
import os
import stat

import pytest

import small_gguf
from program import finish


def sentence(outcome, status=1):
    """The message, after checking that it is one line that begins as it should."""
    assert outcome.status == status, outcome
    assert outcome.out == ""
    assert outcome.err.startswith("thaw: ")
    assert outcome.err.endswith("\n") and outcome.err.count("\n") == 1, outcome.err
    return outcome.err


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text("[1, 2, 3]")
    return path


def logits(thaw, model, tokens, tmp_path, *arguments):
    return thaw.run("logits", model, "--tokens", tokens, "--out", tmp_path / "l.npy", *arguments)


def test_the_small_model_itself_works(thaw, tokens, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    assert logits(thaw, model, tokens, tmp_path).status == 0


@pytest.mark.parametrize("fields, tensors, words", [
    ({"general.architecture": "perceptron"}, {}, ["perceptron", "llama", "qwen2"]),
    ({"general.architecture": None}, {}, ["general.architecture"]),
    ({"llama.embedding_length": None}, {}, ["llama.embedding_length"]),
    ({"llama.attention.head_count": "two"}, {}, ["llama.attention.head_count", "string"]),
    ({}, {"output_norm.weight": None}, ["output_norm.weight", "missing"]),
    ({}, {"blk.0.ffn_gate.weight": (64, 32)}, ["blk.0.ffn_gate.weight", "[64, 32]", "[32, 64]"]),
    ({}, {"blk.0.mystery.weight": (32,)}, ["blk.0.mystery.weight"]),
])
def test_models_that_cannot_be_run_are_refused(thaw, tokens, tmp_path, fields, tensors, words):
    model = small_gguf.write(tmp_path / "m.gguf", fields, tensors)
    message = sentence(logits(thaw, model, tokens, tmp_path))
    for word in [str(model), *words]:
        assert word in message


def test_a_truncated_model_is_refused(thaw, tokens, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    os.truncate(model, model.stat().st_size - 1000)
    assert str(model) in sentence(logits(thaw, model, tokens, tmp_path))


def test_what_is_no_model_file_is_refused_by_every_command(thaw, tokens, tmp_path):
    text = tmp_path / "text.gguf"
    text.write_text("this is not a model, but it is long enough to be one" * 10)
    for path, word in [(tmp_path / "none.gguf", "no such file"), (tmp_path, "directory"),
                       (text, "GGUF")]:
        context = tmp_path / "context.json"
        context.write_text("{}")
        for command in [("run", path, "-p", "x"), ("chat", path), ("inspect", path),
                        ("tokenize", path, "-p", "x"), ("perplexity", path, "-f", text),
                        ("logits", path, "--tokens", tokens, "--out", tmp_path / "l.npy"),
                        ("doctor", path)]:
            message = sentence(thaw.run(*command))
            assert str(path) in message and word in message


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_file_is_refused(thaw, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    model.chmod(0)
    assert "Permission denied" in sentence(thaw.run("inspect", model))
    model.chmod(stat.S_IRUSR)


def test_an_empty_prompt_is_refused(thaw, model, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    for arguments in [("-p", ""), ("-f", empty), ("--raw", "-p", ""), ()]:
        assert sentence(thaw.run("run", model, *arguments)) == "thaw: the prompt is empty\n"


def test_a_prompt_longer_than_the_context_names_both_numbers_and_the_option(thaw, model):
    message = sentence(thaw.run("run", model, "-p", "many words " * 20, "-c", "16"))
    assert " 16" in message and "-c" in message
    ids = thaw.results("tokenize", model, "-p", "many words " * 20).split()
    raw = sentence(thaw.run("run", model, "--raw", "-p", "many words " * 20, "-c", "16"))
    assert f"{len(ids)} tokens" in raw


def test_more_tokens_than_the_context_are_refused(thaw, tokens, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    message = sentence(logits(thaw, model, tokens, tmp_path, "-c", "2"))
    assert "3 tokens" in message and "-c" in message


@pytest.mark.parametrize("text, words", [
    ("[1, 48]", ["48", "47"]),
    ("[-1]", ["-1"]),
    ("[]", ["empty"]),
    ("[1, 2.5]", ["element 1", "2.5"]),
    ("[99999999999]", ["99999999999"]),
    ('{"a": 1}', ["list of token ids"]),
    ("[1,\n2,\n x]", ["tokens.json:3:2"]),
    ("", ["tokens.json:1:1"]),
    ("[" * 100000, ["tokens.json"]),
])
def test_lists_of_tokens_are_checked(thaw, tmp_path, text, words):
    model = small_gguf.write(tmp_path / "m.gguf")
    tokens = tmp_path / "tokens.json"
    tokens.write_text(text)
    message = sentence(logits(thaw, model, tokens, tmp_path))
    for word in words:
        assert word in message


def test_nothing_is_left_of_an_output_that_failed(thaw, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    tokens = tmp_path / "tokens.json"
    tokens.write_text("[48]")
    sentence(logits(thaw, model, tokens, tmp_path))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.gguf", "tokens.json"]


def test_outputs_that_cannot_be_written_are_named(thaw, tokens, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    for out in [tmp_path / "none" / "l.npy", tmp_path]:
        message = sentence(thaw.run("logits", model, "--tokens", tokens, "--out", out))
        assert str(out) in message
        message = sentence(thaw.run("inspect", model, "--tensor", "output_norm.weight", "--npy", out))
        assert str(out) in message


def test_statistics_that_cannot_be_written_are_an_error(thaw, model, tmp_path):
    outcome = thaw.run("run", model, "-p", "Hi", "-n", "1", "--quiet", "--stats-json",
                       tmp_path / "none" / "s.json")
    assert outcome.status == 1
    assert outcome.err.startswith("thaw: ") and "s.json" in outcome.err


def test_messages_are_checked(thaw, model, tmp_path):
    path = tmp_path / "messages.json"
    for text, word in [("[]", "at least one"), ('{"role": "user"}', "list of messages"),
                       ('[{"role": "user"', "messages.json:1:"), (None, "no such file")]:
        path.unlink(missing_ok=True)
        if text is not None:
            path.write_text(text)
        assert word in sentence(thaw.run("run", model, "--messages", path))


def test_a_model_without_tokenizer_or_template_says_so(thaw, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    context = tmp_path / "context.json"
    context.write_text("{}")
    assert "tokenizer" in sentence(thaw.run("tokenize", model, "-p", "x"))
    assert "tokenizer" in sentence(thaw.run("run", model, "-p", "x"))
    assert "chat template" in sentence(thaw.run("template", model, "--context", context))
    assert "chat template" in sentence(thaw.run("chat", model))


def test_a_vocabulary_without_weights_says_so(thaw, golden, tokens, tmp_path):
    message = sentence(logits(thaw, golden / "tokenizers" / "llama-spm.gguf", tokens, tmp_path))
    assert "weights" in message


def test_templates_that_fail_say_where(thaw, tmp_path):
    template, context = tmp_path / "t.jinja", tmp_path / "c.json"
    context.write_text(json.dumps({"messages": []}))
    template.write_text("line one\n{{ raise_exception('no messages') }}")
    assert "no messages" in sentence(thaw.run("template", template, "--context", context))
    template.write_text("line one\n{% if %}")
    assert f"{template}:2:" in sentence(thaw.run("template", template, "--context", context))
    template.write_text("fine")
    context.write_text("[1]")
    assert "JSON object" in sentence(thaw.run("template", template, "--context", context))


def test_unknown_tensors_and_kernels_are_named(thaw, tokens, tmp_path):
    model = small_gguf.write(tmp_path / "m.gguf")
    assert "nothing.weight" in sentence(thaw.run("inspect", model, "--tensor", "nothing.weight"))
    message = sentence(logits(thaw, model, tokens, tmp_path, "--kernels", "abacus"))
    assert "abacus" in message and "portable" in message


def test_a_text_too_short_to_be_scored_is_refused(thaw, model, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("")
    assert "at least 2" in sentence(thaw.run("perplexity", model, "-f", text))


@pytest.mark.parametrize("arguments", [
    (), ("melt",), ("run",), ("run", "m.gguf", "-p", "a", "-f", "b"), ("run", "m.gguf", "--what"),
    ("run", "m.gguf", "--kv-type", "q4_0"), ("run", "m.gguf", "-n", "few"),
    ("inspect", "m.gguf", "--npy", "x"), ("template", "t", "--context", "c", "--now", "today"),
])
def test_wrong_usage_has_a_status_of_its_own(thaw, arguments):
    sentence(thaw.run(*arguments), status=2)


def test_an_output_that_is_full_is_an_error(thaw, model):
    with open("/dev/full", "wb") as full:
        for arguments in [("doctor",), ("run", model, "-p", "Hi", "-n", "4", "--quiet")]:
            process = thaw.start(*arguments, stdout=full)
            outcome = finish(process)
            assert outcome.status == 1
            assert outcome.err.startswith("thaw: standard output cannot be written: No space left")
