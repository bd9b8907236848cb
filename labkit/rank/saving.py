"""Writes a rank's variables to one file, and reads them into the namespace of the rank that takes its place.

All variables pass one pickler, so what they share stays shared: an optimizer still owns the parameters of its model. Each
name has a piece of the stream of its own. So a variable that can't be written, or can't be read, costs no other one, except
those that hold it. Functions and classes of cells go by value and get the new rank's namespace as their globals. Numbers
of tensors lie beside the stream, and are written straight from the memory they are in.

    header (a pickle of plain values) | the bytes of each storage | the stream's pieces
"""

from __future__ import annotations

import io
import itertools
import os
import pickle
import pickletools
import random
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import FunctionType, GeneratorType
from typing import Any, BinaryIO

import cloudpickle  # type: ignore[import-untyped]
import numpy
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.storage import TypedStorage, UntypedStorage

from .remaking import ddp_options, group_of, make_ddp, place_of

VALUES_ONLY = "only its values: backward() can't pass through it any more"
STATE, GRADIENTS = "\0state", "\0gradients"  # names that no variable has
_CANNOT = re.compile(r"cannot pickle '(?:[\w.]+\.)?(\w+)' object")
_FILES = (io.TextIOWrapper, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.RawIOBase)
_IDENTITY = re.compile(r"LABKIT_|(?:LOCAL_)?RANK$|WORLD_SIZE$|OMP_NUM_THREADS$")


class NotKept(Exception):
    """This kind of thing can't be taken to another process."""


@dataclass
class Saved:
    """What came of it: the names that are there, and why others are not; `remarks` say what of a name is missing."""

    names: list[str] = field(default_factory=list)
    lost: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, str] = field(default_factory=dict)


class _Pickler(cloudpickle.Pickler):  # type: ignore[misc]
    """Knows tensors, process groups and the namespace; says in words what it can't take."""

    def __init__(self, file: BinaryIO, namespace: dict[str, Any]) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._namespace = namespace
        self.globals_ref[id(namespace)] = namespace  # cloudpickle would make a copy of it for the functions
        self.storages: dict[int, UntypedStorage] = {}
        self.numbers: dict[int, int] = {}
        self.with_gradient: list[torch.Tensor] = []
        self.values_only = False

    def persistent_id(self, obj: Any) -> Any:
        if obj is self._namespace:
            return ("namespace",)
        kind = type(obj)
        if kind is TypedStorage:
            return ("typed", self._number(obj._untyped_storage), obj.dtype)
        return ("untyped", self._number(obj)) if kind is UntypedStorage else None

    def _number(self, storage: UntypedStorage) -> int:
        if storage.device.type != "cpu":
            raise NotKept(f"a tensor on {storage.device}")
        self.storages[storage._cdata] = storage
        return self.numbers.setdefault(storage._cdata, len(self.numbers))

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, torch.Tensor):
            return self._tensor(obj)
        if isinstance(obj, DistributedDataParallel):
            return make_ddp, (obj.module, ddp_options(obj), list(obj._comm_hooks))
        if isinstance(obj, dist.ProcessGroup):
            return group_of, place_of(obj)
        if what := _unkeepable(obj):
            raise NotKept(what)
        reduced = super().reducer_override(obj)
        if isinstance(obj, FunctionType) and obj.__globals__ is self._namespace and reduced is not NotImplemented:
            reduced[2][1]["__globals__"] = {}  # what it uses is in the namespace already, or lost under its own name
        return reduced

    def _tensor(self, tensor: torch.Tensor) -> Any:
        if hasattr(tensor, "device_mesh"):
            raise NotKept("a DTensor")
        if tensor.grad_fn is not None:
            self.values_only = True
            return tensor.detach().__reduce_ex__(pickle.HIGHEST_PROTOCOL)
        if tensor.grad is not None:
            self.with_gradient.append(tensor)
        return NotImplemented


