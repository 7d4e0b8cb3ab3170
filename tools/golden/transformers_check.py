#!/usr/bin/env python3
"""Loads an exported folder with transformers and prints logits as JSON, to lay beside Ingot's. Development only.

    apt-get install python3-torch python3-venv
    python3 -m venv --system-site-packages VENV && VENV/bin/pip install 'transformers==4.36.2' safetensors
    transformers_check.py FOLDER --ids 1,2,3 [--last] [--against LOGITS.json] [--tolerance 1e-5]
    transformers_check.py FOLDER --resave OTHER [--dtype bfloat16] [--shard-size 1MB]    writes it as transformers does

Prints {"model_type", "parameters", "dtype", "ids", "logits": [[float, ...] per position]}; with --last only the last
position. --against compares with such a file (or with one that holds only "logits") by ||a - b|| / ||b|| and exits 1
above the tolerance. Weights that are missing, unexpected or mis-shaped are errors; tied ones are not missing.
"""

import argparse
import json
import math
import sys

import torch
from transformers import AutoModelForCausalLM


def load(folder, dtype):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True, torch_dtype=dtype)
    wrong = {key: sorted(map(str, value)) for key, value in report.items() if value and key != "error_msgs"}
    if model.config.tie_word_embeddings and "missing_keys" in wrong:
        wrong["missing_keys"] = [name for name in wrong["missing_keys"] if name != "lm_head.weight"]
    wrong = {key: value for key, value in wrong.items() if value}
    if wrong or report.get("error_msgs"):
        sys.exit(f"{folder}: {wrong} {report.get('error_msgs')}")
    return model.eval()


def relative_error(a, b):
    if len(a) != len(b) or any(len(x) != len(y) for x, y in zip(a, b)):
        sys.exit("the two hold different numbers of positions or of tokens")
    difference = math.sqrt(sum((x - y) ** 2 for row, other in zip(a, b) for x, y in zip(row, other)))
    return difference / math.sqrt(sum(y * y for row in b for y in row))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ids", help="token ids, separated by commas")
    parser.add_argument("--last", action="store_true")
    parser.add_argument("--against")
    parser.add_argument("--tolerance", type=float, default=1e-5)
    parser.add_argument("--resave")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--shard-size", default="10GB")
    arguments = parser.parse_args()

    model = load(arguments.folder, getattr(torch, arguments.dtype))
    if arguments.resave:
        model.save_pretrained(arguments.resave, safe_serialization=True, max_shard_size=arguments.shard_size)
    if not arguments.ids:
        return
    ids = [int(word) for word in arguments.ids.split(",")]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].double()
    if arguments.last:
        logits = logits[-1:]
    out = {
        "model_type": model.config.model_type,
        "parameters": sum(p.numel() for p in model.parameters()),
        "dtype": arguments.dtype,
        "ids": ids,
        "logits": logits.tolist(),
    }
    if not arguments.against:
        json.dump(out, sys.stdout)
        print()
        return
    with open(arguments.against, encoding="utf-8") as file:
        other = json.load(file)["logits"]
    error = relative_error(other, out["logits"])
    print(f"relative error of the logits {error:.3g}, tolerance {arguments.tolerance:.3g}")
    sys.exit(0 if error <= arguments.tolerance else 1)


if __name__ == "__main__":
    main()
