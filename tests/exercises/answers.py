"""What people write in the exercises of lab 09, right and wrong, and the cells that it makes.

`tests/data/make_evidence.py lab09` runs these cells on three ranks and keeps what came of them in tests/data/lab09.jsonl.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from labkit.exercises.clinic import CASES
from labkit.faults import FAULTS
from labkit.labs import BEGIN, END, RANK_STUB, source_of

LAB = Path(__file__).resolve().parent.parent.parent / "labs" / "09-when-it-hangs.ipynb"
SEEN = {
    "order": ("swapped-order", "hang"),
    "data": ("leaves-early", "hang"),
    "raised": ("rank-raises", "hang"),
    "twins": ("swapped-twins", "silent"),
    "size": ("shape-mismatch", "abort"),
    "slow": ("slow", "slow"),
}
MENDED = ("order", "data", "raised", "twins", "size")

ALSO_RIGHT = {
    "order": ["calls['scale'](tensors['scale'])\ncalls['grad'](tensors['grad'])"],
    "data": ["steps = 3\ndist.all_reduce(torch.zeros(1))", "dist.barrier()\nsteps = len(samples) // world_size"],
    "raised": [
        "good = torch.ones(1)\ntry:\n    load()\nexcept OSError:\n    good = torch.zeros(1)\ndist.all_reduce(good)",
    ],
    "twins": [
        """flat = torch.cat([grads["weight"], grads["bias"]])
dist.all_reduce(flat)
grads = {"weight": flat[:4], "bias": flat[4:]}""",
    ],
    "size": [
        """total, count = batch.sum(), torch.tensor(float(len(batch)))
dist.all_reduce(total)
dist.all_reduce(count)
mean = total / count""",
    ],
}

WRONG = {
    "order": {
        "as it was": "for name in names:\n    calls[name](tensors[name])",
        "one call left out": "calls['grad'](tensors['grad'])",
        "left out on one rank": "for name in sorted(names)[: 1 if rank == 1 else 2]:\n    calls[name](tensors[name])",
        "no call at all": "pass",
        "twice": "for name in sorted(names) * 2:\n    calls[name](tensors[name])",
        "the other root": "dist.all_reduce(tensors['grad'])\ndist.broadcast(tensors['scale'], src=1)",
        "a typing mistake": "for name in sorted(nams):\n    calls[name](tensors[name])",
    },
    "data": {
        "as it was": "steps = len(mine)",
        "the most": "steps = torch.tensor(len(mine))\ndist.all_reduce(steps, op=dist.ReduceOp.MAX)",
        "the sum": "steps = torch.tensor(len(mine))\ndist.all_reduce(steps)",
        "none": "steps = 0",
        "too few": "steps = 2\ndist.all_reduce(torch.zeros(1))",
        "asked on one rank only": "steps = torch.tensor(3)\nif rank == 0:\n    dist.all_reduce(steps, op=dist.ReduceOp.MIN)",
    },
    "raised": {
        "as it was": "batch = load()\ngood = torch.ones(1)\ndist.all_reduce(good)",
        "caught, and gone": "good = torch.ones(1)\ntry:\n    load()\n    dist.all_reduce(good)\nexcept OSError:\n    pass",
        "hushed up": "good = torch.ones(1)\ntry:\n    load()\nexcept OSError:\n    pass\ndist.all_reduce(good)",
        "known beforehand": "good = torch.full((1,), world_size - 1.0)",
        "no talk": "good = torch.full((1,), float(rank < world_size - 1))",
    },
    "twins": {
        "as it was": "for name in names:\n    dist.all_reduce(grads[name])",
        "one forgotten": "dist.all_reduce(grads['weight'])",
        "known beforehand": "grads = {'weight': torch.full((4,), 10.0), 'bias': torch.full((4,), 1000.0)}",
        "a flat buffer in the order of arrival": (
            "flat = torch.cat([grads[name] for name in names])\ndist.all_reduce(flat)\n"
            "grads = {'weight': flat[:4], 'bias': flat[4:]}"
        ),
        "swapped everywhere": "for name in sorted(grads):\n    dist.all_reduce(grads[name])\n"
        "grads = {'weight': grads['bias'], 'bias': grads['weight']}",
    },
    "size": {
        "as it was": "dist.all_reduce(batch)\nmean = batch.mean() / world_size",
        "the mean of the means": "mean = batch.mean()\ndist.all_reduce(mean)\nmean = mean / world_size",
        "the sum": "mean = batch.sum()\ndist.all_reduce(mean)",
        "its own": "mean = batch.mean()",
        "four each": "mean = batch.sum()\ndist.all_reduce(mean)\nmean = mean / (4 * world_size)",
    },
}

PADDED = """samples = list(range(1, 4 * world_size))
mine = samples[rank::world_size]
mine += [0] * (4 - len(mine))
total = torch.zeros(1)
for sample in mine:
    part = torch.tensor([float(sample)])
    dist.all_reduce(part)
    total += part
total.item()"""


def cell_of(exercise: str) -> str:
    """The text that the notebook gives to the ranks."""
    cells = {cell["id"]: source_of(cell) for cell in json.loads(LAB.read_text())["cells"]}
    found = re.search(r'"""(.*)"""', cells[f"{exercise}-mended"], flags=re.S)
    assert found
    return found[1]


def with_answer(exercise: str, answer: str) -> str:
    """The exercise's cell with somebody's lines in the place of the solution."""
    return re.sub(f"{BEGIN}.*{END}", answer.replace("\\", r"\\"), cell_of(exercise), flags=re.S)


def changed_last_line() -> str:
    return cell_of("size") + "torch"


def all_cells() -> Iterator[str]:
    """Every cell that the tests of lab 09 need the outcome of."""
    for exercise in MENDED:
        yield cell_of(exercise)
        yield with_answer(exercise, RANK_STUB)
        for answer in (*ALSO_RIGHT[exercise], *WRONG[exercise].values()):
            yield with_answer(exercise, answer)
    yield from (PADDED, changed_last_line(), "1")
    yield from (case.code for case in CASES)
    yield from (FAULTS[fault].demo for fault, _ in SEEN.values())


def key_of(code: str) -> str:
    """A cell without its comments and blank lines: a recording of it holds until its code changes."""
    return ast.unparse(ast.parse(code))
