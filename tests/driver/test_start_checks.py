"""What can't be started says so before anything is started."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from labkit.driver import current
from labkit.driver import start as start_module
from labkit.driver.cluster import last_line
from labkit.driver.current import HOLDER
from labkit.driver.start import make_seats, start
from labkit.errors import LabkitError, NotEnoughDevices, NotEnoughMemory, UnknownName, UsageError, WorldMismatch
from labkit.machine import MAX_RANKS, RANK_BYTES
from labkit.testing import Script


class Started(Exception):
    """The checks were passed."""


@pytest.fixture(autouse=True)
def nothing_starts(monkeypatch) -> Iterator[None]:
    """No world runs, none comes up, and the environment says nothing."""

    def up(*args: object) -> None:
        raise Started(len(args[0]) if isinstance(args[0], list) else args[0])

    monkeypatch.setattr(start_module, "_up", up)
    monkeypatch.setattr(start_module, "find_gpus", list)
    monkeypatch.setattr(HOLDER, "world", None)
    for name in ("LABKIT_RANKS", "LABKIT_BACKEND"):
        monkeypatch.delenv(name, raising=False)
    yield
    assert HOLDER.running_server is None or HOLDER._server.alive


@pytest.mark.parametrize("ranks", [0, -1, True, False, "4", 2.0, 2.5, [4], float("nan")])
def test_a_number_of_ranks_that_makes_no_sense(ranks: object) -> None:
    with pytest.raises(UsageError, match=r"ranks must be a whole number from 1, not .*; for example ranks=4"):
        start(ranks)


@pytest.mark.parametrize("name", ["deadline_s", "group_timeout_s"])
@pytest.mark.parametrize("seconds", [0, -1, "5", float("nan"), True])
def test_a_time_that_makes_no_sense(name: str, seconds: object) -> None:
    with pytest.raises(UsageError, match=rf"{name}=1"):
        start(2, **{name: seconds})


@pytest.mark.parametrize("ranks", [MAX_RANKS + 1, 10_000, 10**30])
def test_more_ranks_than_a_machine_can_have(ranks: int) -> None:
    with pytest.raises(UsageError, match=f"{ranks} ranks are too many for one machine; give at most {MAX_RANKS}"):
        start(ranks)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"backend": "glo"}, "no backend 'glo'; did you mean 'gloo'?"),
        ({"backend": "NCCL"}, "no backend 'NCCL'; there are: auto, gloo, "),
        ({"backend": "mpi"}, "no backend 'mpi'"),
        ({"mode": "save"}, "no mode 'save'; did you mean 'safe'?"),
        ({"mode": ""}, "no mode ''; there are: raw, safe"),
        ({"launcher": "forks"}, "no launcher 'forks'; did you mean 'fork'?"),
        ({"launcher": "slurm"}, "no launcher 'slurm'"),
    ],
)
def test_a_misspelt_word(given: dict[str, str], text: str) -> None:
    with pytest.raises(UnknownName) as caught:
        start(2, **given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("text", ["abc", "-1", "2.5", "4 ranks", "1e3"])
def test_the_environment_is_checked_too(monkeypatch, text: str) -> None:
    monkeypatch.setenv("LABKIT_RANKS", text)
    with pytest.raises(UsageError, match=r"LABKIT_RANKS must be a number, not .*; set it to 4, for example, or unset it"):
        start(2)


@pytest.mark.parametrize(("text", "ranks"), [("3", 3), (" 5 ", 5), ("", 2), ("  ", 2)])
def test_the_environment_overrides(monkeypatch, text: str, ranks: int) -> None:
    monkeypatch.setenv("LABKIT_RANKS", text)
    with pytest.raises(Started) as caught:
        start(2)
    assert caught.value.args == (ranks,)


def test_a_backend_of_the_environment_is_checked_like_any_other(monkeypatch) -> None:
    monkeypatch.setenv("LABKIT_RANKS", "0")
    with pytest.raises(UsageError, match="ranks must be a whole number from 1, not 0"):
        start()
    monkeypatch.setenv("LABKIT_RANKS", "2")
    monkeypatch.setenv("LABKIT_BACKEND", "gluu")
    with pytest.raises(UnknownName, match="'gluu'"):
        start()
    monkeypatch.setenv("LABKIT_BACKEND", "nccl")
    with pytest.raises(NotEnoughDevices, match="needs a GPU"):
        start(backend="gloo")


def test_without_a_gpu_there_are_four_ranks() -> None:
    with pytest.raises(Started) as caught:
        start()
    assert caught.value.args == (4,)


def test_there_must_be_room(monkeypatch) -> None:
    monkeypatch.setattr(start_module, "free_memory_bytes", lambda: 3 * RANK_BYTES)
    with pytest.raises(NotEnoughMemory, match=r"8 ranks need about .* are free; give at most ranks=3") as caught:
        start(8)
    assert (caught.value.needed_bytes, caught.value.free_bytes) == (8 * RANK_BYTES, 3 * RANK_BYTES)
    with pytest.raises(Started):
        start(3)
    monkeypatch.setattr(start_module, "free_memory_bytes", lambda: 0)
    with pytest.raises(NotEnoughMemory, match="give at most ranks=1"):
        start(2)


def test_every_refusal_names_the_next_step() -> None:
    for given in ({"ranks": 0}, {"backend": "x"}, {"mode": "x"}, {"launcher": "x"}, {"ranks": 9999}, {"backend": "nccl"}):
        with pytest.raises(LabkitError) as caught:
            start(**given)
        assert caught.value.hint


# ---- the world that runs already
def test_a_second_start_gives_the_same_world_or_says_what_differs(monkeypatch) -> None:
    with Script(2).world() as world:
        monkeypatch.setattr(HOLDER, "world", world)
        assert start() is start(2) is start(2, "gloo") is world
        with pytest.raises(WorldMismatch, match=r"a world is running with 2 ranks, not 3; world.stop.. ends it"):
            start(3)
        with pytest.raises(WorldMismatch, match="gloo, not nccl"):
            start(2, "nccl")
        with pytest.raises(WorldMismatch, match=r"raw mode, not safe; .*set_mode"):
            start(2, mode="safe")
        with pytest.raises(UsageError, match="ranks must be a whole number from 1, not 0"):
            start(0)
        with pytest.raises(UsageError, match="zig"):
            start(2, placement="zig")
        with pytest.raises(UsageError, match="rate must be a number"):
            start(2, rate="fast")
        with pytest.raises(WorldMismatch, match="no rate, not 1gbit and no delay, not 2ms"):
            start(2, rate="1gbit", delay="2ms")
    with Script(4, hosts=(0, 0, 1, 1)).world() as world:
        monkeypatch.setattr(HOLDER, "world", world)
        assert start(4, placement="block") is world
        with pytest.raises(WorldMismatch, match="another placement than cyclic"):
            start(4, placement="cyclic")


# ---- the ranks' processes
def test_gloo_ranks_sit_on_the_cpu_and_talk_on_loopback(monkeypatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    seats = make_seats(3, "gloo", [])
    assert [(seat.rank, seat.device) for seat in seats] == [(0, "cpu"), (1, "cpu"), (2, "cpu")]
    assert all(seat.env["GLOO_SOCKET_IFNAME"] == "lo" and int(seat.env["OMP_NUM_THREADS"]) >= 1 for seat in seats)
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert "GLOO_SOCKET_IFNAME" not in make_seats(1, "gloo", [])[0].env, "the user has said which"


def test_the_last_words_of_a_process_are_its_own_and_no_warning_of_torchs(tmp_path: Path) -> None:
    log = tmp_path / "rank-0.log"
    log.write_text("one\nit can't enter its host\n[W1201 02:00:14.017193761 socket.cpp:207] [c10d] The hostname ...\n\n")
    assert last_line(log) == "it can't enter its host"
    assert last_line(tmp_path / "none.log") == ""


def test_a_fork_server_that_has_ended_is_closed_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    class Server:
        def __init__(self) -> None:
            self.alive, self.closed = True, False

        def close(self) -> None:
            self.closed = True

    monkeypatch.setattr(current, "ForkServer", Server)
    holder = current.Holder()
    try:
        first = cast(Any, holder.server())
        assert holder.server() is first
        first.alive = False
        assert holder.server() is not first
        assert first.closed
    finally:
        holder.close()
