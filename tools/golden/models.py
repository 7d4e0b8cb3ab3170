#!/usr/bin/env python3
"""Golden files of whole models in numpy float64: logits, loss and every gradient. Development only.

    pip install numpy
    models.py src/model/testdata        writes one .safetensors for each row of MODELS

Written from the papers and from the layout of Hugging Face checkpoints, not from Ingot: weights are named and laid
out as there. Gradients come from a tape of hand-written derivatives, and are compared with central differences before
anything is written. Weights are float32 values; everything else is float64.
"""

import json
import math
import os
import struct
import sys

import numpy as np

B, T = 2, 12
GPT2 = {"model_type": "gpt2", "vocab_size": 31, "n_positions": 13, "n_embd": 16, "n_layer": 2, "n_head": 4,
        "n_inner": 40, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "embd_pdrop": 0,
        "resid_pdrop": 0, "attn_pdrop": 0, "tie_word_embeddings": True}
LLAMA = {"model_type": "llama", "vocab_size": 29, "max_position_embeddings": 64, "hidden_size": 16,
         "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 24,
         "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 100.0, "tie_word_embeddings": False,
         "rope_scaling": {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                          "original_max_position_embeddings": 32}}
QWEN = {"model_type": "qwen2", "vocab_size": 29, "max_position_embeddings": 64, "hidden_size": 16,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": 24,
        "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": True}
MODELS = {"tiny_gpt2": GPT2, "tiny_gpt2_erf": dict(GPT2, activation_function="gelu", n_layer=1),
          "tiny_llama": LLAMA, "tiny_qwen2": QWEN}


class Tape:
    """Arrays with gradients: each operation appends a function that adds into the gradients of its inputs."""

    def __init__(self):
        self.steps = []

    def run_backward(self):
        for step in reversed(self.steps):
            step()


class Var:
    def __init__(self, value):
        self.v = value
        self.g = np.zeros_like(value)


def node(tape, value, backward):
    out = Var(value)
    tape.steps.append(lambda: backward(out.g))
    return out


def add(tape, a, b):
    def back(g):
        a.g += g
        b.g += g
    return node(tape, a.v + b.v, back)


def embed(tape, ids, table):
    def back(g):
        np.add.at(table.g, ids, g)
    return node(tape, table.v[ids], back)


def linear(tape, x, w, bias=None):
    """w [out, in]"""
    y = x.v @ w.v.T + (bias.v if bias is not None else 0)

    def back(g):
        flat_g, flat_x = g.reshape(-1, g.shape[-1]), x.v.reshape(-1, x.v.shape[-1])
        x.g += g @ w.v
        w.g += flat_g.T @ flat_x
        if bias is not None:
            bias.g += flat_g.sum(0)
    return node(tape, y, back)


def conv1d(tape, x, w, bias):
    """w [in, out], as GPT-2 keeps it"""
    def back(g):
        flat_g, flat_x = g.reshape(-1, g.shape[-1]), x.v.reshape(-1, x.v.shape[-1])
        x.g += g @ w.v.T
        w.g += flat_x.T @ flat_g
        bias.g += flat_g.sum(0)
    return node(tape, x.v @ w.v + bias.v, back)


def layer_norm(tape, x, w, b, eps):
    centred = x.v - x.v.mean(-1, keepdims=True)
    inverse = 1 / np.sqrt((centred ** 2).mean(-1, keepdims=True) + eps)
    unit = centred * inverse

    def back(g):
        u = g * w.v
        x.g += inverse * (u - u.mean(-1, keepdims=True) - unit * (u * unit).mean(-1, keepdims=True))
        w.g += (g * unit).reshape(-1, unit.shape[-1]).sum(0)
        b.g += g.reshape(-1, unit.shape[-1]).sum(0)
    return node(tape, unit * w.v + b.v, back)


def rms_norm(tape, x, w, eps):
    inverse = 1 / np.sqrt((x.v ** 2).mean(-1, keepdims=True) + eps)
    unit = x.v * inverse

    def back(g):
        u = g * w.v
        x.g += inverse * (u - unit * (u * unit).mean(-1, keepdims=True))
        w.g += (g * unit).reshape(-1, unit.shape[-1]).sum(0)
    return node(tape, unit * w.v, back)


