"""Models with frozen weights run as the weights that they thaw to, at every budget and tier."""
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, GGUFWriter

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import frozen_reference  # noqa: E402

KINDS = {"ecq": ("--bits", "3.9"), "bf16": ("--lossless",)}


def write_model(path, source, tensors):
    """A GGUF with the fields of `source` and tensors {name: (shape, type or None for F32, array)}."""
    writer = GGUFWriter(path, "llama")
    for field in source.fields.values():
        if field.name.startswith("GGUF.") or field.name in ("general.architecture", "general.alignment",
                                                            frozen_reference.VERSION_FIELD):
            continue
        value = field.contents()
        kind = field.types[0]
        writer.add_key_value(field.name, value, kind, field.types[-1] if len(field.types) > 1 else None)
    for name, (raw_dtype, array) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=raw_dtype)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def thawed(frozen, path):
    """The same model with the rows that the slow decoder gives for its frozen tensors."""
    reader = GGUFReader(frozen)
    blobs = frozen_reference.open_file(frozen)
    tensors = {}
    for tensor in reader.tensors:
        if tensor.name not in blobs:
            tensors[tensor.name] = (tensor.tensor_type, np.array(tensor.data))
            continue
        blob = blobs[tensor.name]
        is_ecq = blob.kind == frozen_reference.ECQ
        data = np.ascontiguousarray(frozen_reference.decode_tensor(blob)).view(np.uint8)
        kind = GGMLQuantizationType.Q8_0 if is_ecq else GGMLQuantizationType.BF16
        tensors[tensor.name] = (kind, data.reshape(blob.rows, -1))
    write_model(path, reader, tensors)


@pytest.fixture(scope="module", params=["tied", "untied"])
def source(request, tmp_path_factory):
    """A llama of two layers with random weights that bfloat16 holds, in float32."""
    path = tmp_path_factory.mktemp("frozen") / "in.gguf"
    random = np.random.default_rng(1)
    d_model, d_ff, n_vocab = 256, 1056, 512
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(d_model)
    writer.add_block_count(2)
    writer.add_feed_forward_length(d_ff)
    writer.add_head_count(4)
    writer.add_head_count_kv(4)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")

    def matrix(name, rows, cols):
        weights = (random.standard_t(5, (rows, cols)) / np.sqrt(cols)).astype(np.float32)
        bits = weights.view(np.uint32) & np.uint32(0xffff0000)
        writer.add_tensor(name + ".weight", bits.view(np.float32))

    def ones(name):
        writer.add_tensor(name + ".weight", np.ones(d_model, dtype=np.float32))

    matrix("token_embd", n_vocab, d_model)
    if request.param == "untied":
        matrix("output", n_vocab, d_model)
    ones("output_norm")
    for layer in range(2):
        ones(f"blk.{layer}.attn_norm")
        ones(f"blk.{layer}.ffn_norm")
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{part}", d_model, d_model)
        matrix(f"blk.{layer}.ffn_gate", d_ff, d_model)
        matrix(f"blk.{layer}.ffn_up", d_ff, d_model)
        matrix(f"blk.{layer}.ffn_down", d_model, d_ff)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module", params=sorted(KINDS))
def models(request, thaw, source, tmp_path_factory):
    """A frozen model, and one with what its weights thaw to."""
    folder = tmp_path_factory.mktemp(request.param)
    frozen, plain = folder / "frozen.gguf", folder / "plain.gguf"
    thaw.results("freeze", source, frozen, *KINDS[request.param])
    thawed(frozen, plain)
    assert frozen_reference.open_file(frozen)
    return frozen, plain


def logits(thaw, model, folder, *arguments):
    tokens, out = folder / "tokens.json", folder / "out.npy"
    tokens.write_text(json.dumps([77 * i % 512 for i in range(40)]))
    thaw.results("logits", model, "--tokens", tokens, "--out", out, *arguments)
    return out.read_bytes()


