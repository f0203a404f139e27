"""inspect, tokenize and template: what files hold."""
import json
import os

import numpy
import pytest

import small_gguf


def test_inspect_lists_fields_and_tensors(thaw, model):
    text = thaw.results("inspect", model)
    assert "general.architecture" in text and '"llama"' in text
    assert "token_embd.weight" in text and "[576, 49152]" in text
    assert max(map(len, text.splitlines())) < 200, "long values are shortened"


def test_inspect_json_counts_what_it_does_not_show(thaw, model):
    report = json.loads(thaw.results("inspect", model, "--json"))
    fields = {field["key"]: field for field in report["metadata"]}
    tokens = fields["tokenizer.ggml.tokens"]
    assert tokens["count"] == 49152 and len(tokens["value"]) == 64
    assert fields["llama.block_count"]["value"] == 30
    assert fields["tokenizer.chat_template"]["value"].startswith("{%")
    assert len(report["tensors"]) == report["totals"]["tensors"] == 272
    assert report["totals"]["bytes"] == sum(t["bytes"] for t in report["tensors"])
    assert report["totals"]["bytes"] < os.path.getsize(model)


def test_a_tensor_becomes_a_numpy_file_with_rows_first(thaw, model, tmp_path):
    out = tmp_path / "t.npy"
    report = json.loads(thaw.results("inspect", model, "--tensor", "blk.0.ffn_down.weight", "--npy",
                                     out, "--json"))
    array = numpy.load(out)
    assert array.dtype == numpy.float32
    assert list(array.shape) == report["shape"][::-1] == [576, 1536]
    assert numpy.isclose(array.min(), report["min"]) and numpy.isclose(array.max(), report["max"])
    assert numpy.isclose(array.astype(float).mean(), report["mean"])
    assert numpy.allclose(array.ravel()[:8], report["first"])


def test_every_element_type_equals_its_exact_values(thaw, golden, tmp_path):
    files = sorted((golden / "types").glob("*.gguf"))
    assert files
    for file in files:
        for name in ("quantized", "exact"):
            thaw.results("inspect", file, "--tensor", name, "--npy", tmp_path / f"{name}.npy")
        decoded, exact = numpy.load(tmp_path / "quantized.npy"), numpy.load(tmp_path / "exact.npy")
        assert numpy.abs(decoded - exact).max() <= 1e-6 * numpy.abs(exact).max(), file.name


def test_inspect_reads_no_more_than_the_directory(thaw, tmp_path):
    rows = (64 << 30) // (4 * small_gguf.D_MODEL)
    huge = small_gguf.write(tmp_path / "huge.gguf",
                            tensors={"token_embd.weight": (small_gguf.D_MODEL, rows)})
    assert "64.0 GiB" in thaw.results("inspect", huge)


def test_tokenize_prints_ids_for_people_and_programs(thaw, model, tmp_path):
    ids = [int(word) for word in thaw.results("tokenize", model, "-p", "Hello world").split()]
    assert json.loads(thaw.results("tokenize", model, "-p", "Hello world", "--json")) == ids
    file = tmp_path / "t.txt"
    file.write_text("Hello world\n")
    assert json.loads(thaw.results("tokenize", model, "-f", file, "--json"))[:len(ids)] == ids
    assert len(json.loads(thaw.results("tokenize", model, "-f", file, "--json"))) == len(ids) + 1
    assert json.loads(thaw.results("tokenize", model, "--json", stdin="Hello world")) == ids
    texts = tmp_path / "texts.json"
    texts.write_text(json.dumps(["", "Hello world"]))
    assert json.loads(thaw.results("tokenize", model, "--texts", texts)) == [[], ids]
    texts.write_text("[]")
    assert json.loads(thaw.results("tokenize", model, "--texts", texts)) == []


def test_tokenize_follows_the_files_rule(thaw, golden):
    file = golden / "tokenizers" / "llama-spm.gguf"
    with_bos = json.loads(thaw.results("tokenize", file, "-p", "Hello", "--json"))
    without = json.loads(thaw.results("tokenize", file, "-p", "Hello", "--json", "--no-bos"))
    assert with_bos == [1, *without]


def test_control_tokens_are_text_where_asked_for(thaw, model):
    marked = json.loads(thaw.results("tokenize", model, "-p", "<|im_end|>", "--json"))
    plain = json.loads(thaw.results("tokenize", model, "-p", "<|im_end|>", "--json", "--no-special"))
    assert len(marked) == 1 and len(plain) > 1


def test_template_adds_nothing(thaw, model, tmp_path):
    context = tmp_path / "c.json"
    context.write_text(json.dumps({"messages": [{"role": "user", "content": "Hi é"}],
                                   "add_generation_prompt": True}))
    text = thaw.results("template", model, "--context", context)
    assert text.endswith("<|im_start|>user\nHi é<|im_end|>\n<|im_start|>assistant\n")
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages[0].content }}|{{ strftime_now('%Y-%m-%d %H:%M') }}")
    assert thaw.results("template", template, "--context", context, "--now",
                        "2026-11-21") == "Hi é|2026-11-21 00:00"


def test_goldens_render_as_jinja_does(thaw, golden, tmp_path):
    context = tmp_path / "c.json"
    cases = json.loads((golden / "chat" / "Qwen-Qwen2.5-7B-Instruct.json").read_text())
    assert cases
    for case in cases:
        context.write_text(json.dumps(case["context"]))
        outcome = thaw.run("template", golden / "chat" / "Qwen-Qwen2.5-7B-Instruct.jinja",
                           "--context", context, "--now", "2026-11-21")
        if "rendered" in case:
            assert outcome.out == case["rendered"], case["case"]
        else:
            assert outcome.status == 1


def test_version_and_help(thaw):
    assert thaw.results("--version").startswith("thaw ")
    assert thaw.results("--version").count("\n") == 1
    overview = thaw.results("--help")
    for command in ["run", "chat", "inspect", "tokenize", "template", "logits", "perplexity",
                    "plan", "bench", "freeze", "doctor"]:
        assert command in overview
        assert thaw.results(command, "--help").count("Example:\n  thaw " + command) == 1


@pytest.mark.parametrize("unknown", ["serve"])
def test_help_advertises_nothing_that_is_not_there(thaw, unknown):
    assert unknown not in thaw.results("--help") + thaw.results("run", "--help")
