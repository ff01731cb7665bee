#!/usr/bin/env python3
"""Times PyTorch on a list that `cargo xtask bench --random SEED --save LIST` wrote, and prints the lines of `cargo xtask bench`.

    python tests/bench/pytorch.py LIST [--filter REGEX] [--threads N] [--budget-ms MS]

Needs torch. Inputs, warm-up and samples are those of tests/src/bench: compare ratios of one run on one machine.
"""
import argparse
import json
import os
import re
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("list")
parser.add_argument("--filter", default="")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--budget-ms", type=float, default=400)
args = parser.parse_args()
os.environ.setdefault("OMP_NUM_THREADS", str(args.threads))
os.environ.setdefault("OMP_PROC_BIND", "close")
os.environ.setdefault("OMP_PLACES", "cores")

import torch
import torch.nn.functional as F

torch.set_num_threads(args.threads)
DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16}


def timed(run):
    """The least and the median nanoseconds of samples of about 2 ms."""
    def sample(count):
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    once = min(sample(1) for _ in range(3))
    count = max(1, int(0.002 / max(once, 1e-9)))
    samples, start = [], time.perf_counter()
    while len(samples) < 5 or (time.perf_counter() - start) * 1e3 < args.budget_ms and len(samples) < 300:
        samples.append(sample(count))
    samples.sort()
    return samples[0] * 1e9, samples[len(samples) // 2] * 1e9, len(samples)


def inputs(work):
    make = torch.rand if work.get("init") == "uniform01" else torch.randn
    return [make(shape).to(DTYPES[work["dtype"]]) for shape in work["shapes"]]


def elementwise(op, x, work):
    a, b, c = (x + x + x)[:3] if len(x) == 1 else (x + [x[-1]])[:3]
    mask = x[0] > 0
    return {
        "add": lambda: a + b, "mul": lambda: a * b, "exp": lambda: a.exp(), "tanh": lambda: a.tanh(),
        "gelu": lambda: F.gelu(a), "relu": lambda: a.relu(), "sigmoid": lambda: a.sigmoid(), "pow2": lambda: a.pow(2),
        "sqrt": lambda: a.sqrt(), "where": lambda: torch.where(mask, b, c), "lt": lambda: a < b,
        "cast_bf16": lambda: a.to(torch.bfloat16), "add_": lambda: a.add_(b), "mul_add": lambda: a * b + c,
        "fill_": lambda: a.fill_(1.5), "arange": lambda: torch.arange(0, len(a), dtype=torch.float32),
        "add_rowbcast": lambda: a + b, "add_colbcast": lambda: a + b, "add_transposed": lambda: a + b.t(),
        "add_strided": lambda: a[:, ::2] + b[:, ::2], "copy_transposed": lambda: a.t().contiguous(),
    }[op]


def reduction(op, x, work):
    a = x[0]
    if op == "cross_entropy":
        target = torch.randint(0, a.shape[1], work["shapes"][1])
        return lambda: F.cross_entropy(a, target)
    return {
        "sum": lambda: a.sum(), "mean": lambda: a.mean(), "max": lambda: a.max(), "argmax": lambda: a.argmax(),
        "norm": lambda: a.norm(), "sum_dim0": lambda: a.sum(0), "sum_dim1": lambda: a.sum(1), "max_dim1": lambda: a.max(1),
        "argmax_dim1": lambda: a.argmax(1), "var_dim1": lambda: a.var(1), "cumsum_dim1": lambda: a.cumsum(1),
        "softmax": lambda: a.softmax(-1), "log_softmax": lambda: a.log_softmax(-1), "sort": lambda: a.sort(),
        "layer_norm": lambda: F.layer_norm(a, a.shape[-1:], x[1], x[2]), "topk": lambda: a.topk(work.get("k", 1)),
    }[op]


def matmul(op, x, work):
    a, b = x[:2]
    return {"mm_tn": lambda: a.t() @ b, "mm_nt": lambda: a @ b.t(), "linear_bias": lambda: F.linear(*x)}.get(op, lambda: a @ b)


def nn(op, x, work):
    a = x[0]
    if op == "embedding":
        index = torch.randint(0, a.shape[0], work["shapes"][1])
        return lambda: F.embedding(index, a)
    if op == "lstm_cell":
        cell = torch.nn.LSTMCell(a.shape[1], work["hidden"])
        return lambda: cell(a, (x[1], x[2]))[1]
    if op == "batch_norm2d":
        mean, var = torch.zeros_like(x[1]), torch.ones_like(x[1])
        return lambda: F.batch_norm(a, mean, var, x[1], x[2], training=True)
    if op == "max_pool2d":
        return lambda: F.max_pool2d(a, 2)
    if op == "sdpa_causal":
        return lambda: F.scaled_dot_product_attention(*x, is_causal=True)
    convolution = F.conv1d if op == "conv1d" else F.conv2d
    return lambda: convolution(*x, padding=work["padding"], groups=work["groups"])


def indexing(op, x, work):
    a, shapes = x[0], work["shapes"]
    below = lambda size, shape: torch.randint(0, size, shape)
    if op == "nonzero":
        a = (a > 0).float()
        return lambda: a.nonzero()
    if op == "index_select":
        index = below(shapes[0][0], shapes[1])
        return lambda: a.index_select(0, index)
    if op == "gather":
        index = below(shapes[0][1], shapes[1])
        return lambda: a.gather(1, index)
    if op == "scatter_add":
        index = below(shapes[0][0], shapes[1])
        return lambda: a.scatter_add_(0, index, x[1])
    if op == "masked_select":
        mask = x[1] > 0
        return lambda: a.masked_select(mask)
    if op == "index_2d":
        i, j = below(shapes[0][0], shapes[1]), below(shapes[0][1], shapes[1])
        return lambda: a[i, j]
    if op == "index_put_acc":
        index, values = below(shapes[0][0], shapes[1]), torch.randn(shapes[1][0], shapes[0][1])
        return lambda: a.index_put_((index,), values, accumulate=True)
    return {"cat_dim0": lambda: torch.cat(x, 0), "cat_dim1": lambda: torch.cat(x, 1), "stack": lambda: torch.stack(x, 0)}[op]


GROUPS = {"elementwise": elementwise, "reduction": reduction, "matmul": matmul, "nn": nn, "indexing": indexing}


def job(work):
    base = work["op"].removesuffix("_fwdbwd")
    with torch.no_grad():
        x = inputs(work)
        forward = GROUPS[work["group"]](base, x, work)
        if base == work["op"]:
            def run():
                with torch.no_grad():
                    forward()
            return run
    # Indices are no leaves; the embedding's weight is the first input.
    leaves = x[:1] if base in ("embedding", "cross_entropy") else x
    for leaf in leaves:
        leaf.requires_grad_()
    result = forward()
    grad = torch.randn_like(result) if result.dim() else None

    def both_ways():
        for leaf in leaves:
            leaf.grad = None
        forward().backward(grad)
    return both_ways


for work in json.load(open(args.list)):
    if work["group"] in GROUPS and re.search(args.filter, work["name"]):
        torch.manual_seed(0)
        least, median, runs = timed(job(work))
        line = {"name": work["name"], "impl": "torch", "min_ns": round(least, 1), "median_ns": round(median, 1), "runs": runs}
        print(json.dumps(line), flush=True)