@pytest.mark.parametrize("kernels", [None, "portable", "avx2"])
def test_logits_are_the_bits_of_the_thawed_weights(thaw, models, tmp_path, kernels):
    frozen, plain = models
    options = () if kernels is None else ("--kernels", kernels)
    if thaw.run("logits", plain, "--tokens", "/dev/null", "--out", tmp_path / "x", *options).err.find(
            "cannot run") >= 0:
        pytest.skip(f"this CPU cannot run the {kernels} kernels")
    expected = logits(thaw, plain, tmp_path, *options)
    for tier in ("coded", "thawed", "auto"):
        assert logits(thaw, frozen, tmp_path, "--tier", tier, *options) == expected, tier


@pytest.mark.parametrize("options", [
    ("--budget", "floor"), ("--budget", "floor", "--tier", "thawed"), ("--budget", "floor+30%"),
    ("--prefill-chunk", "1"), ("--prefill-chunk", "3", "-t", "1"), ("-t", "2", "--verify"),
    ("--policy", "lru", "--budget", "floor+10%"), ("--tier", "thawed", "--verify"),
])
def test_logits_are_the_same_bits_however_weights_are_held(thaw, models, tmp_path, options):
    frozen, _ = models
    assert logits(thaw, frozen, tmp_path, *options) == logits(thaw, frozen, tmp_path)


def test_a_table_that_is_the_output_too_is_frozen(models):
    frozen, _ = models
    blobs = frozen_reference.open_file(frozen)
    tensors = {t.name for t in GGUFReader(frozen).tensors}
    assert ("token_embd.weight" in blobs) == ("output.weight" not in tensors)


def test_a_tensor_is_inspected_as_what_it_thaws_to(thaw, models, tmp_path):
    frozen, plain = models
    name = "blk.1.ffn_down.weight"
    rows = []
    for model in (frozen, plain):
        out = tmp_path / "t.npy"
        described = json.loads(thaw.results("inspect", model, "--tensor", name, "--npy", out, "--json"))
        assert described["shape"] == [1056, 256]
        rows.append(np.load(out))
    assert np.array_equal(*rows)
    types = {t["type"] for t in json.loads(thaw.results("inspect", frozen, "--json"))["tensors"]}
    assert types & {"frozen-ecq", "frozen-bf16"}


def test_a_changed_byte_is_refused_by_name_and_place(thaw, models, tmp_path):
    frozen, _ = models
    data = bytearray(frozen.read_bytes())
    tensor = next(t for t in GGUFReader(frozen).tensors if t.name == "blk.0.ffn_up.weight")
    offset = int(tensor.data_offset) + 4000
    data[offset] ^= 1
    changed = tmp_path / "changed.gguf"
    changed.write_bytes(data)
    outcome = thaw.run("logits", changed, "--tokens", models_tokens(tmp_path), "--out", tmp_path / "x.npy")
    assert outcome.status == 1
    assert str(changed) in outcome.err and "blk.0.ffn_up.weight" in outcome.err
    assert "hash" in outcome.err and "offset" in outcome.err


def models_tokens(folder):
    path = folder / "some.json"
    path.write_text("[1, 2, 3]")
    return path


def test_the_plan_says_how_frozen_weights_are_held(thaw, models):
    frozen, _ = models
    plans = {tier: json.loads(thaw.results("plan", frozen, "--json", "--tier", tier))
             for tier in ("coded", "thawed")}
    assert plans["coded"]["coded_bytes"] > 0 and plans["coded"]["thawed_bytes"] == 0
    assert plans["thawed"]["thawed_bytes"] > plans["coded"]["coded_bytes"]
    assert plans["thawed"]["coded_bytes"] == 0


def test_another_tier_or_back_end_is_wrong_usage(thaw, models):
    frozen, _ = models
    for option, there_is in (("--tier", "auto, coded, thawed"), ("--codec-backend", "cpu")):
        outcome = thaw.run("plan", frozen, option, "other")
        assert outcome.status == 2 and there_is in outcome.err
