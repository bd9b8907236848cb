"""Starts a world: decides ranks, devices, backend and launcher, checks that there is room, and brings it up."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence

from ..backends import BACKENDS, backend_names, choose
from ..devices import Gpu, find_gpus
from ..errors import NotEnoughMemory, StartError, UsageError, WorldMismatch
from ..machine import DEFAULT_RANKS, MAX_RANKS, RANK_BYTES, free_memory_bytes
from ..registry import unknown
from ..runfolder import RunFolder, run_root
from ..units import format_bytes, is_number, is_whole
from .checks import check_deadline
from .cluster import Cluster, seat_environment
from .core import Listener
from .current import HOLDER
from .feed import Seat
from .launch import ForkLauncher, Launcher, ProcessLauncher
from .placement import ORDERS, HostLayout, layout_for, place
from .spaces import Shape
from .world import DEADLINE_S, World

LAUNCHERS = ("auto", "fork", "subprocess")
GROUP_TIMEOUT_S = 120.0
DISK_BYTES_PER_RANK = 4 * 2**20


def start(
    ranks: int | None = None,
    backend: str = "auto",
    *,
    mode: str = "raw",
    launcher: str = "auto",
    share_gpu: bool = False,
    hosts: int | str = 0,
    rate: str = "",
    delay: str = "",
    placement: str = "block",
    deadline_s: float = DEADLINE_S,
    group_timeout_s: float = GROUP_TIMEOUT_S,
    on_progress: Callable[[str], None] | None = None,
    listeners: Sequence[Listener] = (),
) -> World:
    """Start a world of live ranks, or give the one that runs.

    `ranks`: one per GPU, or 4 where there is none. `backend`: nccl where each rank has its own GPU, else
    gloo. LABKIT_RANKS and LABKIT_BACKEND override both. `mode`: "raw" only watches, "safe" turns a
    collective that does not match into an error. `share_gpu`: several nccl ranks on one GPU.
    `hosts`: put the ranks on so many hosts, network namespaces of this machine that go with the world, each
    with a link of `rate` ("1gbit") and one-way `delay` ("2ms"); "up" takes those of `labkit hosts up`.
    `placement`: "block" fills host after host, "cyclic" deals the ranks out in turn.
    Raises NotEnoughDevices, NotEnoughMemory, WorldMismatch, StartError.
    """
    ranks, backend = _overridden(ranks, backend)
    _check(ranks, backend, mode, launcher)
    check_deadline(deadline_s)
    if not is_number(group_timeout_s) or not group_timeout_s > 0:
        raise UsageError(f"group_timeout_s must be above 0, not {group_timeout_s!r}", hint="for example group_timeout_s=120")
    running = HOLDER.world
    if running is not None:
        return _same(running, ranks, backend, mode, hosts, Shape(rate, delay), placement)
    HOLDER.world = bring_up(
        ranks, backend, mode=mode, launcher=launcher, share_gpu=share_gpu, hosts=hosts, rate=rate, delay=delay,
        placement=placement, deadline_s=deadline_s, group_timeout_s=group_timeout_s, on_progress=on_progress,
        listeners=listeners,
    )  # fmt: skip
    HOLDER.world.prompt = HOLDER.prompt
    return HOLDER.world


def bring_up(
    ranks: int | None, backend: str, *, mode: str = "raw", launcher: str = "auto", share_gpu: bool = False,
    hosts: int | str = 0, rate: str = "", delay: str = "", placement: str = "block", deadline_s: float = DEADLINE_S,
    group_timeout_s: float = GROUP_TIMEOUT_S, on_progress: Callable[[str], None] | None = None,
    listeners: Sequence[Listener] = (),
) -> World:  # fmt: skip
    """Start a world beside the one that runs, if one does; the caller has to stop it."""
    began = time.monotonic()
    gpus = find_gpus() if backend == "auto" or BACKENDS[backend].needs_gpu else []
    num_ranks = ranks if ranks is not None else len(gpus) or DEFAULT_RANKS
    chosen = choose(backend, num_ranks, gpus, share_gpu).name
    _room_for(num_ranks)
    _space_for(num_ranks)
    layout = layout_for(num_ranks, hosts, Shape(rate, delay), placement)
    seats = make_seats(num_ranks, chosen, gpus, layout)
    try:
        cluster = _up(seats, chosen, launcher, mode, group_timeout_s, on_progress or (lambda text: None), layout)
    except BaseException:
        if layout is not None:
            layout.close()
        raise
    return World(cluster, mode=mode, deadline_s=deadline_s, started_in_s=time.monotonic() - began, listeners=listeners)


def _overridden(ranks: int | None, backend: str) -> tuple[int | None, str]:
    text = os.environ.get("LABKIT_RANKS", "").strip()
    if text:
        if not text.isdecimal():
            raise UsageError(f"LABKIT_RANKS must be a number, not {text!r}", hint="set it to 4, for example, or unset it")
        ranks = int(text)
    return ranks, os.environ.get("LABKIT_BACKEND", "").strip() or backend


def _check(ranks: int | None, backend: str, mode: str, launcher: str) -> None:
    if backend not in backend_names():
        raise unknown("backend", backend, backend_names())
    if mode not in ("raw", "safe"):
        raise unknown("mode", mode, ("raw", "safe"))
    if launcher not in LAUNCHERS:
        raise unknown("launcher", launcher, LAUNCHERS)
    if ranks is None:
        return
    if not is_whole(ranks) or ranks < 1:
        raise UsageError(f"ranks must be a whole number from 1, not {ranks!r}", hint="for example ranks=4")
    if ranks > MAX_RANKS:
        raise UsageError(f"{ranks} ranks are too many for one machine", hint=f"give at most {MAX_RANKS}", ranks=ranks)


def _same(running: World, ranks: int | None, backend: str, mode: str, hosts: int | str, shape: Shape, order: str) -> World:
    """The running world, if it is what was asked for."""
    if order not in ORDERS:
        raise unknown("placement", order, ORDERS)
    differs = []
    if ranks is not None and ranks != running.world_size:
        differs.append(f"{running.world_size} ranks, not {ranks}")
    if backend not in ("auto", running.backend):
        differs.append(f"{running.backend}, not {backend}")
    if mode not in (running.mode, "raw"):
        differs.append(f"{running.mode} mode, not {mode}")
    if hosts not in (0, "up", len(set(running.hosts))):
        differs.append(f"{len(set(running.hosts)) or 'no'} hosts, not {hosts}")
    links = Shape(*running.core.links)
    differs += [
        f"{has or 'no'} {name}, not {asked}"
        for name, has, asked in (("rate", links.rate, shape.rate), ("delay", links.delay, shape.delay))
        if asked not in ("", has)
    ]
    if running.hosts and order != ORDERS[0] and place(running.world_size, len(set(running.hosts)), order) != running.hosts:
        differs.append(f"another placement than {order}")
    if differs:
        raise WorldMismatch(
            f"a world is running with {' and '.join(differs)}",
            hint="world.stop() ends it" + ("; world.set_mode changes the mode" if "mode" in differs[-1] else ""),
        )
    return running


def _room_for(num_ranks: int) -> None:
    needed, free = num_ranks * RANK_BYTES, free_memory_bytes()
    if needed > free:
        fits = max(1, free // RANK_BYTES)
        raise NotEnoughMemory(
            f"{num_ranks} ranks need about {format_bytes(needed)} and {format_bytes(free)} are free",
            hint=f"give at most ranks={fits}",
            needed_bytes=needed,
            free_bytes=free,
        )


def _space_for(num_ranks: int) -> None:
    """Beacons and logs need a little room; a full disk would end a rank later with a bus error."""
    root = run_root()
    there = next(folder for folder in (root, *root.parents) if folder.exists())
    free, needed = shutil.disk_usage(there).free, num_ranks * DISK_BYTES_PER_RANK
    if free < needed:
        raise StartError(
            f"{format_bytes(free)} are free in {there} and {num_ranks} ranks need {format_bytes(needed)}",
            hint="free some space, or set LABKIT_RUN_ROOT to another folder",
            free_bytes=free,
            needed_bytes=needed,
        )


def make_seats(num_ranks: int, backend: str, gpus: list[Gpu], layout: HostLayout | None = None) -> list[Seat]:
    """One seat per rank: its device and its environment; ranks go round the GPUs if they share."""
    seats, chosen = [], BACKENDS[backend]
    for rank in range(num_ranks):
        env = seat_environment(num_ranks) | chosen.environment(rank, num_ranks, gpus, os.environ)
        if layout is not None:
            env |= layout.environment(rank, backend)
        seats.append(Seat(rank, device=chosen.device, env=env, host=f"host {layout.places[rank]}" if layout else "localhost"))
    return seats


def _up(
    seats: list[Seat], backend: str, launcher: str, mode: str, group_timeout_s: float, say: Callable[[str], None],
    layout: HostLayout | None,
) -> Cluster:  # fmt: skip
    """A cluster that runs; where "auto" finds that forking does not work, subprocesses take over."""
    try:
        return _try_up(seats, backend, launcher, mode, group_timeout_s, say, layout)
    except StartError:
        if launcher != "auto" or not can_fork():
            raise
        HOLDER.drop_server()
        say("the fork server did not work here; starting a process for each rank")
        return _try_up(seats, backend, "subprocess", mode, group_timeout_s, say, layout)


def _try_up(
    seats: list[Seat], backend: str, launcher: str, mode: str, group_timeout_s: float, say: Callable[[str], None],
    layout: HostLayout | None,
) -> Cluster:  # fmt: skip
    folder = RunFolder.create()
    cluster: Cluster | None = None
    try:
        made = _launcher(launcher, folder)
        cluster = Cluster(folder, made, seats, backend=backend, group_timeout_s=group_timeout_s, layout=layout)
        cluster.start(mode, say)
    except BaseException:
        if cluster is not None:
            cluster.stop(keep_hosts=True)  # another try may need them
        else:
            folder.remove()
        raise
    return cluster


def _launcher(name: str, folder: RunFolder) -> Launcher:
    if name == "subprocess" or (name == "auto" and not can_fork()):
        return ProcessLauncher(folder)
    return ForkLauncher(HOLDER.server, folder)


def can_fork() -> bool:
    """Whether the fork server may be used: Linux has the calls it rests on."""
    return sys.platform.startswith("linux") and hasattr(os, "fork")
