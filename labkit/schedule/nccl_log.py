"""What NCCL says of itself: the record of its log, and recordings of logs for machines without a GPU.

`read_nccl_log` (in nccl_lines.py) makes the record of a log's text, `world.nccl_log()` of a live nccl world's. A recording
that ships with labkit holds the facts of a report that others have published; none of them was run by us, and each says so.

    log = recorded("two-sockets")        # or world.nccl_log() where there are GPUs
    log.of("broadcast")                  # what was chosen, by size
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from importlib import resources

from ..document import Printed
from ..errors import UsageError, count, join_ranks
from ..plain import loads, record
from ..registry import unknown
from ..units import format_bytes, format_seconds
from .records import Source, with_source

RECORDINGS = ("two-sockets", "two-hosts", "three-hosts")


@record
class NcclRing:
    """The ranks of one channel's ring, in the order in which they send; `cut` if the log shows only the first of them."""

    channel: int
    ranks: tuple[int, ...]
    cut: bool = False


@record
class NcclTree:
    """One rank's place in one channel's tree; `parent` is None at the root."""

    channel: int
    rank: int
    parent: int | None
    children: tuple[int, ...]


@record
class NcclLink:
    """A connection that was made, and by which transport: "P2P/IPC/read", "SHM/direct", "NET/IB/0/GDRDMA"."""

    channel: int
    source: int
    target: int
    transport: str


@record
class NcclCost:
    """A line of the tuner's table: the time it expects is `latency_us` + bytes / bandwidth, before its corrections."""

    op: str
    algorithm: str
    protocol: str
    latency_us: float
    gb_per_s: float

    def time_us(self, num_bytes: float) -> float:
        """Microseconds for a size.

        >>> NcclCost("broadcast", "ring", "LL", 9.3, 1.2).time_us(12000)
        19.3
        """
        return self.latency_us + num_bytes / (self.gb_per_s * 1e3)

    def __str__(self) -> str:
        return f"{self.op} by {self.algorithm} {self.protocol}: {self.latency_us:g} µs + bytes / {self.gb_per_s:g} GB/s"


@record
class NcclChoice:
    """What the tuner took for calls of one size; None is what that version of NCCL does not print."""

    op: str
    num_bytes: int
    algorithm: str
    protocol: str
    num_channels: int | None = None
    expected_us: float | None = None
    num_calls: int | None = None


