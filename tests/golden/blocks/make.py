"""Makes the goldens of this folder: random bytes as blocks, and the floats gguf-py reads in them.

NAME.bin: 4 blocks of 256 or 16 of 32 or 64 elements, random bytes from a fixed seed, so that every
field takes values that no quantizer writes. NAME.f32: what `gguf.quants.dequantize` makes of them.
Needs numpy and a gguf package that knows NVFP4 (llama.cpp's gguf-py of 2026).
"""

import pathlib

import gguf
import numpy as np

NAMES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S
IQ3_XXS IQ3_S IQ4_NL IQ4_XS TQ1_0 TQ2_0 MXFP4 NVFP4""".split()

folder = pathlib.Path(__file__).parent
random = np.random.default_rng(20)
for name in NAMES:
    kind = gguf.GGMLQuantizationType[name]
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (4 if elements == 256 else 16) * size, dtype=np.uint8)
    with np.errstate(invalid="ignore"):
        values = gguf.quants.dequantize(blocks, kind).astype("<f4")
    blocks.tofile(folder / f"{name}.bin")
    values.tofile(folder / f"{name}.f32")
