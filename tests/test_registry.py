"""The registry: loads its folder once, refuses two of one name, and answers a misspelling with the nearest name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from labkit.errors import UnknownName, UsageError
from labkit.registry import Registry, unknown

Plant = Callable[..., str]


@pytest.fixture
def plant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Plant]:
    """Make a package `garden` with the given modules, as name=source."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "garden").mkdir()

    def make(**modules: str) -> str:
        for name, source in {"__init__": "", **modules}.items():
            (tmp_path / "garden" / f"{name}.py").write_text(source)
        return "garden"

    before = set(sys.modules)
    yield make
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_a_folder_is_loaded_on_first_use_and_once(plant: Plant) -> None:
    package = plant(pear="loaded = []", apple="", _seed="raise RuntimeError('not mine to load')")
    registry: Registry[str] = Registry("fruit", package)
    assert not any(name.startswith("garden") for name in sys.modules)
    assert len(registry) == 0
    assert {"garden.pear", "garden.apple"} <= set(sys.modules)
    assert "garden._seed" not in sys.modules
    sys.modules.pop("garden.pear")
    list(registry)
    assert "garden.pear" not in sys.modules


def test_a_broken_module_is_not_hidden_and_not_forgotten(plant: Plant, tmp_path: Path) -> None:
    registry: Registry[str] = Registry("fruit", plant(apple="1 / 0"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            registry["apple"]
    (tmp_path / "garden" / "apple.py").write_text("mended = True")
    assert list(registry) == []


def test_things_come_in_the_order_of_their_names() -> None:
    registry: Registry[int] = Registry("number")
    for name in ["b", "c", "a"]:
        registry.add(name, ord(name))
    assert list(registry) == ["a", "b", "c"]
    assert registry.values() == [97, 98, 99]
    assert "a" in registry
    assert "z" not in registry


def test_two_of_one_name_are_refused_and_the_first_stays() -> None:
    registry: Registry[object] = Registry("fruit")
    first = registry.add("apple", object())
    assert registry.add("apple", first) is first
    with pytest.raises(UsageError, match="two fruits are called 'apple'; rename one of them"):
        registry.register("apple")(object())
    assert registry["apple"] is first


@pytest.mark.parametrize(
    ("name", "known", "text"),
    [
        ("aple", ["apple", "pear"], "no fruit 'aple'; did you mean 'apple'?"),
        ("zzz", ["apple", "pear"], "no fruit 'zzz'; there are: apple, pear"),
        ("zzz", [f"a{i:02}" for i in range(14)], "a11, ..."),
        ("apple", [], "no fruit 'apple'; there is no fruit yet"),
    ],
)
def test_an_unknown_name_is_answered(name: str, known: list[str], text: str) -> None:
    error = unknown("fruit", name, known)
    assert text in str(error)
    assert isinstance(error, UnknownName)
    assert (error.kind, error.name, set(error.known)) == ("fruit", name, set(known))