def _unkeepable(thing: Any) -> str:
    """What it is, if no other process can have it; "" if it may be tried."""
    if isinstance(thing, _FILES):
        return "an open file"
    if isinstance(thing, GeneratorType):
        return "a generator"
    if isinstance(thing, dist.Work):
        return "the handle of a call"
    kind = type(thing)
    if isinstance(thing, torch.nn.Module) and any("torch.distributed.fsdp" in part.__module__ for part in kind.__mro__):
        return "an FSDP module"
    return ""


def reason(value: Any, error: BaseException) -> str:
    """Why a variable could not be written, in a few words: "an open file", "it holds a lock"."""
    found = _CANNOT.search(str(error))
    if isinstance(error, NotKept):
        what = str(error)
    elif found:
        what = f"{'an' if found[1][0] in 'aeiouAEIOU' else 'a'} {found[1]}"
    else:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no message'}"[:120]
    itself = _unkeepable(value) or (found and type(value).__name__ == found[1]) or isinstance(value, torch.Tensor)
    return what if itself else f"it holds {what}"


# ---- writing
def save(namespace: dict[str, Any], names: list[str], path: Path) -> Saved:
    """Write these variables, random state, and what else a process knows; the file is there whole or not at all."""
    saved = Saved()
    while True:  # a name that fails may have left half of what it holds in the pickler's memory: all is done again without it
        left = [name for name in names if name not in saved.lost]
        try:
            pickler, pieces = _pieces(namespace, left, saved)
        except _Failed as failed:
            saved.lost[failed.name] = failed.why
        else:
            break
    saved.names = left
    storages = [pickler.storages[key] for key in pickler.numbers]
    header = {
        "names": left, "lost": saved.lost, "remarks": saved.remarks, "sizes": [one.nbytes() for one in storages],
        "pieces": [(name, len(piece)) for name, piece in pieces],
    }  # fmt: skip
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        pickle.dump(header, file)
        for storage in storages:
            file.write(_bytes_of(storage))
        for _, piece in pieces:
            file.write(piece)
    part.replace(path)
    return saved


class _Failed(Exception):
    def __init__(self, name: str, why: str) -> None:
        self.name, self.why = name, why


def _pieces(namespace: dict[str, Any], names: list[str], saved: Saved) -> tuple[_Pickler, list[tuple[str, bytes]]]:
    stream = io.BytesIO()
    pickler = _Pickler(stream, namespace)
    pieces: list[tuple[str, bytes]] = []

    def take(name: str, value: Any) -> None:
        stream.seek(0)
        stream.truncate()
        pickler.values_only = False
        try:
            pickler.dump(value)
        except Exception as error:  # noqa: BLE001 - whatever a learner's object raises, it is this name's reason
            raise _Failed(name, reason(value, error)) from None
        pieces.append((name, stream.getvalue()))

    saved.remarks.clear()
    take(STATE, _state())
    for name in names:
        take(name, namespace[name])
        if pickler.values_only:
            saved.remarks[name] = VALUES_ONLY
        if pickler.with_gradient:
            gradients, pickler.with_gradient = [(each, each.grad) for each in pickler.with_gradient], []
            take(GRADIENTS, gradients)
    return pickler, pieces


def _bytes_of(storage: UntypedStorage) -> memoryview:
    """The memory of a storage, as it is."""
    return memoryview(torch.empty(0, dtype=torch.uint8).set_(storage).numpy())


def _state() -> dict[str, Any]:
    """What a process knows besides its variables."""
    return {
        "random": random.getstate(), "numpy": numpy.random.get_state(), "torch": torch.get_rng_state(),
        "dtype": torch.get_default_dtype(), "cwd": str(Path.cwd()), "path": list(sys.path),
        "environ": {name: value for name, value in os.environ.items() if not _IDENTITY.match(name)},
    }  # fmt: skip