@record
class NcclLog(Printed):
    """What a log says of a communicator (its largest, newest one) and of the choices made; what it lacks is empty.

    `hosts` are the ranks of each host that the log names: hosts have numbers here, not names. `num_odd` is the number of
    lines that begin like one that is known and can't be true, such as a ring that passes a rank twice: they are left out.
    """

    version: str = ""
    world_size: int = 0
    num_channels: int = 0
    hosts: tuple[tuple[int, ...], ...] = ()
    rings: tuple[NcclRing, ...] = ()
    trees: tuple[NcclTree, ...] = ()
    links: tuple[NcclLink, ...] = ()
    costs: tuple[NcclCost, ...] = ()
    choices: tuple[NcclChoice, ...] = ()
    source: Source | None = None
    num_odd: int = 0

    @property
    def missing(self) -> tuple[str, ...]:
        """What this log does not tell.

        >>> NcclLog(rings=(NcclRing(0, (0, 1)),)).missing
        ('trees', 'transports', 'the tuning table', 'choices by size')
        """
        parts = {
            "rings": self.rings, "trees": self.trees, "transports": self.links, "the tuning table": self.costs,
            "choices by size": self.choices,
        }  # fmt: skip
        return tuple(name for name, found in parts.items() if not found)

    @property
    def ops(self) -> tuple[str, ...]:
        """The collectives of which choices are known, in the order of the log."""
        return tuple(dict.fromkeys(choice.op for choice in self.choices))

    def of(self, op: str) -> tuple[NcclChoice, ...]:
        """The choices for a collective, smallest size first; UnknownName if there are none."""
        found = [choice for choice in self.choices if choice.op == op]
        if not found:
            raise unknown("collective with choices in this log:", op, self.ops)
        return tuple(sorted(found, key=lambda choice: choice.num_bytes))

    def regimes(self, op: str) -> list[tuple[NcclChoice, ...]]:
        """The choices for a collective, neighbouring sizes with the same algorithm and protocol together."""
        groups = itertools.groupby(self.of(op), key=lambda choice: (choice.algorithm, choice.protocol))
        return [tuple(choices) for _, choices in groups]

    def cost(self, op: str, algorithm: str, protocol: str) -> NcclCost:
        """The line of the tuner's table for an option; UsageError if the tuner does not have it."""
        for each in self.costs:
            if (each.op, each.algorithm, each.protocol) == (op, algorithm, protocol):
                return each
        known = ", ".join(f"{each.algorithm} {each.protocol}" for each in self.costs if each.op == op)
        raise UsageError(
            f"the table has no {algorithm} {protocol} for {op}",
            hint=f"it has {known}" if known else "NCCL_DEBUG_SUBSYS=TUNING prints the table, on rank 0",
        )

    def tree(self, channel: int) -> dict[int, NcclTree]:
        """The places of a channel's tree by rank; those that the log shows."""
        return {place.rank: place for place in self.trees if place.channel == channel}

    def root(self, channel: int) -> int | None:
        """The rank at the top of a channel's tree, None if the log does not show it."""
        return next((rank for rank, place in self.tree(channel).items() if place.parent is None), None)

    def host_of(self, rank: int) -> int | None:
        """The number of a rank's host, None if the log does not name it."""
        return next((number for number, ranks in enumerate(self.hosts) if rank in ranks), None)

    def shapes(self, what: str) -> list[tuple[tuple[int, ...], object]]:
        """Channels of the same shape together: of "rings" their ranks, of "trees" each rank's parent and children."""
        shape: dict[int, object] = {ring.channel: ring for ring in self.rings} if what == "rings" else {}
        if what == "trees":
            for channel in sorted({place.channel for place in self.trees}):
                shape[channel] = tuple(sorted(self.tree(channel).items()))
        groups: list[tuple[list[int], object, object]] = []
        for channel, found in sorted(shape.items()):
            same = _without_channel(found)
            group = next((each for each in groups if each[1] == same), None)
            if group is None:
                groups.append(([channel], same, found))
            else:
                group[0].append(channel)
        return [(tuple(channels), found) for channels, _, found in groups]

    @property
    def left_out(self) -> str:
        """What was not understood, in words; "" if all was.

        >>> NcclLog(num_odd=1).left_out
        '1 line of this log is not as NCCL prints it and is left out'
        """
        if not self.num_odd:
            return ""
        rest = "is not as NCCL prints it and is" if self.num_odd == 1 else "are not as NCCL prints them and are"
        return f"{count(self.num_odd, 'line')} of this log {rest} left out"


def _without_channel(found: object) -> object:
    if isinstance(found, NcclRing):
        return found.ranks, found.cut
    assert isinstance(found, tuple)
    return tuple((rank, place.parent, place.children) for rank, place in found)


# ---- text
def as_text(log: NcclLog) -> str:
    """All that the log says, in lines."""
    return with_source("\n".join(_lines(log)), log.source)


def channels_text(channels: Iterable[int]) -> str:
    """
    >>> channels_text([0]), channels_text([0, 1, 2]), channels_text([0, 8])
    ('channel 0', 'channels 0 to 2', 'channels 0, 8')
    """
    numbers = list(channels)
    if len(numbers) > 2 and all(two == one + 1 for one, two in itertools.pairwise(numbers)):
        return f"channels {numbers[0]} to {numbers[-1]}"
    return f"channel{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def head(log: NcclLog) -> str:
    """Version, ranks and channels in one line.

    >>> head(NcclLog(version="2.30.7", world_size=4, hosts=((0, 1, 2, 3),), num_channels=2))
    'NCCL 2.30.7: 4 ranks on 1 host, 2 channels'
    """
    hosts = f" on {len(log.hosts)} host{'s' if len(log.hosts) > 1 else ''}" if log.hosts else ""
    channels = f", {log.num_channels} channel{'s' if log.num_channels > 1 else ''}" if log.num_channels else ""
    return f"NCCL {log.version or 'of unknown version'}: {log.world_size or '?'} ranks{hosts}{channels}"


def ring_text(ring: NcclRing) -> str:
    """
    >>> ring_text(NcclRing(0, (0, 2, 1))), ring_text(NcclRing(0, (0, 2), cut=True))
    ('0 -> 2 -> 1 -> 0', '0 -> 2 -> ... (the log shows no more)')
    """
    order = " -> ".join(map(str, ring.ranks))
    return f"{order} -> ... (the log shows no more)" if ring.cut else f"{order} -> {ring.ranks[0]}"


