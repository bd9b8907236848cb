"""Live worlds for the gloo lane: one per size and mode, kept for as long as tests ask for the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from labkit.driver.current import HOLDER
from labkit.driver.start import start
from labkit.driver.world import World

WorldMaker = Callable[..., World]


@pytest.fixture(scope="session")
def _live() -> Iterator[None]:
    yield
    HOLDER.close()


@pytest.fixture
def world_of(_live: None) -> Iterator[WorldMaker]:
    """`world_of(3, "safe")`: a healthy world of that size and mode; the one of the last test if it fits."""

    def make(ranks: int, mode: str = "raw", **options: object) -> World:
        running = HOLDER.world
        if running is not None and (running.world_size != ranks or options):
            running.stop()
        world = start(ranks, "gloo", **options)  # type: ignore[arg-type]
        world.recover()
        if world.mode != mode:
            world.set_mode(mode)
        return world

    yield make
    if HOLDER.world is not None and HOLDER.world.mode != "raw":
        HOLDER.world.recover()
        HOLDER.world.set_mode("raw")
