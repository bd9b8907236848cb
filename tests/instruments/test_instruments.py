"""Instruments: found by name on every world, with their own docstring; a wrong name is answered; other packages join."""

from __future__ import annotations

import importlib.metadata
import inspect
from pathlib import Path

import pytest

from labkit.driver import core as core_module
from labkit.driver.core import ENTRY_POINTS, INSTRUMENTS, METHODS, NoInstrument, WorldCore
from labkit.driver.world import World
from labkit.errors import UnknownName
from labkit.registry import Registry
from labkit.testing import Script

OURS = {"compare", "crossing", "nccl_log", "pull", "push", "run_schedule", "script", "sweep", "tensors", "timeline", "watch"}


def test_every_instrument_is_a_method_of_a_world() -> None:
    with Script(2).world() as world:
        assert set(INSTRUMENTS) >= OURS
        assert set(dir(world)) >= OURS | set(METHODS)
        for name in OURS:
            assert inspect.getdoc(getattr(world, name)), name
            assert next(iter(inspect.signature(getattr(world, name)).parameters), "") != "world"


def test_no_instrument_hides_a_method() -> None:
    assert not OURS & set(dir(World))
    assert all(callable(getattr(World, name)) for name in METHODS)


@pytest.mark.parametrize(
    ("name", "text"),
    [("swep", "a world has no 'swep'; did you mean 'sweep'?"), ("recovr", "a world has no 'recovr'; did you mean 'recover'?")],
)
def test_a_wrong_name_is_answered_with_the_nearest_one(name: str, text: str) -> None:
    with Script(1).world() as world:
        with pytest.raises(NoInstrument) as caught:
            getattr(world, name)
        assert str(caught.value) == text
        assert isinstance(caught.value, UnknownName)
        assert not hasattr(world, name)


def test_a_private_name_loads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Registry, "load", lambda self: pytest.fail("loaded"))
    with Script(1).world() as world:
        assert not hasattr(world, "_repr_html_")


def test_an_instrument_of_another_package_joins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scales.py").write_text(
        "from labkit.driver.core import instrument\n@instrument\ndef weigh(world, unit='kg'):\n"
        "    '''How heavy the ranks are.'''\n    return f'{world.world_size} {unit}'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = importlib.metadata.EntryPoint("weigh", "scales", ENTRY_POINTS)
    broken = importlib.metadata.EntryPoint("gone", "no_such_module", ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry, broken] if group == ENTRY_POINTS else [])
    fresh: Registry[object] = Registry("instrument", "labkit.instruments", entry_points=ENTRY_POINTS)
    monkeypatch.setattr(core_module, "INSTRUMENTS", fresh)
    with Script(3).world() as world:
        with pytest.warns(UserWarning, match=r"instrument gone \(no_such_module\) could not be loaded: ModuleNotFoundError"):
            assert world.weigh("t") == "3 t"
        assert inspect.getdoc(world.weigh) == "How heavy the ranks are."


def test_what_a_protocol_declares_a_world_has() -> None:
    with Script(2).world() as world:
        for name in [name for name in dir(WorldCore) if not name.startswith("_")]:
            assert hasattr(world.core, name), name
        assert {"mode", "deadline_s", "cell", "stopped", "started_in_s"} <= vars(world.core).keys()