def _set_state(state: Mapping[str, Any]) -> None:
    os.environ.update(state["environ"])
    sys.path[:] = state["path"]
    if Path(state["cwd"]).is_dir():
        os.chdir(state["cwd"])
    torch.set_default_dtype(state["dtype"])
    random.setstate(state["random"])
    numpy.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])


# ---- reading
class _Unpickler(pickle.Unpickler):
    """Begins with objects that pieces of the stream refer to by number: those of an unpickler that has failed.

    (The `memo` of Python's own unpickler can be read, but what is assigned to it is lost.)
    """

    def __init__(self, namespace: dict[str, Any], storages: list[UntypedStorage], stream: bytes, known: list[Any]) -> None:
        learn = b"".join(b"J" + struct.pack("<i", number) + b"Q\x940" for number in range(len(known)))  # load, memoize, pop
        super().__init__(io.BytesIO(learn + b"N." + stream))
        self._namespace, self._storages, self._known = namespace, storages, known
        self.load()

    def persistent_load(self, pid: Any) -> Any:
        match pid:
            case int():
                return self._known[pid]
            case ("namespace",):
                return self._namespace
            case ("typed", number, dtype):
                return TypedStorage(wrap_storage=self._storages[number], dtype=dtype, _internal=True)
        return self._storages[pid[1]]


def load(path: Path, namespace: dict[str, Any]) -> Saved:
    """Put what `save` has written into a namespace."""
    with path.open("rb") as file:
        header = pickle.load(file)  # noqa: S301 - this rank wrote it, into a folder that is the user's own
        storages = [UntypedStorage(size) for size in header["sizes"]]
        for storage in storages:
            file.readinto(_bytes_of(storage))
        stream = file.read()
    saved = Saved(lost=dict(header["lost"]), remarks=dict(header["remarks"]))
    state: dict[str, Any] = {}
    for name, value in _values(header["pieces"], stream, partial(_Unpickler, namespace, storages), saved):
        if name == STATE:
            state = value
            _set_state(state)  # modules are imported from its paths
        elif name == GRADIENTS:
            for tensor, gradient in value:
                tensor.grad = gradient
        else:
            namespace[name] = value
            saved.names.append(name)
    if state:
        _set_state(state)  # an import, or a learner's object, may have drawn random numbers
    return saved


def _values(
    pieces: list[tuple[str, int]], stream: bytes, reader_of: Callable[[bytes, list[Any]], _Unpickler], saved: Saved
) -> Iterator[tuple[str, Any]]:
    """Each name with its value. After a piece that failed, those that refer to something in it fail as well."""
    begin, missing = 0, list[range]()
    reader = reader_of(stream, [])
    for number, (name, size) in enumerate(pieces):
        end = begin + size
        try:
            if missing and _refers(stream[begin:end], missing):
                raise NotKept("it holds something that is lost")  # noqa: TRY301
            value = reader.load()
        except Exception as error:  # noqa: BLE001 - a learner's object may raise anything
            saved.lost[name] = str(error) if type(error) in (NotKept, LookupError) else f"{type(error).__name__}: {error}"[:120]
            there, ends = reader.memo.copy(), itertools.accumulate(one for _, one in pieces[: number + 1])
            all_made = sum(_made(stream[last - one : last]) for last, (_, one) in zip(ends, pieces, strict=False))
            missing.append(range(len(there), all_made))
            reader = reader_of(stream[end:], [there.get(each) for each in range(all_made)])
        else:
            yield name, value
        begin = end


def _made(piece: bytes) -> int:
    """How many objects a piece adds to those that later ones may refer to."""
    return sum(code.name == "MEMOIZE" for code, _, _ in pickletools.genops(piece))


def _refers(piece: bytes, missing: list[range]) -> bool:
    gets = {arg for code, arg, _ in pickletools.genops(piece) if code.name in ("BINGET", "LONG_BINGET", "GET")}
    return any(number in numbers for number in gets for numbers in missing)
