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
import re
import sysconfig
import types
import typing
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeVar, dataclass_transform

from .errors import WireError

KIND = "$"  # the key that names a record's kind in its plain form
_KINDS: dict[str, type] = {}
_HALF = re.compile("[\ud800-\udfff]")  # of a pair of UTF-16: no file and no screen takes it
_ROOM = 40  # characters of a value in a message

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
    made = dataclasses.dataclass(frozen=True)(cls)
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
    """The inverse of `to_plain`; lists come back as tuples. Raises WireError for an unknown kind."""
    if isinstance(plain, dict):
        if KIND not in plain:
            return {key: from_plain(item) for key, item in plain.items()}
        return _from_record(plain)
    if isinstance(plain, list):
        return tuple(from_plain(item) for item in plain)
    return plain


def _from_record(plain: dict[str, Any]) -> Any:
    kind = plain[KIND]
    try:
        if kind == "dict":
            return {key: from_plain(item) for key, item in plain["items"]}
        cls = _KINDS[kind]
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{key: from_plain(item) for key, item in plain.items() if key in known})
    except (KeyError, TypeError, ValueError):
        if isinstance(kind, str) and (kind == "dict" or kind in _KINDS):
            raise WireError(f"a damaged {kind}", hint="the file or message is cut or was changed") from None
        raise WireError(f"unknown record {_said(kind)}", hint="both sides need the same labkit version") from None


def dumps(value: Any) -> str:
    """JSON text of a record."""
    return json.dumps(to_plain(value), separators=(",", ":"), allow_nan=True)


def loads(text: str | bytes) -> Any:
    """The record in a JSON text; raises WireError if it is not one."""
    try:
        return from_plain(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise WireError(f"not a record: {error}", hint="the file or message is damaged") from None


def misfit(value: Any) -> str:
    """Where a record, or a record in it, is not what its fields declare, in words; "" if all of it is.

    A field's number must have room in 64 bits and its text must be one that can be printed. Values that are declared as
    Any are looked into for records.

    >>> @record
    ... class Pair:
    ...     of: tuple[int, ...]
    >>> misfit(Pair((1, 2))), misfit(Pair((1, "2"))), misfit(Pair(None))
    ('', "of[1] is '2' and not int", 'of is None and not tuple[int, ...]')
    """
    try:
        return _misfit(value, Any, "")
    except RecursionError:
        return "it is nested too deeply"


def _misfit(value: Any, hint: Any, at: str) -> str:
    if hint is Any and _is_simple(value):
        hint = type(value)
    parts: Iterable[tuple[str, Any, Any]]
    if dataclasses.is_dataclass(hint) or (hint is Any and dataclasses.is_dataclass(value)):
        if hint is not Any and type(value) is not hint:
            return _wrong(value, hint, at)
        parts = ((f"{at}.{name}".lstrip("."), getattr(value, name), of) for name, of in _hints(value.__class__).items())
    elif isinstance(value, tuple) and (hint is Any or typing.get_origin(hint) is tuple):
        kinds = typing.get_args(hint) or (Any, ...)
        kinds = (kinds[0],) * len(value) if kinds[-1] is ... else kinds
        if len(kinds) != len(value):
            return _wrong(value, hint, at)
        parts = ((f"{at}[{index}]", item, of) for index, (item, of) in enumerate(zip(value, kinds, strict=True)))
    elif isinstance(value, dict) and (hint is Any or typing.get_origin(hint) is dict):
        key_kind, kind = typing.get_args(hint) or (Any, Any)
        pairs = ((f"{at}[{_said(key)}]", key, item) for key, item in value.items())
        parts = (part for place, key, item in pairs for part in ((f"the key {place}", key, key_kind), (place, item, kind)))
    elif isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        wrong = [_misfit(value, kind, at) for kind in typing.get_args(hint)]
        return "" if "" in wrong else max(wrong, key=len)  # of the kind that it comes nearest to
    else:
        return "" if _fits(value, hint) else _wrong(value, hint, at)
    return next((found for where, item, kind in parts if (found := _misfit(item, kind, where))), "")


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    known = typing.get_type_hints(cls)
    return {field.name: known[field.name] for field in dataclasses.fields(cls)}


def _is_simple(value: Any) -> bool:
    return value is None or type(value) in (str, int, float, bool)


def _fits(value: Any, hint: Any) -> bool:
    if hint is float and type(value) is int:
        hint = int
    if hint in (None, type(None)):
        return value is None
    if hint not in (str, int, float, bool) or type(value) is not hint:
        return False
    if type(value) is int:
        return -(2**63) <= value < 2**64
    return type(value) is not str or value.isascii() or not _HALF.search(value)


def _wrong(value: Any, hint: Any, at: str) -> str:
    return f"{at or 'it'} is {_said(value)} and not {getattr(hint, '__name__', '') if isinstance(hint, type) else hint}"


def _said(value: Any) -> str:
    if dataclasses.is_dataclass(value):
        return f"a {type(value).__name__}"
    text = ascii(value)
    return text if len(text) <= _ROOM else f"{text[:_ROOM]}..."


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
