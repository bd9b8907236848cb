"""Worlds on hosts: each test makes its own, so no other world may run; the fork server goes at the end."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from labkit.driver.current import HOLDER


@pytest.fixture(scope="session")
def _no_fork_server_stays() -> Iterator[None]:
    yield
    HOLDER.close()


@pytest.fixture(autouse=True)
def _no_world_runs(_no_fork_server_stays: None) -> None:
    if HOLDER.world is not None:
        HOLDER.world.stop()
