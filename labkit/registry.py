"""One registry for everything of which there are many: faults, rules, rank ops, views.

A registry loads every module of its folder on first use, so adding a thing is adding a file.
Two things that claim one name are an error; a name that is not there answers with the nearest one.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import warnings
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from .errors import UnknownName, UsageError, shown

T = TypeVar("T")


class Registry(Generic[T]):
    """Named things of one kind, found by loading a package's modules.

    >>> fruit: Registry[int] = Registry("fruit")
    >>> fruit.add("apple", 1)
    1
    >>> fruit["aple"]
    Traceback (most recent call last):
    ...
    labkit.errors.UnknownName: no fruit 'aple'; did you mean 'apple'?
    """

    def __init__(self, kind: str, package: str | None = None, *, entry_points: str = "") -> None:
        """`entry_points` names a group of entry points: the modules of other packages that add things of this kind."""
        self.kind, self._package, self._entry_points = kind, package, entry_points
        self._things: dict[str, T] = {}
        self._loaded = package is None

    def add(self, name: str, thing: T) -> T:
        """Register `thing`; raise UsageError if another one has the name."""
        if name in self._things and self._things[name] is not thing:
            raise UsageError(f"two {self.kind}s are called {name!r}", hint="rename one of them")
        self._things[name] = thing
        return thing

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator form of `add`."""
        return lambda thing: self.add(name, thing)

    def load(self) -> None:
        """Import every module of the package once, and what other packages add; in-tree breakage raises."""
        if self._loaded:
            return
        self._loaded = True
        try:
            package = importlib.import_module(str(self._package))
            for module in pkgutil.iter_modules(package.__path__):
                if not module.name.startswith("_"):
                    importlib.import_module(f"{self._package}.{module.name}")
            self._load_entry_points()
        except BaseException:
            self._loaded = False
            raise

    def _load_entry_points(self) -> None:
        """What another package adds; one that can't be loaded is left out with a warning, since the rest must work."""
        from importlib.metadata import entry_points  # takes a while to import

        for entry in entry_points(group=self._entry_points) if self._entry_points else ():
            try:
                entry.load()
            except Exception as error:  # noqa: BLE001 - somebody else's module may raise anything
                warnings.warn(f"{self.kind} {entry.name} ({entry.value}) could not be loaded: {error!r}", stacklevel=2)

    def __getitem__(self, name: str) -> T:
        self.load()
        try:
            return self._things[name]
        except (KeyError, TypeError):  # a TypeError: what can't be a name, such as a list
            raise unknown(self.kind, name, self._things) from None

    def __contains__(self, name: object) -> bool:
        self.load()
        return isinstance(name, str) and name in self._things

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(sorted(self._things))

    def __len__(self) -> int:
        self.load()
        return len(self._things)

    def values(self) -> list[T]:
        """The things, in the order of their names."""
        return [self._things[name] for name in self]


def unknown(kind: str, name: object, known: object) -> UnknownName:
    """The error for a name that does not exist, with the nearest known one.

    >>> str(unknown("variable", "grda", ["grad", "x"]))
    "no variable 'grda'; did you mean 'grad'?"
    """
    names = sorted(str(k) for k in known) if known else []  # type: ignore[attr-defined]
    said = shown(name)
    near = difflib.get_close_matches(name if isinstance(name, str) else said, names, n=1, cutoff=0.6)
    if near:
        hint = f"did you mean {near[0]!r}?"
    elif names:
        first = ", ".join(names[:12]) + (", ..." if len(names) > 12 else "")
        hint = f"there are: {first}"
    else:
        hint = f"there is no {kind} yet"
    return UnknownName(f"no {kind} {said}", hint=hint, kind=kind, name=name, known=tuple(names))
