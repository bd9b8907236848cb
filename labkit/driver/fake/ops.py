"""The requests a fake rank answers, with what a real one would."""

from __future__ import annotations

import ast
import builtins
import hashlib
import json
import time
import traceback
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy

from ...errors import LabkitError, UsageError
from ...faults import LeaveCell
from ...registry import Registry, unknown
from ...wire import CallSite, CodeError, Outcome, Shown, TensorSample, dumps, loads
from ..transport import Pending, Reply
from . import schedules
from .dist import FakeDist
from .faults import arm
from .tensors import DTYPES, REDUCE, as_tensor
from .turns import Gone

if TYPE_CHECKING:
    from .rank import FakeRank

SHOWN = 64
OPS: Registry[Callable[..., Any]] = Registry("rank op")


def serve(rank: FakeRank, pending: Pending, payload: dict[str, Any], buffers: list[bytes]) -> Reply:
    """Run one request to its end; whatever it raises becomes the outcome."""
    started_s = rank.clock.tick()
    is_cell = pending.op == "cell"
    if is_cell:
        rank.cell, rank.error = payload["cell"], None
    rank.activity, rank.cell_started_s, rank.beat_s = "cell", started_s, started_s
    parts: list[bytes] = []
    known: dict[str, Any] = {"value": None}
    status, error = "ok", None
    try:
        value = OPS[pending.op](rank, pending, buffers, parts, **payload)
        known = {"shown": value} if isinstance(value, Shown) else {"value": value}
    except Gone:
        raise
    except KeyboardInterrupt:
        status = "interrupted"
    except BaseException as raised:  # noqa: BLE001 - whatever a cell raises is its outcome
        status, error = "error", describe(raised)
        rank.error = error if is_cell else rank.error
    exact = pending.op in schedules.REQUESTS  # the seconds of other ranks must not hold a moment of this one's end
    rank.activity, rank.beat_s = "idle", rank.clock.now_s() if exact else rank.clock.tick()
    outcome = Outcome(
        rank.rank, status, output=tuple(pending.output), error=error, elapsed_s=rank.beat_s - started_s, **known,
    )  # fmt: skip
    return Reply(loads(dumps(outcome)), rank.user_names(), parts)  # as if it had crossed a process border


