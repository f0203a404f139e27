#!/usr/bin/env python3
"""Writes tests/corpus/model: models of a few hundred random weights, one for each kind of family.

usage: make_model_corpus.py FOLDER

They are what src/model/model_fuzz.cc mutates. The same files in every run.
"""
import math
import random
import struct
import sys
from pathlib import Path

UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
ALIGNMENT = 32
D, FF, VOCAB, HEADS, KV_HEADS, HEAD = 8, 12, 10, 2, 1, 4

NORMS = {"attn_norm.weight": (D,), "ffn_norm.weight": (D,)}
NORM_BIASES = {"attn_norm.bias": (D,), "ffn_norm.bias": (D,)}
NORMS_AFTER = {"post_attention_norm.weight": (D,), "post_ffw_norm.weight": (D,)}
HEADS_APART = {"attn_q.weight": (D, HEADS * HEAD), "attn_k.weight": (D, KV_HEADS * HEAD),
               "attn_v.weight": (D, KV_HEADS * HEAD), "attn_output.weight": (HEADS * HEAD, D)}
ALL_HEADS = (HEADS + 2 * KV_HEADS) * HEAD
HEADS_JOINED = {"attn_qkv.weight": (D, ALL_HEADS), "attn_output.weight": (HEADS * HEAD, D)}
HEAD_BIASES = {"attn_qkv.bias": (ALL_HEADS,), "attn_output.bias": (D,)}
HEAD_NORMS = {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
UNGATED = {"ffn_up.weight": (D, FF), "ffn_down.weight": (FF, D)}
GATED = UNGATED | {"ffn_gate.weight": (D, FF)}
JOINED = UNGATED | {"ffn_up.weight": (D, 2 * FF)}
FFN_BIASES = {"ffn_up.bias": (FF,), "ffn_down.bias": (D,)}
EXPERT_COUNT, EXPERT_FF = 4, 3
LAYER_WIDTH = 3
EXPERTS = {"ffn_gate_inp.weight": (D, EXPERT_COUNT),
           "ffn_gate_exps.weight": (D, EXPERT_FF, EXPERT_COUNT),
           "ffn_up_exps.weight": (D, EXPERT_FF, EXPERT_COUNT),
           "ffn_down_exps.weight": (EXPERT_FF, D, EXPERT_COUNT)}
JOINED_EXPERTS = {"ffn_gate_inp.weight": (D, EXPERT_COUNT),
                  "ffn_gate_up_exps.weight": (D, 2 * EXPERT_FF, EXPERT_COUNT),
                  "ffn_down_exps.weight": (EXPERT_FF, D, EXPERT_COUNT),
                  "ffn_down_exps.scale": (EXPERT_COUNT,)}
EXPERTS_APART = {"ffn_gate_inp.weight": (D, EXPERT_COUNT)} | {
    f"{part}.{expert}.weight": shape for expert in range(EXPERT_COUNT) for part, shape in
    {"ffn_gate": (D, EXPERT_FF), "ffn_up": (D, EXPERT_FF), "ffn_down": (EXPERT_FF, D)}.items()}
SHARED = {"ffn_gate_inp_shexp.weight": (D,), "ffn_gate_shexp.weight": (D, FF),
          "ffn_up_shexp.weight": (D, FF), "ffn_down_shexp.weight": (FF, D)}
# A head's key has HEAD numbers, half of which turn; its value and the latent have RANK.
RANK, TURNED = 16, HEAD // 2
LATENT = {"attn_kv_a_mqa.weight": (D, RANK + TURNED), "attn_kv_a_norm.weight": (RANK,),
          "attn_output.weight": (HEADS * RANK, D)}
LOW_RANK = {"attn_q_a.weight": (D, HEAD), "attn_q_a_norm.weight": (HEAD,),
            "attn_q_b.weight": (HEAD, HEADS * HEAD)}
EXPANDED = {"attn_kv_b.weight": (RANK, HEADS * (HEAD - TURNED + RANK))}
ABSORBED = {"attn_k_b.weight": (HEAD - TURNED, RANK, HEADS), "attn_v_b.weight": (RANK, RANK, HEADS)}
INDEXER = {"indexer.attn_q_b.weight": (HEAD, 3 * HEAD), "indexer.attn_k.weight": (D, HEAD),
           "indexer.k_norm.weight": (HEAD,), "indexer.k_norm.bias": (HEAD,),
           "indexer.proj.weight": (D, 3)}
LATENT_SIZES = {"attention.kv_lora_rank": RANK, "rope.dimension_count": TURNED}
HEAD_BIASES_APART = {"attn_q.bias": (HEADS * HEAD,), "attn_k.bias": (KV_HEADS * HEAD,),
                     "attn_v.bias": (KV_HEADS * HEAD,)}
STREAM_COUNT, LAUREL = 3, 2
STREAMS = {"altup_router.weight": (D, STREAM_COUNT), "altup_router_norm.weight": (D,),
           "altup_predict_coef.weight": (STREAM_COUNT, STREAM_COUNT ** 2),
           "altup_correct_coef.weight": (STREAM_COUNT, STREAM_COUNT),
           "altup_correct_scale.weight": (D,), "laurel_l.weight": (D, LAUREL),
           "laurel_r.weight": (LAUREL, D), "laurel_post_norm.weight": (D,)}
CHANNELS = 6 + 2 * 2  # of a convolution over 6 values and a key and a query of 2
MAMBA2 = {"ssm_in.weight": (D, 6 + CHANNELS + 2), "ssm_conv1d.weight": (3, CHANNELS),
          "ssm_conv1d.bias": (CHANNELS,), "ssm_dt.bias": (2,), "ssm_a": (1, 2), "ssm_d": (1, 2),
          "ssm_norm.weight": (6, 1), "ssm_out.weight": (6, D)}
MAMBA = {"ssm_in.weight": (D, 12), "ssm_conv1d.weight": (3, 6), "ssm_conv1d.bias": (6,),
         "ssm_x.weight": (6, 3 + 2 * 2), "ssm_dt.weight": (3, 6), "ssm_dt.bias": (6,),
         "ssm_a": (2, 6), "ssm_d": (6,), "ssm_out.weight": (6, D)}
DELTA = {"attn_qkv.weight": (D, CHANNELS), "attn_gate.weight": (D, 6),
         "ssm_conv1d.weight": (3, CHANNELS), "ssm_dt.bias": (2,), "ssm_a": (2,),
         "ssm_alpha.weight": (D, 2), "ssm_beta.weight": (D, 2), "ssm_norm.weight": (3,),
         "ssm_out.weight": (6, D)}
MIX_RANK = 3  # of the parts that time mixing makes of low rank
TIME_MIX = {f"{norm}.{part}": (D,) for norm in ("attn_norm", "attn_norm_2", "time_mix_ln")
            for part in ("weight", "bias")} | {
    f"time_mix_{mixed}.weight": (D, D) for mixed in ("receptance", "key", "value", "output")} | {
    f"time_mix_{part}1.weight": (D, MIX_RANK) for part in "wavg"} | {
    f"time_mix_{part}2.weight": (MIX_RANK, D) for part in "wavg"} | {
    f"time_mix_{numbers}.weight": (D,) for numbers in ("w0", "a0", "v0", "k_k", "k_a", "r_k")} | {
    "time_mix_lerp_fused.weight": (D, 1, 1, 6), "channel_mix_lerp_k.weight": (D, 1, 1),
    "channel_mix_key.weight": (D, FF), "channel_mix_value.weight": (FF, D)}
CHANNEL_DELTA = {f"attn_{part}.weight": (D, 6) for part in "qkv"} | {
    f"ssm_conv1d_{part}.weight": (3, 1, 6) for part in "qkv"} | {
    "ssm_beta.weight": (D, 2), "ssm_f_a.weight": (D, 3), "ssm_f_b.weight": (3, 6),
    "ssm_g_a.weight": (D, 3), "ssm_g_b.weight": (3, 6), "ssm_dt.bias": (6,), "ssm_a": (1, 2),
    "ssm_norm.weight": (3,), "attn_output.weight": (6, D)}
STATES = {"ssm.conv_kernel": 3, "ssm.inner_size": 6, "ssm.state_size": 2}
HEADS_OF_STATES = STATES | {"ssm.time_step_rank": 2, "ssm.group_count": 1}
WINDOW = {"attention.sliding_window": 5}

# Architecture, or another name: layers, tensors of a layer, other tensors, fields beyond the common ones.
MODELS = {
    "llama": (1, NORMS | HEADS_APART | GATED, {"rope_freqs.weight": (HEAD // 2,)},
              {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
               "rope.scaling.original_context_length": 16}),
    "qwen3": (1, NORMS | HEADS_APART | HEAD_NORMS | GATED, {"output.weight": (D, VOCAB)}, {}),
    "gemma3": (2, NORMS | NORMS_AFTER | HEADS_APART | HEAD_NORMS | GATED, {},
               WINDOW | {"attention.sliding_window_pattern": [1, 0], "attn_logit_softcapping": 50.0,
                         "final_logit_softcapping": 30.0}),
    "cohere2": (4, {"attn_norm.weight": (D,)} | HEADS_APART | GATED, {},
                WINDOW | {"logit_scale": 0.25}),
    "phi3": (1, NORMS | HEADS_JOINED | JOINED,
             {"rope_factors_long.weight": (HEAD // 2,), "rope_factors_short.weight": (HEAD // 2,)},
             {"rope.scaling.original_context_length": 16}),
    "gptneox": (1, NORMS | NORM_BIASES | HEADS_JOINED | HEAD_BIASES | UNGATED | FFN_BIASES,
                {"output_norm.bias": (D,)}, {"use_parallel_residual": True}),
    "gpt2": (1, NORMS | NORM_BIASES | HEADS_JOINED | HEAD_BIASES | UNGATED | FFN_BIASES,
             {"output_norm.bias": (D,), "position_embd.weight": (D, 64)}, {}),
    "bloom": (1, NORMS | NORM_BIASES | HEADS_JOINED | HEAD_BIASES | UNGATED | FFN_BIASES,
              {"output_norm.bias": (D,), "token_embd_norm.weight": (D,),
               "token_embd_norm.bias": (D,)}, {}),
    "qwen2moe": (1, NORMS | HEADS_APART | HEAD_BIASES_APART | EXPERTS | SHARED, {},
                 {"expert_count": EXPERT_COUNT, "expert_used_count": 2}),
    "bailingmoe2": (2, NORMS | HEADS_JOINED | HEAD_NORMS | EXPERTS | {"exp_probs_b.bias": (EXPERT_COUNT,)},
                    {}, {"expert_count": EXPERT_COUNT, "expert_used_count": 1,
                         "expert_gating_func": 2, "expert_group_count": 2,
                         "expert_group_used_count": 1, "nextn_predict_layers": 1}),
    "lfm2": (1, NORMS | {"shortconv.in_proj.weight": (D, 3 * D), "shortconv.conv.weight": (3, D),
                         "shortconv.out_proj.weight": (D, D)} | GATED,
             {"token_embd_norm.weight": (D,)},
             {"attention.head_count_kv": [0], "shortconv.l_cache": 3}),
    "mamba": (1, {"attn_norm.weight": (D,)} | MAMBA, {},
              STATES | {"ssm.time_step_rank": 3, "ssm.dt_b_c_rms": True, "feed_forward_length": 0}),
    "falcon-h1": (1, NORMS | MAMBA2 | HEADS_APART | GATED, {}, HEADS_OF_STATES),
    "qwen35": (1, {"attn_norm.weight": (D,), "post_attention_norm.weight": (D,)} | DELTA | GATED, {},
               HEADS_OF_STATES),
    "bitnet": (1, NORMS | HEADS_APART | GATED | {
        "attn_sub_norm.weight": (HEADS * HEAD,), "ffn_sub_norm.weight": (FF,),
        "attn_q.scale": (1,), "ffn_down.scale": (1,)}, {}, {"hidden_activation": "relu2"}),
    "step35": (2, NORMS | HEADS_APART | HEAD_NORMS | {"attn_gate.weight": (D, HEADS)} |
               JOINED_EXPERTS, {"rope_freqs.weight": (HEAD // 2,)},
               WINDOW | {"attention.sliding_window_pattern": [0, 1], "expert_count": EXPERT_COUNT,
                         "expert_used_count": 2, "swiglu_clamp_exp": [0.0, 0.5],
                         "attention.head_count": [HEADS, HEADS]}),
    "deepseek2": (1, NORMS | LATENT | ABSORBED | GATED | {"attn_q.weight": (D, HEADS * HEAD)}, {},
                  LATENT_SIZES | {"attention.key_length_mla": HEAD,
                                  "attention.value_length_mla": RANK, "rope.scaling.type": "yarn",
                                  "rope.scaling.factor": 4.0,
                                  "rope.scaling.yarn_log_multiplier": 0.1}),
    "deepseek32": (1, NORMS | LATENT | LOW_RANK | ABSORBED | INDEXER | GATED, {},
                   LATENT_SIZES | {"attention.q_lora_rank": HEAD, "attention.key_length_mla": HEAD,
                                   "attention.value_length_mla": RANK,
                                   "attention.indexer.head_count": 3,
                                   "attention.indexer.key_length": HEAD,
                                   "attention.indexer.top_k": 5}),
    "minicpm3": (1, NORMS | LATENT | LOW_RANK | EXPANDED | GATED, {},
                 LATENT_SIZES | {"attention.q_lora_rank": HEAD, "attention.value_length": RANK}),
    "gemma3n": (3, NORMS | NORMS_AFTER | HEADS_APART | HEAD_NORMS | GATED | STREAMS | {
        "inp_gate.weight": (D, LAYER_WIDTH), "proj.weight": (LAYER_WIDTH, D),
        "post_norm.weight": (D,)},
        {"altup_proj.weight": (D, D, STREAM_COUNT - 1),
         "altup_unembd_proj.weight": (D, D, STREAM_COUNT - 1),
         "per_layer_token_embd.weight": (3 * LAYER_WIDTH, VOCAB),
         "per_layer_model_proj.weight": (D, 3 * LAYER_WIDTH),
         "per_layer_proj_norm.weight": (LAYER_WIDTH,)},
        WINDOW | {"attention.sliding_window_pattern": [1, 0, 1], "attention.shared_kv_layers": 1,
                  "altup.num_inputs": STREAM_COUNT,
                  "activation_sparsity_scale": [0.5, -math.inf, -math.inf]}),
    "gemma4": (4, NORMS | NORMS_AFTER | GATED | HEAD_NORMS | JOINED_EXPERTS | {
        name: shape for name, shape in HEADS_APART.items() if name != "attn_v.weight"} | {
        f"{name}.weight": (D,) for name in ("pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2",
                                            "post_norm")} | {
        "ffn_gate_inp.scale": (D,), "layer_output_scale.weight": (1,),
        "inp_gate.weight": (D, LAYER_WIDTH), "proj.weight": (LAYER_WIDTH, D)},
        {"rope_freqs.weight": (HEAD // 2,), "per_layer_token_embd.weight": (4 * LAYER_WIDTH, VOCAB),
         "per_layer_model_proj.weight": (D, 4 * LAYER_WIDTH),
         "per_layer_proj_norm.weight": (LAYER_WIDTH,)},
        WINDOW | {"attention.sliding_window_pattern": [1, 0, 1, 0], "attention.shared_kv_layers": 2,
                  "embedding_length_per_layer_input": LAYER_WIDTH, "expert_count": EXPERT_COUNT,
                  "expert_used_count": 2}),
    "kimi-linear": (2, NORMS,
                    {f"blk.0.{name}": shape for name, shape in (CHANNEL_DELTA | GATED).items()} | {
                        f"blk.1.{name}": shape for name, shape in (
                            LATENT | ABSORBED | EXPERTS | {"attn_q.weight": (D, HEADS * HEAD),
                            "exp_probs_b.bias": (EXPERT_COUNT,)}).items()},
                    LATENT_SIZES | {"attention.head_count_kv": [0, 1], "kda.head_dim": 3,
                                    "ssm.conv_kernel": 3, "attention.key_length_mla": HEAD,
                                    "attention.value_length_mla": RANK,
                                    "expert_count": EXPERT_COUNT, "expert_used_count": 2}),
    "mistral3": (1, NORMS | HEADS_APART | GATED, {}, {"attention.temperature_scale": 0.1}),
    "rwkv7": (2, TIME_MIX, {f"{norm}.{part}": (D,) for norm in ("output_norm", "token_embd_norm")
                            for part in ("weight", "bias")},
              {"wkv.head_size": 4, "token_shift_count": 2} | {
                  f"attention.{part}_lora_rank": MIX_RANK
                  for part in ("decay", "iclr", "value_residual_mix", "gate")}),
    "llama-apart": (1, NORMS | HEADS_APART | EXPERTS_APART, {},
                    {"expert_count": EXPERT_COUNT, "expert_used_count": 2}),
}
# Architectures of models that have another name, for there is one of theirs already.
OTHER_KINDS = {"llama-apart": "llama"}
LAYER_NORMED = {"bloom", "cohere2", "gptneox", "gpt2", "rwkv7"}


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value(of):
    if isinstance(of, bool):
        return struct.pack("<I?", BOOL, of)
    if isinstance(of, str):
        return struct.pack("<I", STRING) + string(of)
    if isinstance(of, float):
        return struct.pack("<If", FLOAT32, of)
    if isinstance(of, list):
        kind, letter = (FLOAT32, "f") if isinstance(of[0], float) else (UINT32, "I")
        return struct.pack(f"<IIQ{len(of)}{letter}", ARRAY, kind, len(of), *of)
    return struct.pack("<II", UINT32, of)


def model(name):
    layers, of_layer, others, more = MODELS[name]
    architecture = OTHER_KINDS.get(name, name)
    epsilon = "attention.layer_norm_" + ("" if architecture in LAYER_NORMED else "rms_") + "epsilon"
    fields = {"context_length": 64, "embedding_length": D, "block_count": layers,
              "feed_forward_length": FF, "attention.head_count": HEADS,
              "attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD,
              "attention.value_length": HEAD, epsilon: 1e-5} | more
    output_norm = {} if "token_embd_norm.weight" in others else {"output_norm.weight": (D,)}
    tensors = {"token_embd.weight": (D, VOCAB)} | output_norm | others
    for layer in range(layers):
        tensors |= {f"blk.{layer}.{name}": shape for name, shape in of_layer.items()}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields) + 1)
    head += string("general.architecture") + value(architecture)
    for key, of in fields.items():
        head += string(f"{architecture}.{key}") + value(of)
    numbers = random.Random(name)
    data = b""
    for tensor, shape in tensors.items():
        head += string(tensor) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        count = math.prod(shape)
        center = 1 if len(shape) == 1 else 0
        weights = [center + numbers.uniform(-0.5, 0.5) for _ in range(count)]
        data += struct.pack(f"<{count}f", *weights)
        data += bytes(-len(data) % ALIGNMENT)
    return head + bytes(-len(head) % ALIGNMENT) + data


def main():
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        (folder / f"{name}.gguf").write_bytes(model(name))


if __name__ == "__main__":
    main()