def tree_text(places: dict[int, NcclTree]) -> str:
    """Parents with their children, from the root down; ranks whose parent the log does not show come last.

    >>> tree_text({0: NcclTree(0, 0, None, (1,)), 1: NcclTree(0, 1, 0, ())})
    'root 0; 0 has 1'
    """
    roots = [rank for rank, place in places.items() if place.parent is None]
    todo, seen = [*roots], []
    while todo:
        rank = todo.pop(0)
        if rank in places and rank not in seen:
            seen.append(rank)
            todo += places[rank].children
    order = [*seen, *(rank for rank in sorted(places) if rank not in seen)]
    parts = [f"{rank} has {' and '.join(map(str, places[rank].children))}" for rank in order if places[rank].children]
    return "; ".join([*(f"root {rank}" for rank in roots), *parts])


def regime_cells(regime: Sequence[NcclChoice]) -> tuple[str, str, str, str, str]:
    """Sizes for which the same was taken, as cells: sizes, algorithm, protocol, channels, expected time.

    >>> regime_cells([NcclChoice("broadcast", 1024, "ring", "LL", 1), NcclChoice("broadcast", 4096, "ring", "LL", 2)])
    ('1 KiB to 4 KiB', 'ring', 'LL', '1 to 2', '-')
    """
    first, last = regime[0], regime[-1]
    channels = sorted({choice.num_channels for choice in regime if choice.num_channels is not None})
    times = [choice.expected_us for choice in regime if choice.expected_us is not None]
    return (
        _span(format_bytes(first.num_bytes), format_bytes(last.num_bytes)), first.algorithm, first.protocol,
        _span(str(channels[0]), str(channels[-1])) if channels else "-",
        _span(format_seconds(times[0] / 1e6), format_seconds(times[-1] / 1e6)) if times else "-",
    )  # fmt: skip


def _span(low: str, high: str) -> str:
    return low if low == high else f"{low} to {high}"


def transports(log: NcclLog) -> list[str]:
    """Who is connected to whom, by transport."""
    found: dict[str, list[str]] = {}
    for link in log.links:
        pairs = found.setdefault(link.transport, [])
        if f"{link.source} -> {link.target}" not in pairs:
            pairs.append(f"{link.source} -> {link.target}")
    return [f"{transport}: {', '.join(pairs)}" for transport, pairs in sorted(found.items())]


def _lines(log: NcclLog) -> Iterable[str]:
    yield head(log)
    for number, ranks in enumerate(log.hosts):
        yield f"  host {number}: {join_ranks(list(ranks))}"
    for channels, found in log.shapes("rings"):
        assert isinstance(found, NcclRing)
        yield f"  ring, {channels_text(channels)}: {ring_text(found)}"
    for channels, _ in log.shapes("trees"):
        yield f"  tree, {channels_text(channels)}: {tree_text(log.tree(channels[0]))}"
    yield from (f"  {line}" for line in transports(log))
    yield from (f"  {each}" for each in log.costs)
    for op in log.ops:
        for sizes, algorithm, protocol, used, expected in map(regime_cells, log.regimes(op)):
            more = "; ".join(f"{name}: {cell}" for name, cell in (("channels", used), ("expected", expected)) if cell != "-")
            yield f"  {op or 'calls'} of {sizes}: {algorithm} {protocol}{f' ({more})' if more else ''}"
    if log.missing:
        yield f"  not in this log: {', '.join(log.missing)}"
    if log.left_out:
        yield f"  {log.left_out}"


# ---- recordings
def recorded(name: str = "two-sockets") -> NcclLog:
    """The facts of a log that others have published, for a machine without a GPU; it says where they come from.

    "two-sockets": the tuner's table and its choices for many sizes. "two-hosts": rings, trees and transports of eight
    ranks. "three-hosts": rings of 24 ranks, and the tuner's expected times.

    >>> recorded("two-hosts").root(1)
    5
    """
    if name not in RECORDINGS:
        raise unknown("recording", name, RECORDINGS)
    text = resources.files("labkit.schedule").joinpath("recordings", f"{name}.json").read_text(encoding="utf-8")
    found = loads(text)
    assert isinstance(found, NcclLog)
    return found