def describe(error: BaseException) -> CodeError:
    """An exception as a record, with the line of the cell."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith("cell ")]
    site = CallSite(frames[-1].filename, frames[-1].lineno or 0, frames[-1].name) if frames else None
    lines = [f'  File "{frame.filename}", line {frame.lineno}, in {frame.name}\n' for frame in frames]
    kind = type(error).__name__ if isinstance(error, LabkitError) else type(error).__qualname__
    return CodeError(kind, str(error), site, "".join([*lines, *traceback.format_exception_only(error)]))


# ---- cells
@OPS.register("cell")
def _cell(rank: FakeRank, pending: Pending, _: Any, __: Any, *, code: str, cell: int) -> Shown | None:
    name = f"cell {cell}"
    tree = ast.parse(code, name)
    last = tree.body[-1] if tree.body else None
    shows = isinstance(last, ast.Expr) and not code.rstrip().endswith(";")
    namespace = rank.namespace
    namespace["__builtins__"] = {**vars(builtins), "print": _printer(pending), "__import__": _importer(rank)}
    rank.begin_cell()
    value = None
    try:
        exec(compile(ast.Module(tree.body[:-1] if shows else tree.body, []), name, "exec"), namespace)  # noqa: S102
        if shows and isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), name, "eval"), namespace)  # noqa: S307
        for interceptor in list(rank.interceptors):
            interceptor.end_of_cell()
    except LeaveCell:
        return None
    return None if value is None else Shown(repr(value), type(value).__name__)


def _printer(pending: Pending) -> Callable[..., None]:
    def write(*values: Any, sep: str = " ", end: str = "\n", **_: Any) -> None:
        pending.add_output("stdout", sep.join(map(str, values)) + end)

    return write


def _importer(rank: FakeRank) -> Callable[..., Any]:
    """`import torch` in a cell gives the fake one, and `time` runs on the world's clock."""
    now = rank.clock.now_s
    clock = SimpleNamespace(
        **{**vars(time), "sleep": rank.sleep, "monotonic": now, "perf_counter": now, "time": now}
    )  # fmt: skip

    def load(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "time":
            return clock
        if name.partition(".")[0] != "torch":
            return builtins.__import__(name, *args, **kwargs)
        torch, fromlist = rank.namespace["torch"], args[2] if len(args) > 2 else kwargs.get("fromlist")
        if name not in ("torch", "torch.distributed"):
            raise UsageError(f"a fake rank has no {name}", hint="try this cell in a real world")
        return torch.distributed if fromlist and name == "torch.distributed" else torch

    return load


# ---- variables
def _find(rank: FakeRank, name: str) -> Any:
    if name.isidentifier() and name in rank.namespace:
        return rank.namespace[name]
    base = name.replace("[", ".").split(".", 1)[0].strip()
    if base not in rank.namespace:
        raise unknown("variable", base, rank.user_names())
    return eval(compile(name, "name", "eval"), rank.namespace)  # noqa: S307 - the learner's own expression


@OPS.register("sample")
def _sample(rank: FakeRank, *_: Any, name: str, limit: int = SHOWN) -> Any:
    if name.replace("[", ".").split(".", 1)[0].strip() not in rank.namespace:
        return {"missing": rank.user_names()}
    value = _find(rank, name)
    try:
        array = numpy.ascontiguousarray(value)
        flat = array.reshape(-1).astype(numpy.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{name} is a {type(value).__name__}, not a tensor", hint="use world.pull") from None
    step = max(1, -(-flat.size // limit))
    op, before = rank.before.get(id(value), ("", None))
    finite = flat[~numpy.isnan(flat)]
    least, most, mean = (float(finite.min()), float(finite.max()), float(finite.mean())) if finite.size else (None, None, None)
    return TensorSample(
        rank.rank, name, tuple(array.shape), array.dtype.name, "cpu", int(array.nbytes), tuple(flat[::step].tolist()),
        tuple(range(0, flat.size, step)), tuple(before.reshape(-1)[::step].tolist()) if before is not None else None, op,
        least, most, mean, int(flat.size - finite.size), hashlib.blake2b(array.tobytes(), digest_size=12).hexdigest(),
    )  # fmt: skip


@OPS.register("pull")
def _pull(rank: FakeRank, _: Any, __: Any, parts: list[bytes], *, name: str, limit_bytes: int = 0) -> Any:
    value = _find(rank, name)
    if isinstance(value, numpy.ndarray):
        parts.append(value.tobytes())
        return {"kind": "array", "dtype": value.dtype.str, "shape": list(value.shape)}
    try:
        text = json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return {"kind": "shown", "type": type(value).__name__, "text": repr(value)[:2000], "cut": 0}
    return {"kind": "json", "text": text}


@OPS.register("push")
def _push(rank: FakeRank, _: Any, buffers: list[bytes], __: Any, *, values: dict[str, str], arrays: dict[str, Any]) -> None:
    for name, text in values.items():
        rank.namespace[name] = json.loads(text)
    for (name, form), data in zip(arrays.items(), buffers, strict=True):
        rank.namespace[name] = as_tensor(numpy.frombuffer(data, numpy.dtype(form["dtype"])).reshape(form["shape"]).copy())


# ---- the rest
@OPS.register("arm")
def _arm(rank: FakeRank, *_: Any, fault: str, params: dict[str, Any]) -> None:
    rank.interceptors.append(arm(fault, rank, params))


@OPS.register("disarm")
def _disarm(rank: FakeRank, *_: Any) -> dict[str, int]:
    for interceptor in rank.interceptors:
        interceptor.end_of_cell()
    rank.interceptors.clear()
    return {"fired": rank.num_fired}


@OPS.register("mode")
def _mode(rank: FakeRank, *_: Any, mode: str) -> None:
    rank.mode = mode


@OPS.register("ping")
def _ping(rank: FakeRank, *_: Any) -> dict[str, Any]:
    return {"rank": rank.rank, "pid": int(rank.pid), "device": "cpu", "generation": rank.generation}


@OPS.register("all_reduce")
def _all_reduce(rank: FakeRank, *_: Any, numel: int = 4, reduce_op: str = "sum", dtype: str = "float32") -> list[float]:
    if reduce_op.upper() not in REDUCE:
        raise unknown("reduce op", reduce_op, [name.lower() for name in REDUCE])
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    tensor = as_tensor(numpy.full(numel, rank.rank + 1, dtype))
    FakeDist(rank).all_reduce(tensor, op=reduce_op.upper())
    return [float(value) for value in tensor[:16].tolist()]


# ---- schedules
@OPS.register("schedule")
def _schedule(rank: FakeRank, *_: Any, **payload: Any) -> dict[str, Any]:
    try:
        return schedules.schedule(rank, **payload)
    except LabkitError:
        raise
    except Exception as error:
        rank.error = describe(error)  # for whoever asks why others wait for this rank
        raise


@OPS.register("compare_schedules")
def _compare_schedules(rank: FakeRank, *_: Any, **payload: Any) -> dict[str, Any]:
    return schedules.compare_schedules(rank, **payload)


@OPS.register("sweep_point")
def _sweep_point(rank: FakeRank, *_: Any, **payload: Any) -> list[list[float]]:
    return schedules.sweep_point(rank, **payload)