def gelu_tanh(tape, x):
    c = math.sqrt(2 / math.pi)
    t = np.tanh(c * (x.v + 0.044715 * x.v ** 3))

    def back(g):
        x.g += g * (0.5 * (1 + t) + 0.5 * x.v * (1 - t ** 2) * c * (1 + 3 * 0.044715 * x.v ** 2))
    return node(tape, 0.5 * x.v * (1 + t), back)


def gelu_erf(tape, x):
    cdf = 0.5 * (1 + np.vectorize(math.erf)(x.v / math.sqrt(2)))

    def back(g):
        x.g += g * (cdf + x.v * np.exp(-x.v ** 2 / 2) / math.sqrt(2 * math.pi))
    return node(tape, x.v * cdf, back)


def swiglu(tape, gate, up):
    sigmoid = 1 / (1 + np.exp(-gate.v))

    def back(g):
        up.g += g * gate.v * sigmoid
        gate.g += g * up.v * sigmoid * (1 + gate.v * (1 - sigmoid))
    return node(tape, gate.v * sigmoid * up.v, back)


def columns(tape, x, first, count):
    def back(g):
        x.g[..., first:first + count] += g
    return node(tape, x.v[..., first:first + count], back)


def rotary(tape, x, position, head, frequencies):
    """Halves of a head rotate: (x1, x2) -> (x1 cos - x2 sin, x2 cos + x1 sin)."""
    angle = position[..., None, None] * frequencies  # [B, T, 1, D/2]
    cos, sin = np.cos(angle), np.sin(angle)

    def turn(values, sine):
        heads = values.reshape(*values.shape[:2], -1, 2, head // 2)
        first, second = heads[..., 0, :], heads[..., 1, :]
        turned = np.stack([first * cos - second * sine, second * cos + first * sine], axis=-2)
        return turned.reshape(values.shape)

    def back(g):
        x.g += turn(g, -sin)
    return node(tape, turn(x.v, sin), back)


def attention(tape, q, k, v, head, position, doc_start):
    b, t, width = q.v.shape
    heads, kv_heads = width // head, k.v.shape[-1] // head
    group = heads // kv_heads

    def split(values, count):
        return values.reshape(b, t, count, head).transpose(0, 2, 1, 3)

    def join(values):
        return values.transpose(0, 2, 1, 3).reshape(b, t, -1)

    qh = split(q.v, heads)
    kh = np.repeat(split(k.v, kv_heads), group, axis=1)
    vh = np.repeat(split(v.v, kv_heads), group, axis=1)
    key = position[:, None, None, :]
    visible = (doc_start[:, None, :, None] <= key) & (key <= position[:, None, :, None])
    scale = 1 / math.sqrt(head)
    scores = np.where(visible, qh @ kh.transpose(0, 1, 3, 2) * scale, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    p /= p.sum(-1, keepdims=True)

    def back(g):
        gh = split(g, heads)
        dp = gh @ vh.transpose(0, 1, 3, 2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True)) * scale

        def grouped(values):
            return join(values.reshape(b, kv_heads, group, t, head).sum(2))
        q.g += join(ds @ kh)
        k.g += grouped(ds.transpose(0, 1, 3, 2) @ qh)
        v.g += grouped(p.transpose(0, 1, 3, 2) @ gh)
    return node(tape, join(p @ vh), back)


def summed_loss(tape, logits, labels, mask):
    shifted = logits.v - logits.v.max(-1, keepdims=True)
    logp = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    one_hot = np.eye(logits.v.shape[-1])[labels]

    def back(g):
        logits.g += g * mask[..., None] * (np.exp(logp) - one_hot)
    return node(tape, np.array(-(mask * (logp * one_hot).sum(-1)).sum()), back)


def llama_frequencies(config, head):
    inverse = config["rope_theta"] ** (-np.arange(0, head, 2) / head)
    s = config.get("rope_scaling")
    if s is None:
        return inverse
    original, low, high = s["original_max_position_embeddings"], s["low_freq_factor"], s["high_freq_factor"]
    scaled = []
    for f in inverse:
        wavelength = 2 * math.pi / f
        if wavelength < original / high:
            scaled.append(f)
        elif wavelength > original / low:
            scaled.append(f / s["factor"])
        else:
            smooth = (original / wavelength - low) / (high - low)
            scaled.append((1 - smooth) * f / s["factor"] + smooth * f)
    return np.array(scaled)


def gpt2_shapes(c):
    h, f, prefix = c["n_embd"], c["n_inner"], "transformer."
    shapes = {prefix + "wte.weight": (c["vocab_size"], h), prefix + "wpe.weight": (c["n_positions"], h)}
    for layer in range(c["n_layer"]):
        p = f"{prefix}h.{layer}."
        for norm in ("ln_1", "ln_2"):
            shapes[p + norm + ".weight"] = shapes[p + norm + ".bias"] = (h,)
        for name, rows, out in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, f),
                                ("mlp.c_proj", f, h)):
            shapes[p + name + ".weight"], shapes[p + name + ".bias"] = (rows, out), (out,)
    shapes[prefix + "ln_f.weight"] = shapes[prefix + "ln_f.bias"] = (h,)
    return shapes


