"""The plain form of records: how they become JSON and come back.

Serves three needs. A record travels as JSON (plus raw buffers for numbers), never as a pickle, so that
a process reading it runs no code of the sender's. A record is frozen, so that a view, a rule and a
recording all see the same facts. And it reads back from an older or newer file: unknown fields are
dropped, missing ones take their default.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import sysconfig
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

import msgspec

from .errors import WireError, shown

KIND = "$"  # the key that names a record's kind in its plain form
_KINDS: dict[str, type] = {}
_DAMAGED = "the file or message is damaged"

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """Make `cls` a frozen record that `to_plain` and `from_plain` know by its class name.

    >>> @record
    ... class Spot:
    ...     x: int = 0
    >>> from_plain(to_plain(Spot(3)))
    Spot(x=3)
    """
    own_repr = cls.__repr__ is not object.__repr__  # a class that says how it prints, or derives from one that does
    made = dataclasses.dataclass(frozen=True, repr=not own_repr)(cls)
    other = _KINDS.get(cls.__name__)
    if other is not None and other.__module__ != cls.__module__:
        raise WireError(f"two records are called {cls.__name__}: in {other.__module__} and {cls.__module__}", hint="rename one")
    _KINDS[cls.__name__] = made
    return made


def to_plain(value: Any) -> Any:
    """Records, tuples, lists and dicts as JSON-able values; anything else as it is."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        plain = {KIND: type(value).__name__}
        for field in dataclasses.fields(value):
            plain[field.name] = to_plain(getattr(value, field.name))
        return plain
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, dict):
        if KIND in value:  # a learner's own dictionary that would read as a record
            return {KIND: "dict", "items": [[str(key), to_plain(item)] for key, item in value.items()]}
        return {str(key): to_plain(item) for key, item in value.items()}
    return value


def from_plain(plain: Any) -> Any:
    """The inverse of `to_plain`; lists come back as tuples.

    WireError for an unknown kind of record, and for a record whose fields do not have the types that it declares.

    >>> @record
    ... class Pair:
    ...     of: tuple[int, ...]
    >>> from_plain({"$": "Pair", "of": [1, "2"]})
    Traceback (most recent call last):
    labkit.errors.WireError: a damaged Pair: expected int, got str at of[1]; the file or message is cut or was changed
    """
    if isinstance(plain, list):
        return tuple(from_plain(item) for item in plain)
    if not isinstance(plain, dict):
        return plain
    kind = plain.get(KIND, "")
    if KIND not in plain:
        return {key: from_plain(item) for key, item in plain.items()}
    try:
        if kind == "dict":
            return {key: from_plain(item) for key, item in plain["items"]}
        cls = _KINDS[kind]
    except (KeyError, TypeError, ValueError):
        if kind == "dict":
            raise _damaged(kind, "it has no pairs of key and value") from None
        raise WireError(f"unknown record {shown(kind, 40)}", hint="both sides need the same labkit version") from None
    try:
        return msgspec.convert({key: from_plain(item) for key, item in plain.items()}, cls)
    except msgspec.ValidationError as error:
        raise _damaged(kind, str(error)) from None


def _damaged(kind: str, why: str) -> WireError:
    """What is wrong, from msgspec's "Expected `int`, got `str` - at `$.of[1]`"."""
    why = why.replace(" - at ", " at ").replace("`$.", "").replace("`", "")
    return WireError(f"a damaged {kind}: {why[:1].lower()}{why[1:]}", hint="the file or message is cut or was changed")


def dumps(value: Any) -> str:
    """JSON text of a record. NaN and infinity stay, so it is the standard library's JSON."""
    return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=True)


def loads(text: str | bytes, *, strict: bool = False) -> Any:
    """The record in a JSON text; WireError if it is not one.

    With `strict`, also if a number in it does not fit in 64 bits, or a text in it can't be printed.
    """
    try:
        plain = json.loads(text)
        if strict:
            msgspec.msgpack.encode(plain)
        return from_plain(plain)
    except OverflowError:
        raise WireError("a number in it does not fit in 64 bits", hint=_DAMAGED) from None
    except UnicodeEncodeError:
        raise WireError("a text in it can't be printed", hint=_DAMAGED) from None
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a record: {error}", hint=_DAMAGED) from None


def int_keys(mapping: dict[Any, T]) -> dict[int, T]:
    """A mapping by rank, as it was before JSON made its keys text."""
    return {int(key): value for key, value in mapping.items()}


def tidy(value: Any) -> Any:
    """The record with folders of this machine cut from the files it names.

    >>> tidy({"file": sysconfig.get_paths()["purelib"] + "/torch/x.py"})
    {'file': 'torch/x.py'}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.replace(value, **{f.name: tidy(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init})
    if isinstance(value, (list, tuple)):
        return tuple(tidy(item) for item in value)
    if isinstance(value, dict):
        return {key: tidy(item) for key, item in value.items()}
    return _short(value) if isinstance(value, str) else value


@functools.cache
def _roots() -> list[str]:
    found = {*sysconfig.get_paths().values(), str(Path(__file__).resolve().parents[1]), str(Path.home())}
    return sorted(found, key=len)[::-1]


def _short(text: str) -> str:
    for root in _roots():
        if len(root) > 1:
            text = text.replace(f"{root}/", "")
    return text
