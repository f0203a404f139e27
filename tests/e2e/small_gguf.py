"""Writes small GGUF files: a llama of one layer, and what can be wrong with one."""
import struct

UINT32, FLOAT32, STRING = 4, 6, 8
F32 = 0
ALIGNMENT = 32

D_MODEL, D_FF, N_VOCAB, HEADS = 32, 64, 48, 2

FIELDS = {
    "general.architecture": "llama",
    "llama.context_length": 64,
    "llama.embedding_length": D_MODEL,
    "llama.block_count": 1,
    "llama.feed_forward_length": D_FF,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": HEADS,
    "llama.attention.layer_norm_rms_epsilon": 1e-5,
    "tokenizer.ggml.model": "none",
}

# Dimensions as the file has them: the contiguous one first.
TENSORS = {
    "token_embd.weight": (D_MODEL, N_VOCAB),
    "output_norm.weight": (D_MODEL,),
    "blk.0.attn_norm.weight": (D_MODEL,),
    "blk.0.attn_q.weight": (D_MODEL, D_MODEL),
    "blk.0.attn_k.weight": (D_MODEL, D_MODEL),
    "blk.0.attn_v.weight": (D_MODEL, D_MODEL),
    "blk.0.attn_output.weight": (D_MODEL, D_MODEL),
    "blk.0.ffn_norm.weight": (D_MODEL,),
    "blk.0.ffn_gate.weight": (D_MODEL, D_FF),
    "blk.0.ffn_up.weight": (D_MODEL, D_FF),
    "blk.0.ffn_down.weight": (D_FF, D_MODEL),
}


def _string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value):
    if isinstance(value, str):
        return struct.pack("<I", STRING) + _string(value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    return struct.pack("<II", UINT32, value)


def write(path, fields=None, tensors=None):
    """Writes the model with `fields` and `tensors` in place of its own (None: left out). All weights
    are zero and take no room on disk, however many they are."""
    fields = {k: v for k, v in (FIELDS | (fields or {})).items() if v is not None}
    tensors = {k: v for k, v in (TENSORS | (tensors or {})).items() if v is not None}
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for key, value in fields.items():
        head += _string(key) + _value(value)
    offset = 0
    for name, dims in tensors.items():
        head += _string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, F32, offset)
        size = 4
        for dim in dims:
            size *= dim
        offset += -(-size // ALIGNMENT) * ALIGNMENT
    head += bytes(-len(head) % ALIGNMENT)
    with open(path, "wb") as file:
        file.write(head)
        file.truncate(len(head) + offset)
    return path