def gpt2_logits(tape, c, w, batch):
    h, head, eps = c["n_embd"], c["n_embd"] // c["n_head"], c["layer_norm_epsilon"]
    gelu = gelu_tanh if c["activation_function"] == "gelu_new" else gelu_erf
    x = add(tape, embed(tape, batch["tokens"], w["transformer.wte.weight"]),
            embed(tape, batch["position"], w["transformer.wpe.weight"]))

    def norm(x, name):
        return layer_norm(tape, x, w[name + ".weight"], w[name + ".bias"], eps)

    def project(x, name):
        return conv1d(tape, x, w[name + ".weight"], w[name + ".bias"])

    for layer in range(c["n_layer"]):
        p = f"transformer.h.{layer}."
        qkv = project(norm(x, p + "ln_1"), p + "attn.c_attn")
        o = attention(tape, *(columns(tape, qkv, i * h, h) for i in range(3)), head, batch["position"],
                      batch["doc_start"])
        x = add(tape, x, project(o, p + "attn.c_proj"))
        x = add(tape, x, project(gelu(tape, project(norm(x, p + "ln_2"), p + "mlp.c_fc")), p + "mlp.c_proj"))
    return linear(tape, norm(x, "transformer.ln_f"), w["transformer.wte.weight"])


def llama_shapes(c):
    h, f, head = c["hidden_size"], c["intermediate_size"], c["hidden_size"] // c["num_attention_heads"]
    kv = c["num_key_value_heads"] * head
    shapes = {"model.embed_tokens.weight": (c["vocab_size"], h)}
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        shapes[p + "input_layernorm.weight"] = shapes[p + "post_attention_layernorm.weight"] = (h,)
        for name, out in (("q_proj", h), ("k_proj", kv), ("v_proj", kv)):
            shapes[p + f"self_attn.{name}.weight"] = (out, h)
            if c["model_type"] == "qwen2":
                shapes[p + f"self_attn.{name}.bias"] = (out,)
        shapes[p + "self_attn.o_proj.weight"] = (h, h)
        shapes[p + "mlp.gate_proj.weight"] = shapes[p + "mlp.up_proj.weight"] = (f, h)
        shapes[p + "mlp.down_proj.weight"] = (h, f)
    shapes["model.norm.weight"] = (h,)
    if not c["tie_word_embeddings"]:
        shapes["lm_head.weight"] = (c["vocab_size"], h)
    return shapes


def llama_logits(tape, c, w, batch):
    head, eps = c["hidden_size"] // c["num_attention_heads"], c["rms_norm_eps"]
    frequencies = llama_frequencies(c, head)
    x = embed(tape, batch["tokens"], w["model.embed_tokens.weight"])

    def project(x, name):
        return linear(tape, x, w[name + ".weight"], w.get(name + ".bias"))

    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        h = rms_norm(tape, x, w[p + "input_layernorm.weight"], eps)
        q, k = (rotary(tape, project(h, p + f"self_attn.{name}_proj"), batch["position"], head, frequencies)
                for name in "qk")
        v = project(h, p + "self_attn.v_proj")
        o = attention(tape, q, k, v, head, batch["position"], batch["doc_start"])
        x = add(tape, x, project(o, p + "self_attn.o_proj"))
        h = rms_norm(tape, x, w[p + "post_attention_layernorm.weight"], eps)
        up = swiglu(tape, project(h, p + "mlp.gate_proj"), project(h, p + "mlp.up_proj"))
        x = add(tape, x, project(up, p + "mlp.down_proj"))
    x = rms_norm(tape, x, w["model.norm.weight"], eps)
    return linear(tape, x, w["model.embed_tokens.weight" if c["tie_word_embeddings"] else "lm_head.weight"])


