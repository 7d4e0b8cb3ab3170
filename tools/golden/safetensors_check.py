#!/usr/bin/env python3
"""Compares Ingot's safetensors with the Python library's, both ways. Development only.

    pip install safetensors numpy ml_dtypes
    safetensors_check.py make tests/golden/safetensors/python.safetensors    the golden file of safetensors_test.cc
    safetensors_check.py read FILE...            reads files that Ingot wrote; prints name, type, shape, sum
    safetensors_check.py checkpoint FOLDER       reads a checkpoint and compares each XXH3-64 with its manifest
                                                 (pip install xxhash)
"""

import json
import os
import sys

import ml_dtypes
import numpy
from safetensors import safe_open
from safetensors.numpy import save_file

SHAPES = {
    "b16": (ml_dtypes.bfloat16, (3, 5)),
    "f16": (numpy.float16, (7,)),
    "f32": (numpy.float32, (2, 3, 4)),
    "f64": (numpy.float64, (5, 1)),
    "i32": (numpy.int32, (11,)),
    "i64": (numpy.int64, ()),
    "odd.u8": (numpy.uint8, (13,)),
    "u16": (numpy.uint16, (3, 3)),
}


def make(path):
    tensors = {}
    for k, (name, (dtype, shape)) in enumerate(sorted(SHAPES.items())):
        count = int(numpy.prod(shape, dtype=numpy.int64))
        values = (numpy.arange(count) * 7 + k * 3) % 13
        if not name.endswith(("u8", "u16")):
            values = values - 6
        tensors[name] = values.reshape(shape).astype(dtype)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    save_file(tensors, path, metadata={"written_by": "safetensors for Python"})


def read(path):
    with safe_open(path, framework="numpy") as file:
        print(path, file.metadata())
        for name in file.keys():
            tensor = file.get_tensor(name)
            total = tensor.astype(numpy.float64).sum()
            print(f"  {name} {tensor.dtype} {list(tensor.shape)} sum {total!r}")


def checkpoint(folder):
    import xxhash

    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    for entry in manifest["files"]:
        path = os.path.join(folder, entry["name"])
        with open(path, "rb") as file:
            data = file.read()
        assert len(data) == entry["bytes"], path
        assert xxhash.xxh3_64_hexdigest(data) == entry["xxh3_64"], path
        if "tensors" not in entry:
            continue
        read(path)
        with safe_open(path, framework="numpy") as opened:
            assert sorted(opened.keys()) == sorted(t["name"] for t in entry["tensors"]), path
            for tensor in entry["tensors"]:
                part = data[tensor["offset"] : tensor["offset"] + tensor["bytes"]]
                assert xxhash.xxh3_64_hexdigest(part) == tensor["xxh3_64"], tensor["name"]
                assert opened.get_tensor(tensor["name"]).tobytes() == part, tensor["name"]
    print(f"{folder}: every hash and every tensor agrees")


if __name__ == "__main__":
    if len(sys.argv) < 3 or sys.argv[1] not in ("make", "read", "checkpoint"):
        sys.exit(__doc__)
    for argument in sys.argv[2:]:
        {"make": make, "read": read, "checkpoint": checkpoint}[sys.argv[1]](argument)
