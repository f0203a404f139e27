"""Makes every_type.gguf with gguf-py: a field and an array of every type, a few tensors.

usage: python make_every_type.py OUT.gguf     (needs gguf and numpy; read by gguf_golden_test.cc)
"""
import sys

import gguf
import numpy as np

Type = gguf.GGUFValueType

SCALARS = [
    ("uint8", Type.UINT8, 200),
    ("int8", Type.INT8, -100),
    ("uint16", Type.UINT16, 60000),
    ("int16", Type.INT16, -30000),
    ("uint32", Type.UINT32, 4000000000),
    ("int32", Type.INT32, -2000000000),
    ("float32", Type.FLOAT32, 0.1),
    ("bool_true", Type.BOOL, True),
    ("bool_false", Type.BOOL, False),
    ("string", Type.STRING, "grüß dich, 世界"),
    ("uint64", Type.UINT64, 2**64 - 1),
    ("int64", Type.INT64, -(2**63)),
    ("float64", Type.FLOAT64, 1e300),
]

ARRAYS = [
    ("uint8s", Type.UINT8, [0, 255]),
    ("int8s", Type.INT8, [-128, 127]),
    ("uint16s", Type.UINT16, [0, 65535]),
    ("int16s", Type.INT16, [-32768, 32767]),
    ("uint32s", Type.UINT32, [0, 2**32 - 1]),
    ("int32s", Type.INT32, [-(2**31), 2**31 - 1]),
    ("float32s", Type.FLOAT32, [0.5, -1.25, 3e38]),
    ("bools", Type.BOOL, [True, False, True]),
    ("strings", Type.STRING, ["a", "", "ß", "世界"]),
    ("raw_strings", Type.STRING, [b"\xff\xfe", b"ok"]),
    ("uint64s", Type.UINT64, [0, 2**63 - 1]),
    ("int64s", Type.INT64, [-(2**63), 2**63 - 1]),
    ("float64s", Type.FLOAT64, [0.25, -1e10]),
    ("nested", Type.ARRAY, [[1, 2, 3], [4]]),
]


def main():
    writer = gguf.GGUFWriter(sys.argv[1], "llama")
    for name, value_type, value in SCALARS:
        writer.add_key_value(f"test.{name}", value, value_type)
    for name, value_type, values in ARRAYS:
        writer.add_key_value(f"test.{name}", values, Type.ARRAY, sub_type=value_type)
    writer.add_tensor("f32", np.arange(6, dtype=np.float32).reshape(2, 3))
    writer.add_tensor("f16", np.arange(4, dtype=np.float16))
    writer.add_tensor("i32", np.arange(8, dtype=np.int32).reshape(2, 2, 2))
    q8_0 = gguf.GGMLQuantizationType.Q8_0
    rows = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 32)
    writer.add_tensor("q8_0", gguf.quants.quantize(rows, q8_0), raw_dtype=q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
