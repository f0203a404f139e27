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
    writer = GGUFWriter(path, source.get_field("general.architecture").contents())
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
        tensors[tensor.name] = (kind, data.reshape(*blob.shape[:0:-1], -1))
    write_model(path, reader, tensors)


D_MODEL, D_FF, N_VOCAB, HEADS, EXPERTS = 256, 1056, 512, 4, 4
LATENT = {"q_lora_rank": 256, "kv_lora_rank": 256, "key_length_mla": 64 + 16, "value_length_mla": 64}

HEADS_APART = {name: (D_MODEL, D_MODEL) for name in ("attn_q", "attn_k", "attn_v", "attn_output")}
HEADS_JOINED = {"attn_qkv": (3 * D_MODEL, D_MODEL), "attn_output": (D_MODEL, D_MODEL)}
HEADS_OF_LATENTS = {
    "attn_q_a": (LATENT["q_lora_rank"], D_MODEL), "attn_kv_a_mqa": (LATENT["kv_lora_rank"] + 16, D_MODEL),
    "attn_q_b": (HEADS * LATENT["key_length_mla"], LATENT["q_lora_rank"]),
    "attn_k_b": (HEADS, LATENT["kv_lora_rank"], LATENT["key_length_mla"] - 16),
    "attn_v_b": (HEADS, LATENT["value_length_mla"], LATENT["kv_lora_rank"]),
    "attn_output": (D_MODEL, HEADS * LATENT["value_length_mla"])}
GATED = {"ffn_gate": (D_FF, D_MODEL), "ffn_up": (D_FF, D_MODEL), "ffn_down": (D_MODEL, D_FF)}
GATES_JOINED = {"ffn_up": (4 * D_FF, D_MODEL), "ffn_down": (D_MODEL, 2 * D_FF)}  # several tiles of bf16 each
EXPERTS_APART = {"ffn_gate_inp": (EXPERTS, D_MODEL)} | {
    f"ffn_{part}.{expert}": shape for expert in range(EXPERTS)
    for part, shape in (("gate", (512, D_MODEL)), ("up", (512, D_MODEL)), ("down", (D_MODEL, 512)))}

STATES = {"conv_kernel": 4, "inner_size": 512, "state_size": 128, "time_step_rank": 16, "group_count": 1}
RECURRENT = {"ssm_in": (512 + 768 + 16, D_MODEL), "ssm_out": (D_MODEL, 512)}  # of gates, of what is mixed, of steps
VECTORS_OF_STATES = {
    "ssm_conv1d.weight": (768, 4), "ssm_conv1d.bias": (768,), "ssm_dt.bias": (16,), "ssm_a": (16, 1),
    "ssm_d": (16, 1), "ssm_norm.weight": (1, 512)}

# Family, whether there is an output matrix, the matrices of a layer as numpy has their dimensions, its vectors
# but for two norms, and fields.
SOURCES = {
    "tied": ("llama", False, HEADS_APART | GATED, {}, {}),
    "untied": ("llama", True, HEADS_APART | GATED, {}, {}),
    "joined": ("phi3", True, HEADS_JOINED | GATES_JOINED, {}, {"rope.dimension_count": 64}),
    "experts apart": ("llama", True, HEADS_APART | EXPERTS_APART, {},
                      {"expert_count": EXPERTS, "expert_used_count": 2}),
    "latent": ("deepseek2", True, HEADS_OF_LATENTS | GATED, {"attn_q_a_norm.weight": (256,), "attn_kv_a_norm.weight": (256,)},
               {f"attention.{key}": value for key, value in LATENT.items()} | {"rope.dimension_count": 16}),
    "recurrent": ("falcon-h1", True, HEADS_APART | RECURRENT | GATED, VECTORS_OF_STATES,
                  {f"ssm.{key}": value for key, value in STATES.items()}),
}

