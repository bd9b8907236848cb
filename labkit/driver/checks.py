"""What is held against a request before it is sent, and against its outcomes after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import DeadlineExceeded, RankBusy, RankDead, RankRaised, UnknownName, UsageError, join_ranks, shown
from ..units import is_number, is_whole
from ..wire import Outcome

if TYPE_CHECKING:
    from .cluster import Cluster
    from .transport import Pending


def targets_of(ranks: Sequence[int] | int | None, world_size: int) -> tuple[int, ...]:
    """The ranks that a request names, in order; UsageError for one that the world does not have."""
    if ranks is None:
        return tuple(range(world_size))
    try:
        chosen = (ranks,) if isinstance(ranks, int) else tuple(ranks)
    except TypeError:
        raise UsageError(f"ranks must be integers, not {shown(ranks)}", hint="give numbers, for example ranks=[0, 2]") from None
    wrong = [rank for rank in chosen if not is_whole(rank) or not 0 <= rank < world_size]
    if wrong or not chosen:
        there = "rank 0" if world_size == 1 else f"ranks 0-{world_size - 1}"
        what = f"no rank {shown(wrong[0])}" if wrong else "no rank was named"
        raise UsageError(what, hint=f"this world has {there}", ranks=tuple(wrong))
    return tuple(sorted(set(chosen)))


def ready_ranks(ranks: Sequence[int] | int | None, cluster: Cluster, pending: Mapping[int, Pending]) -> tuple[int, ...]:
    """The ranks a request may go to; an error for those that are not there, dead, or busy."""
    cluster.check_reachable()
    targets = targets_of(ranks, cluster.world_size)
    dead = [rank for rank in targets if cluster.seats[rank].exit_code is not None]
    if dead:
        raise RankDead(
            f"the process of {join_ranks(dead)} has exited",
            hint=f"world.recover() replaces {'it' if len(dead) == 1 else 'them'}",
            ranks=dead,
        )
    busy = [rank for rank in targets if rank in pending and not pending[rank].done]
    if busy:
        run = "runs" if len(busy) == 1 else "run"
        raise RankBusy(
            f"{join_ranks(busy)} still {run} {pending[busy[0]].what}",
            hint=f"world.diagnose() says why; world.recover() frees {'it' if len(busy) == 1 else 'them'}",
            ranks=busy,
        )
    return targets


def check_code(code: object) -> None:
    """UsageError for what is no text of a cell."""
    if not isinstance(code, str):
        raise UsageError(f"a cell is text, not {shown(code)}", hint='for example world.run_cell("print(rank)")')


def check_deadline(seconds: float) -> float:
    """A deadline that can be one; UsageError else."""
    if not is_number(seconds) or not 0 < seconds <= 86400:
        raise UsageError(f"{shown(seconds)} is not a valid deadline", hint="give seconds above 0, for example deadline_s=10")
    return float(seconds)


def raise_first(op: str, outcomes: Sequence[Outcome]) -> None:
    """Raise for the first rank on which an op failed, with the rank's own words."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if not failed:
        return
    first = failed[0]
    if first.status == "dead":
        raise RankDead(f"rank {first.rank} died in {op}", hint="world.recover() replaces it", ranks=[first.rank])
    if first.status == "late":
        late = [outcome.rank for outcome in failed if outcome.status == "late"]
        raise DeadlineExceeded(
            f"{join_ranks(late)} did not answer {op} in time",
            hint="give it more: deadline_s=...; world.recover() frees the ranks",
            ranks=late,
        )
    error = first.error
    text = error.message if error is not None else first.status
    if error is not None and error.type in ("UnknownName", "UsageError"):
        what, _, hint = text.partition("; ")
        raise (UnknownName if error.type == "UnknownName" else UsageError)(what, hint=hint, rank=first.rank)
    kind = f"{error.type}: " if error else ""
    raise RankRaised(f"rank {first.rank}: {kind}{text}", hint="see world.status()", ranks=[o.rank for o in failed])