def run(config, values, batch):
    """(tape, weights as Var, logits, summed loss)"""
    tape = Tape()
    weights = {name: Var(value.copy()) for name, value in values.items()}
    logits = (gpt2_logits if config["model_type"] == "gpt2" else llama_logits)(tape, config, weights, batch)
    return tape, weights, logits, summed_loss(tape, logits, batch["labels"], batch["loss_mask"])


def check_against_differences(config, values, batch, gradients, random):
    worst, step = 0.0, 1e-5
    for name, value in values.items():
        for _ in range(3):
            at = tuple(int(random.integers(n)) for n in value.shape)
            ends = []
            for sign in (1, -1):
                moved = dict(values, **{name: value.copy()})
                moved[name][at] += sign * step
                ends.append(float(run(config, moved, batch)[3].v))
            difference = (ends[0] - ends[1]) / (2 * step)
            worst = max(worst, abs(difference - gradients[name][at]) / (1 + abs(difference)))
    assert worst < 1e-7, worst
    return worst


def make_batch(random, vocabulary):
    tokens = random.integers(vocabulary, size=(B, T + 1)).astype(np.int32)
    doc_start = np.zeros((B, T), np.int32)
    doc_start[0, 5:] = 5
    doc_start[0, 9:] = 9
    doc_start[1, 1:] = 1
    mask = np.ones((B, T), np.float32)
    mask[0, 3] = mask[1, 0] = mask[1, 11] = 0
    return {"tokens": tokens[:, :-1], "labels": tokens[:, 1:], "loss_mask": mask, "doc_start": doc_start,
            "position": np.tile(np.arange(T, dtype=np.int32), (B, 1))}


def save(path, tensors, metadata):
    names = {np.dtype(np.float64): "F64", np.dtype(np.float32): "F32", np.dtype(np.int32): "I32"}
    header, offset = {"__metadata__": metadata}, 0
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].dtype.itemsize, item[0]))
    for name, array in ordered:
        header[name] = {"dtype": names[array.dtype], "shape": list(array.shape),
                        "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, array in ordered:
            file.write(np.ascontiguousarray(array).tobytes())


def main(folder):
    os.makedirs(folder, exist_ok=True)
    for seed, (name, config) in enumerate(MODELS.items()):
        random = np.random.default_rng(seed)
        shapes = (gpt2_shapes if config["model_type"] == "gpt2" else llama_shapes)(config)
        values = {}
        for weight, shape in shapes.items():
            centre = 1.0 if len(shape) == 1 and weight.endswith("weight") else 0.0
            values[weight] = (centre + 0.25 * random.standard_normal(shape)).astype(np.float32).astype(np.float64)
        batch = make_batch(random, config["vocab_size"])
        whole = dict(batch, doc_start=np.zeros((B, T), np.int32))
        logits = run(config, values, whole)[2].v
        tape, weights, _, loss = run(config, values, batch)
        loss.g += 1
        tape.run_backward()
        gradients = {weight: var.g for weight, var in weights.items()}
        worst = check_against_differences(config, values, batch, gradients, random)
        tensors = {weight: value.astype(np.float32) for weight, value in values.items()}
        tensors.update({"grad." + weight: gradient for weight, gradient in gradients.items()})
        tensors.update({"batch." + field: array for field, array in batch.items()})
        tensors["logits"] = logits
        tensors["loss"] = np.array([float(loss.v), float(batch["loss_mask"].sum())])
        path = os.path.join(folder, name + ".safetensors")
        save(path, tensors, {"config": json.dumps(config), "made_by": "tools/golden/models.py, numpy " + np.__version__})
        print(f"{path}: {os.path.getsize(path)} bytes, loss {float(loss.v):.6f}, differences within {worst:.1e}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
