"""IQ1, IQ2 and IQ3 give the same numbers whether their points are looked up in products or once, when they are read."""
import json

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

D_MODEL, D_FF, N_VOCAB, HEADS, EXPERTS = 256, 768, 512, 4, 4
GRIDS = ("IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S")
DENSE = {"ffn_gate": (D_FF, D_MODEL), "ffn_up": (D_FF, D_MODEL), "ffn_down": (D_MODEL, D_FF)}
CHOSEN = {"ffn_gate_exps": (EXPERTS, D_FF, D_MODEL), "ffn_up_exps": (EXPERTS, D_FF, D_MODEL),
          "ffn_down_exps": (EXPERTS, D_MODEL, D_FF)}


def random_blocks(random, grid, shape):
    """Rows of blocks of any points, with scales that keep values small."""
    kind = GGMLQuantizationType[grid]
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (*shape[:-1], shape[-1] // elements, size), dtype=np.uint8)
    if grid == "IQ1_M":  # the upper nibbles of four numbers at the end: those of 2^-6 times 1.0 to 1.9
        blocks[..., 49::2] &= 0x0f
        blocks[..., 55] |= 0x20
        blocks[..., 53] |= 0x40
    else:
        blocks[..., :2] = np.array([0x00, 0x20 if grid.startswith("IQ1") else 0x14], dtype=np.uint8)
    return blocks.reshape(*shape[:-1], -1), kind


@pytest.fixture(scope="module", params=["dense", "experts"])
def grids(request, tmp_path_factory):
    """A model whose matrices are of one type after the other; its table, which is the output too, is IQ3_S."""
    path = tmp_path_factory.mktemp("grids") / f"{request.param}.gguf"
    random = np.random.default_rng(2)
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(D_MODEL)
    writer.add_block_count(2)
    writer.add_feed_forward_length(D_FF)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_tokenizer_model("none")
    if request.param == "experts":
        writer.add_expert_count(EXPERTS)
        writer.add_expert_used_count(2)
    written = 0

    def matrix(name, shape, grid=None):
        nonlocal written
        blocks, kind = random_blocks(random, grid or GRIDS[written % len(GRIDS)], shape)
        writer.add_tensor(name + ".weight", blocks, raw_dtype=kind)
        written += 1

    def floats(name, shape):
        writer.add_tensor(name, random.normal(1, 0.1, shape).astype(np.float32))

    matrix("token_embd", (N_VOCAB, D_MODEL), "IQ3_S")
    floats("output_norm.weight", D_MODEL)
    for layer in range(2):
        for name in ("attn_norm", "ffn_norm"):
            floats(f"blk.{layer}.{name}.weight", D_MODEL)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            matrix(f"blk.{layer}.{name}", (D_MODEL, D_MODEL))
        for name, shape in (CHOSEN if request.param == "experts" else DENSE).items():
            matrix(f"blk.{layer}.{name}", shape)
        if request.param == "experts":
            floats(f"blk.{layer}.ffn_gate_inp.weight", (EXPERTS, D_MODEL))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def logits(thaw, model, folder, *arguments):
    tokens, out = folder / "tokens.json", folder / "out.npy"
    tokens.write_text(json.dumps([77 * i % N_VOCAB for i in range(40)]))
    thaw.results("logits", model, "--tokens", tokens, "--out", out, *arguments)
    assert np.isfinite(np.load(out)).all()
    return out.read_bytes()


@pytest.mark.parametrize("kernels", ["portable", "avx2", "avx512", ""])
def test_logits_are_the_same_bits_in_every_form_and_budget(thaw, grids, tmp_path, kernels):
    options = ("--kernels", kernels) if kernels else ()
    one = tmp_path / "one.json"
    one.write_text("[1]")
    if "have none of that name" in thaw.run("logits", grids, "--tokens", one, "--out", tmp_path / "x", *options,
                                            "--tier", "coded").err:
        pytest.skip(f"this CPU cannot run the {kernels} kernels")
    expected = logits(thaw, grids, tmp_path, "--tier", "coded", *options)
    for others in (("--tier", "thawed"), ("--tier", "thawed", "--budget", "floor"),
                   ("--tier", "thawed", "--verify", "-t", "1"), ("--tier", "thawed", "--prefill-chunk", "1")):
        assert logits(thaw, grids, tmp_path, *others, *options) == expected, others
    if kernels:
        return  # rates of thirteen forms would be measured for each
    for budget in ("1GiB", "floor+1MiB"):
        assert logits(thaw, grids, tmp_path, "--tier", "auto", "--budget", budget) == expected, budget


def test_the_plan_says_in_which_form_they_are_held(thaw, grids):
    coded, thawed = (json.loads(thaw.results("plan", grids, "--json", "--tier", tier)) for tier in ("coded", "thawed"))
    assert coded["thawed_bytes"] == 0
    # All but the table, whose rows are looked up, and what chooses experts.
    table = N_VOCAB * D_MODEL // 256 * 110
    routers = 2 * 4 * EXPERTS * D_MODEL
    assert coded["weight_bytes"] - coded["coded_bytes"] in (table, table + routers)
    assert thawed["coded_bytes"] == 0
    assert 1.2 * coded["coded_bytes"] < thawed["thawed_bytes"] < 1.56 * coded["coded_bytes"]


def test_types_that_are_held_in_memory_alone_are_no_types_of_files(thaw):
    outcome = thaw.run("bench", "--shape", "tinyllama-1.1b", "--type", "IQ3_S_thawed")
    assert outcome.status != 0
    assert "IQ3_S_thawed" in outcome.err
    assert "IQ3_S" in outcome.err.replace("IQ3_S_thawed", "", 1) and "_thawed," not in outcome.err


def test_the_bench_counts_what_is_read_of_memory(thaw, grids):
    weights = {}
    for tier in ("coded", "thawed"):
        report = json.loads(thaw.results("bench", grids, "--prefill", "2", "--decode", "2", "--runs", "1", "--json",
                                         "--tier", tier))
        decode = report["runs"][1]
        if grids.stem == "dense":
            assert decode["memory_gb_per_s"] is not None  # all is in memory, in either form
        weights[tier] = decode["bytes_per_token"] - decode["kv_bytes_per_token"]
    assert weights["coded"] <= report["model"]["weight_bytes"]
    assert 1.15 * weights["coded"] < weights["thawed"] < 1.56 * weights["coded"]
