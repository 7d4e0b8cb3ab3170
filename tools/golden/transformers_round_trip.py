#!/usr/bin/env python3
"""Ingot and transformers against each other, there and back, with tiny models. Development only.

    apt-get install python3-torch python3-venv
    python3 -m venv --system-site-packages VENV && VENV/bin/pip install 'transformers==4.36.2' safetensors
    VENV/bin/python tools/golden/transformers_round_trip.py build/release/bin/ingot TEXT

For a GPT-2 and a Llama with grouped keys, in fp32: a run of 30 steps is exported, and its logits as `ingot generate
--logits` gives them are laid beside those of transformers; then transformers saves a model with weights of its own, a
run starts from that folder (train.init_from) with a learning rate that changes nothing, and the losses of both on the
same tokens are compared. For byte-level BPE trained by us, ids of the exported tokenizer.json are compared with those
of tokenizers. Prints a line each with the largest difference, and exits 1 when one is above its limit.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

SHAPE = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
FAMILIES = {"gpt2": SHAPE, "llama": dict(SHAPE, num_key_value_heads=2)}
T = 64
WINDOWS = 8
RELATIVE = 1e-5  # of logits, by norm
LOSS = 1e-5
HARD = "Don't stop!  12345\u00a0caf\u00e9 e\u0301 \u4f60\u597d\u3002\r\n\r\n\ttabs   and \U0001f469\u200d\U0001f680 emoji\n\n\n end  "


def ingot(binary, *words):
    done = subprocess.run([binary, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stdout}{done.stderr}")
    return done.stdout


def settings(values):
    return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]


def load(folder):
    model, report = AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    wrong = [set(map(str, report[key])) - tied for key in ("missing_keys", "unexpected_keys", "mismatched_keys")]
    if any(wrong) or report.get("error_msgs"):
        sys.exit(f"{folder}: {wrong} {report.get('error_msgs')}")
    return model.eval()


def compare_logits(binary, run, folder, ids):
    worst, error = 0.0, 0.0
    with torch.no_grad():
        theirs = load(folder)(torch.tensor([ids])).logits[0]
    for count in (1, len(ids) // 2, len(ids)):
        ours = torch.tensor(json.loads(ingot(binary, "generate", run, "--logits", ",".join(map(str, ids[:count])))))
        difference = ours - theirs[count - 1]
        worst = max(worst, difference.abs().max().item())
        error = max(error, (difference.norm() / theirs[count - 1].norm()).item())
    return worst, error


def their_loss(model, ids):
    total = 0.0
    with torch.no_grad():
        for first in range(0, WINDOWS * T, T):
            logits = model(torch.tensor([ids[first:first + T]])).logits[0].double()
            total += torch.nn.functional.cross_entropy(logits, torch.tensor(ids[first + 1:first + T + 1])).item()
    return total / WINDOWS


def check_family(binary, family, text, work):
    run, folder, theirs = work / family, work / f"{family}-hf", work / f"{family}-theirs"
    common = {"data.tokenizer": "bytes", "run.precision": "fp32", "train.sequence_length": T,
              "train.global_batch_size": 4}
    shape = {"model.family": family, **{f"model.{key}": value for key, value in FAMILIES[family].items()}}
    ingot(binary, "train", text, "--run-dir", run, "--quiet", *settings({**common, **shape, "train.train_steps": 30}))
    ingot(binary, "export", run, "--to", folder)
    worst, error = compare_logits(binary, run, folder, list(text.read_bytes()[1000:1000 + T]))
    print(f"{family:6} exported: logits differ by at most {worst:.2e}, relative {error:.2e} (limit {RELATIVE:.0e})")

    torch.manual_seed(7)
    model = AutoModelForCausalLM.from_config(load(folder).config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))  # norms and biases too, and a loss that is not ln V
    model.save_pretrained(theirs, safe_serialization=True)
    start = {**common, "model.from": theirs, "train.init_from": theirs, "train.train_steps": 1,
             "optimizer.learning_rate": 1e-30, "schedule.min_lr": 0, "schedule.warmup_steps": 0}
    ingot(binary, "train", text, "--run-dir", work / f"{family}-from", "--quiet", *settings(start))
    part = work / "part.txt"
    part.write_bytes(text.read_bytes()[5000:5000 + WINDOWS * T])  # an end-of-text token follows
    ours = json.loads(ingot(binary, "eval", work / f"{family}-from", "--data", part, "--json"))
    expected = their_loss(model, [*part.read_bytes(), 256])
    difference = abs(ours["loss"] - expected)
    print(f"{family:6} init_from: loss {ours['loss']:.7f} over {ours['tokens']} tokens, transformers {expected:.7f}, "
          f"difference {difference:.1e} (limit {LOSS:.0e})")
    return error <= RELATIVE and difference <= LOSS and ours["tokens"] == WINDOWS * T


def check_tokenizer(binary, text, work):
    good = True
    sample = work / "hard.txt"
    sample.write_text(text.read_text(encoding="utf-8")[:20000] + HARD, encoding="utf-8", newline="")
    for pattern in ("gpt2", "llama3", "qwen2", "o200k"):
        trained, run = work / f"{pattern}.json", work / f"bpe-{pattern}"
        ingot(binary, "data", "tokenizer", "train", "--vocab-size", 1000, "--pattern", pattern, "--out", trained, text)
        ingot(binary, "train", text, "--run-dir", run, "--quiet", *settings({
            "data.tokenizer": trained, "run.precision": "fp32", "train.train_steps": 1, "train.sequence_length": T,
            "train.global_batch_size": 1, "model.family": "gpt2", "model.hidden_size": 16,
            "model.num_hidden_layers": 1, "model.num_attention_heads": 1}))
        ingot(binary, "export", run, "--to", work / f"bpe-{pattern}-hf")
        codec = PreTrainedTokenizerFast(tokenizer_file=str(work / f"bpe-{pattern}-hf" / "tokenizer.json"))
        content = sample.read_bytes().decode()
        theirs = codec.encode(content)
        built = work / f"{pattern}-data"
        ingot(binary, "data", "build", "--tokenizer", trained, "--validation", 0, "--out", built, "--quiet", sample)
        ours = [int(word) for word in ingot(binary, "data", "cat", built, "--ids").replace(",", " ").split()]
        end = ours[-1] != theirs[-1]  # the end-of-text token that a data set has after a document
        same = ours[:len(ours) - end] == theirs and codec.decode(theirs) == content
        print(f"BPE {pattern:7} {len(theirs)} ids of tokenizers, {'the same as ours' if same else 'NOT ours'}")
        good &= same
    return good


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    binary, text = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    transformers.logging.set_verbosity_error()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        good = [check_family(binary, family, text, work) for family in FAMILIES]
        good.append(check_tokenizer(binary, text, work))
    sys.exit(0 if all(good) else 1)


if __name__ == "__main__":
    main()
