"""logits and perplexity: numbers that depend on the tokens alone."""
import json

import numpy
import pytest


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps([1, 4093, 198] + list(range(500, 537))))
    return path


def logits_bytes(thaw, model, tokens, tmp_path, *arguments):
    out = tmp_path / "out.npy"
    thaw.results("logits", model, "--tokens", tokens, "--out", out, *arguments)
    return out.read_bytes()


def test_golden_models_agree_with_another_program(thaw, golden, tmp_path):
    files = sorted((golden / "models").glob("*.gguf"))
    assert files
    for file in files:
        out = tmp_path / "out.npy"
        thaw.results("logits", file, "--tokens", file.with_suffix(".tokens.json"), "--out", out)
        got, exact = numpy.load(out), numpy.load(file.with_suffix(".logits.npy"))
        assert got.dtype == numpy.float32 and got.shape == exact.shape
        error = numpy.sqrt(((got - exact) ** 2).mean() / (exact ** 2).mean())
        assert error <= 1e-3, (file.name, error)


@pytest.mark.parametrize("options", [
    ("--prefill-chunk", "1"), ("--prefill-chunk", "7", "-t", "1"), ("--prefill-chunk", "64"),
    ("-t", "1"), ("-t", "2"), ("-c", "64"), ("--kv-type", "f32"),
])
def test_logits_are_the_same_bytes_for_every_chunk_and_thread_count(thaw, model, tokens, tmp_path,
                                                                   options):
    plain = logits_bytes(thaw, model, tokens, tmp_path)
    assert logits_bytes(thaw, model, tokens, tmp_path, *options) == plain


@pytest.mark.parametrize("kv_type", ["f16", "bf16", "q8_0"])
def test_a_narrower_kv_cache_changes_them_a_little(thaw, model, tokens, tmp_path, kv_type):
    plain = logits_bytes(thaw, model, tokens, tmp_path)
    narrow = logits_bytes(thaw, model, tokens, tmp_path, "--kv-type", kv_type)
    assert narrow != plain
    a, b = (numpy.frombuffer(x, numpy.float32, offset=128) for x in (plain, narrow))
    assert numpy.sqrt(((a - b) ** 2).mean() / (a ** 2).mean()) < 0.05


def test_perplexity_is_the_exponential_of_the_mean_likelihood_of_the_logits(thaw, model, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("The quick brown fox jumps over the lazy dog, and then it sleeps.")
    report = json.loads(thaw.results("perplexity", model, "-f", text, "--json", "--kv-type", "f32"))
    ids = json.loads(thaw.results("tokenize", model, "-f", text, "--json", "--no-special"))
    assert report["tokens"] == len(ids) and report["scored_tokens"] == len(ids) - 1
    tokens, out = tmp_path / "ids.json", tmp_path / "l.npy"
    tokens.write_text(json.dumps(ids))
    thaw.results("logits", model, "--tokens", tokens, "--out", out)
    logits = numpy.load(out).astype(float)
    shifted = logits - logits.max(-1, keepdims=True)
    likelihoods = shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))
    total = -sum(likelihoods[i, ids[i + 1]] for i in range(len(ids) - 1))
    assert report["negative_log_likelihood"] == pytest.approx(total, rel=1e-6)
    assert report["perplexity"] == pytest.approx(numpy.exp(total / (len(ids) - 1)), rel=1e-6)
    assert thaw.results("perplexity", model, "-f", text).startswith("perplexity ")


def test_long_texts_are_scored_in_windows(thaw, model, tmp_path):
    text = tmp_path / "t.txt"
    text.write_text("one two three four five six seven eight nine ten " * 4)
    report = json.loads(thaw.results("perplexity", model, "-f", text, "--json", "-c", "16"))
    windows = -(-report["tokens"] // 16)
    assert report["scored_tokens"] == report["tokens"] - windows