# Of the second layer: what is frozen that holds several matrices, or experts.
FROZEN_WITH_OTHERS = {
    "joined": {"attn_qkv", "ffn_up"},
    "experts apart": {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"},
    "latent": {"attn_k_b", "attn_v_b"},
    "recurrent": {"ssm_in"},
}


@pytest.fixture(scope="module", params=SOURCES)
def source(request, tmp_path_factory):
    """A model of two layers with random weights that bfloat16 holds, in float32."""
    path = tmp_path_factory.mktemp("frozen") / "in.gguf"
    random = np.random.default_rng(1)
    family, has_output, matrices, vectors, fields = SOURCES[request.param]
    writer = GGUFWriter(path, family)
    writer.add_context_length(64)
    writer.add_embedding_length(D_MODEL)
    writer.add_block_count(2)
    writer.add_feed_forward_length(next(shape for name, shape in matrices.items() if "ffn_down" in name)[-1])
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")
    for key, value in fields.items():
        writer.add_uint32(f"{family}.{key}", value)

    def matrix(name, shape):
        weights = (random.standard_t(5, shape) / np.sqrt(shape[-1])).astype(np.float32)
        bits = weights.view(np.uint32) & np.uint32(0xffff0000)
        writer.add_tensor(name + ".weight", bits.view(np.float32))

    def ones(name, shape=(D_MODEL,)):
        writer.add_tensor(name, np.full(shape, -1 if name.endswith("ssm_a") else 1, dtype=np.float32))

    matrix("token_embd", (N_VOCAB, D_MODEL))
    if has_output:
        matrix("output", (N_VOCAB, D_MODEL))
    ones("output_norm.weight")
    for layer in range(2):
        for name in ("attn_norm", "ffn_norm"):
            ones(f"blk.{layer}.{name}.weight")
        for name, shape in vectors.items():
            ones(f"blk.{layer}.{name}", shape)
        for name, shape in matrices.items():
            matrix(f"blk.{layer}.{name}", shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return request.param, path


@pytest.fixture(scope="module", params=sorted(KINDS))
def models(request, thaw, source, tmp_path_factory):
    """A frozen model, and one with what its weights thaw to."""
    folder = tmp_path_factory.mktemp(request.param)
    frozen, plain = folder / "frozen.gguf", folder / "plain.gguf"
    thaw.results("freeze", source[1], frozen, "--verify", *KINDS[request.param])
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
    if "have none of that name" in thaw.run("logits", plain, "--tokens", models_tokens(tmp_path), "--out",
                                            tmp_path / "x", *options).err:
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


def test_matrices_that_share_a_tensor_and_experts_that_have_one_each_are_frozen(models, source):
    frozen, _ = models
    blobs = frozen_reference.open_file(frozen)
    assert {f"blk.1.{name}.weight" for name in FROZEN_WITH_OTHERS.get(source[0], ())} <= set(blobs)
    assert not any(tensor.name.endswith(".0.weight") for tensor in GGUFReader(frozen).tensors)


def test_a_tensor_is_inspected_as_what_it_thaws_to(thaw, models, tmp_path):
    frozen, plain = models
    name, blob = next(item for item in frozen_reference.open_file(frozen).items() if "blk.1.ffn_down" in item[0])
    rows = []
    for model in (frozen, plain):
        out = tmp_path / "t.npy"
        described = json.loads(thaw.results("inspect", model, "--tensor", name, "--npy", out, "--json"))
        assert described["shape"] == list(blob.shape)
        rows.append(np.load(out))
    assert np.array_equal(*rows)
    types = {t["type"] for t in json.loads(thaw.results("inspect", frozen, "--json"))["tensors"]}
    assert types & {"frozen-ecq", "frozen-bf16"}


def test_a_changed_byte_is_refused_by_name_and_place(thaw, models, tmp_path):
    frozen, _ = models
    data = bytearray(frozen.read_bytes())
    tensor = next(t for t in GGUFReader(frozen).tensors if t.name.startswith("blk.0.ffn_up"))
    offset = int(tensor.data_offset) + 4000
    data[offset] ^= 1
    changed = tmp_path / "changed.gguf"
    changed.write_bytes(data)
    outcome = thaw.run("logits", changed, "--tokens", models_tokens(tmp_path), "--out", tmp_path / "x.npy")
    assert outcome.status == 1
    assert str(changed) in outcome.err and tensor.name in outcome.err
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


def test_products_of_coded_weights_are_timed_apart(thaw, models, tmp_path):
    frozen, plain = models
    stats = tmp_path / "stats.json"

    def times(model, *options):
        logits(thaw, model, tmp_path, "--stats-json", stats, "--profile", *options)
        report = json.loads(stats.read_text())
        seconds = report["cache"]["coded_product_s"]
        assert report["profile"]["prompt"]["coded_product_s"] == pytest.approx(seconds)
        assert report["cache"]["thaw_s"] > 0
        return seconds

    assert times(frozen, "--tier", "coded") > 0
    assert times(frozen, "--tier", "thawed") == 0
    assert times(plain) == 0


def test_another_tier_or_back_end_is_wrong_usage(thaw, models):
    frozen, _ = models
    for option, there_is in (("--tier", "auto, coded, thawed"), ("--codec-backend", "cpu")):
        outcome = thaw.run("plan", frozen, option, "other")
        assert outcome.status == 2 and there_is in outcome.err
