"""Reads NCCL's log: what NCCL_DEBUG=INFO prints with NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING, of one rank or of many.

Each pattern names the file of NCCL's source that prints it; they were read in 2.30.7 and, where the format has changed,
in 2.18 to 2.29. Lines that are not known are passed over: the log is for people, and every version adds to it. Lines
that begin like a known one and can't be true are passed over too, and counted.

A log may tell of several communicators (each group has one, each generation new ones). A process prints what it
finds between the start and the end of an initialisation; the largest communicator is told, of several as large the newest.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..errors import UsageError
from .nccl_log import NcclChoice, NcclCost, NcclLink, NcclLog, NcclRing, NcclTree
from .records import Source

ALGORITHMS = ("tree", "ring", "collnet-direct", "collnet-chain", "nvls", "nvls-tree", "pat")  # by number: include/nccl_common.h
PROTOCOLS = ("LL", "LL128", "Simple")
_LONGEST = 1 << 16  # characters of a message: a ring of ten thousand ranks; a longer one is a damaged file

# debug.cc: host:pid:tid [device]; launchers may put words of their own in front
_PREFIX = re.compile(r"(?<![^\s:\[\]])(?P<host>[^\s:\[\]]+):(?P<pid>\d+):(?P<tid>\d+) \[\d+\] NCCL INFO ")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)")  # init.cc; at level VERSION without a prefix
# init.cc; a communicator that is split off has no id, and is counted by its parent ("splitCount", since 2.28 "childCount")
_START = re.compile(r"rank (?P<rank>\d+) nranks (?P<size>\d+) ")
_ID = re.compile(r"commId (0x[0-9a-f]+)|(?:split|child)Count (\d+) color (-?\d+)")
_NODES = re.compile(r"^comm \S+ rank (?P<rank>\d+) nRanks (?P<size>\d+) nNodes \d+")  # init.cc, since 2.20
_RING = re.compile(r"^Channel (\d+)/(\d+) :((?:\s+\d+)+)\s*(\.\.\.)?$")  # graph/rings.cc; up to 2.22 cut after 20 ranks
_NEIGHBOURS = re.compile(r"^Ring (\d+) : (\d+) -> (\d+) -> (\d+)\s*$")  # init.cc (GRAPH), by each rank
_TREES = re.compile(r"^Trees((?: \[\d+\] \S+)+)")  # init.cc, by each rank
_PLACE = re.compile(r"\[(\d+)\] (-?\d+)/(-?\d+)/(-?\d+)->(\d+)->(-?\d+)")
# transport/p2p.cc, transport/shm.cc (no connection number), transport/net.cc; in old versions a bus id in the brackets
_LINK = re.compile(r"^Channel (\d+)(?:/\d+)? : (\d+)\[\w+\] -> (\d+)\[\w+\](?: \[(?:send|receive)\])? via (\S+)")
_CHANNELS = re.compile(r"^(\d+) coll channels, ")  # init.cc
# graph/tuning.cc: blocks of three algorithms, each with three protocols, on rank 0
_ALGORITHMS = re.compile(r"^\s*Algorithm\s+\|(.*)")
_COSTS = re.compile(r"^\s*(Broadcast|Reduce|AllGather|ReduceScatter|AllReduce) \|((?:\s*[\d.]+/\s*[\d.]+ \|)+)")
_PAIR = re.compile(r"([\d.]+)/\s*([\d.]+) \|")
# enqueue.cc, on rank 0: since 2.24 with names and channels; 2.20 to 2.23 with numbers and the time, the op since 2.23
_NAMED = re.compile(r"^(\w+): (\d+) Bytes -> Algo (\w+) proto (\w+) channel\{Lo\.\.Hi\}=\{(\d+)\.\.(\d+)\}")
_NUMBERED = re.compile(r"^(?:(\w+): )?(\d+) Bytes -> Algo (\d) proto (\d) time ([\d.]+)")
# scheduler/symmetric_sched.cc: kernels for memory that all ranks have mapped alike
_SYMMETRIC = re.compile(r"^(\w+) \[Symmetric\]: (\d+) Bytes -> Kernel (\w+) nchannels (\d+)")


@dataclass
class _Comm:
    """What has been read of one communicator."""

    size: int = 0
    num_channels: int = 0
    host_of: dict[int, str] = field(default_factory=dict)
    rings: dict[int, tuple[int, ...]] = field(default_factory=dict)
    next_of: dict[int, dict[int, int]] = field(default_factory=dict)
    trees: dict[tuple[int, int], NcclTree] = field(default_factory=dict)
    links: dict[tuple[int, int, int], NcclLink] = field(default_factory=dict)
    costs: dict[tuple[str, str, str], NcclCost] = field(default_factory=dict)


class _Reader:
    """Takes messages one by one."""

    def __init__(self) -> None:
        self.version = ""
        self.comms: dict[str, _Comm] = {}
        self.newest: dict[str, int] = {}  # how many communicators a process had started by then
        self.started: list[str] = []  # in this text
        self.at: dict[tuple[str, ...], str] = {}  # the communicator that a thread, or else its process, is about
        self.columns: dict[tuple[str, ...], list[str]] = {}  # the algorithms of the table's block that a process prints
        self.choices: dict[tuple[object, ...], NcclChoice] = {}
        self.num_messages = self.num_odd = 0

    def take(self, host: str, pid: str, tid: str, text: str) -> None:
        """Raises ValueError for what begins like a known line and is none."""
        self.num_messages += 1
        if len(text) > _LONGEST:
            raise ValueError("longer than anything that NCCL prints")
        if match := _START.search(text) if "- Init START" in text or "-Init START" in text else None:
            name = _ID.search(text)
            key = "" if name is None else name[1] or f"split {name[2]}/{name[3]}"
            self.at[host, pid, tid] = self.at[host, pid] = key
            self._know(self.comms.setdefault(key, _Comm()), match, host)
            if key not in self.started:
                self.started.append(key)
            self.newest[key] = max(self.newest.get(key, 0), len(self.started))
            return
        key = self.at.get((host, pid, tid), self.at.get((host, pid), ""))
        comm = self.comms.setdefault(key, _Comm())
        if not (self._shape(comm, host, text) or self._table(comm, (host, pid), text)):
            self._choice(text)

    @staticmethod
    def _know(comm: _Comm, match: re.Match[str], host: str) -> None:
        comm.size = max(comm.size, int(match["size"]))
        comm.host_of[int(match["rank"])] = host

    def _shape(self, comm: _Comm, host: str, text: str) -> bool:
        if match := _LINK.match(text):
            channel, source, target = (int(match[i]) for i in (1, 2, 3))
            comm.links.setdefault((channel, source, target), NcclLink(channel, source, target, match[4]))
        elif match := _RING.match(text):
            ranks = [int(rank) for rank in match[3].split()]
            ranks = ranks[:-1] if match[4] else ranks  # "..." may stand in the middle of a number
            if len(set(ranks)) < len(ranks):
                raise ValueError("a ring that passes a rank twice")
            comm.rings[int(match[1])] = tuple(ranks)
            comm.num_channels = max(comm.num_channels, int(match[2]))
        elif match := _NEIGHBOURS.match(text):
            comm.next_of.setdefault(int(match[1]), {})[int(match[3])] = int(match[4])
        elif match := _TREES.match(text):
            for channel, *children, rank, parent in (map(int, place) for place in _PLACE.findall(match[1])):
                kept = tuple(child for child in children if child >= 0)
                comm.trees[channel, rank] = NcclTree(channel, rank, None if parent < 0 else parent, kept)
                comm.host_of.setdefault(rank, host)
        elif match := _NODES.match(text):
            self._know(comm, match, host)
        elif match := _CHANNELS.match(text):
            comm.num_channels = int(match[1])
        return match is not None

    def _table(self, comm: _Comm, process: tuple[str, ...], text: str) -> bool:
        if match := _ALGORITHMS.match(text):
            self.columns[process] = [_kebab(name.strip()) for name in match[1].split("|") if name.strip()]
        elif (match := _COSTS.match(text)) and process in self.columns:
            op, columns = _op(match[1]), self.columns[process]
            for place, (latency, bandwidth) in enumerate(_PAIR.findall(match[2])):
                if float(bandwidth) > 0 and place // 3 < len(columns):  # 0 switches an option off
                    name = (op, columns[place // 3], PROTOCOLS[place % 3])
                    comm.costs[name] = NcclCost(*name, float(latency), float(bandwidth))
        return match is not None

    def _choice(self, text: str) -> None:
        if match := _NAMED.match(text):
            protocol = next((each for each in PROTOCOLS if each.upper() == match[4].upper()), match[4])
            num_channels = int(match[6]) - int(match[5]) + 1
            found = NcclChoice(_op(match[1]), int(match[2]), _kebab(match[3]), protocol, num_channels)
        elif match := _NUMBERED.match(text):
            algorithm, protocol = (_at(names, match[i]) for names, i in ((ALGORITHMS, 3), (PROTOCOLS, 4)))
            found = NcclChoice(_op(match[1] or ""), int(match[2]), algorithm, protocol, None, float(match[5]))
        elif match := _SYMMETRIC.match(text):
            found = NcclChoice(_op(match[1]), int(match[2]), "symmetric", match[3], int(match[4]))
        else:
            return
        key = (found.op, found.num_bytes, found.algorithm, found.protocol, found.num_channels)
        earlier = self.choices.get(key)
        self.choices[key] = replace(found, num_calls=1 + (earlier.num_calls or 0 if earlier else 0))


def read_nccl_log(*texts: str, source: Source | None = None) -> NcclLog:
    """The record of a log's text, or of several ranks' texts; UsageError if NCCL has not written any of it.

    >>> log = read_nccl_log("n:1:2 [0] NCCL INFO AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..1}")
    >>> log.of("all_reduce")[0].protocol, log.of("all_reduce")[0].num_channels
    ('LL', 2)
    """
    reader = _Reader()
    for text in texts:
        for version in _VERSION.findall(text)[:1]:
            reader.version = reader.version or version
        reader.started = []
        for message in _messages(text):
            try:
                reader.take(*message)
            except ValueError:  # no ring, or what looks like a number and is none: a line that is not as NCCL prints it
                reader.num_odd += 1
    if not reader.num_messages:
        lines = sum(len(text.splitlines()) for text in texts)
        raise UsageError(
            f"no line of NCCL's log in {lines} line{'s' if lines != 1 else ''}",
            hint="NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=INIT,GRAPH,TUNING must be set before NCCL starts",
        )
    comms = reader.comms or {"": _Comm()}
    name = max(comms, key=lambda each: (_size(comms[each]), reader.newest.get(each, 0)))
    return _log(reader, comms[name], source)


def _messages(text: str) -> Iterator[tuple[str, str, str, str]]:
    """Host, process, thread and text of each message, also where two share a line."""
    for line in text.splitlines():
        found = list(_PREFIX.finditer(line))
        for number, match in enumerate(found):
            end = found[number + 1].start() if number + 1 < len(found) else len(line)
            yield match["host"], match["pid"], match["tid"], line[match.end() : end].rstrip()


def _size(comm: _Comm) -> int:
    shown = {rank for ring in comm.rings.values() for rank in ring} | {rank for _, rank in comm.trees} | set(comm.host_of)
    return max(comm.size, max(shown, default=-1) + 1)


def _log(reader: _Reader, comm: _Comm, source: Source | None) -> NcclLog:
    size, hosts = _size(comm), dict[str, list[int]]()
    for rank, host in sorted(comm.host_of.items()):
        hosts.setdefault(host, []).append(rank)
    trees = tuple(place for _, place in sorted(comm.trees.items()))
    links = tuple(link for _, link in sorted(comm.links.items()) if not size or max(link.source, link.target) < size)
    num_channels = comm.num_channels or max((place.channel + 1 for place in trees), default=0)
    return NcclLog(
        reader.version, size, num_channels, tuple(map(tuple, hosts.values())), tuple(_rings(comm, size)), trees, links,
        tuple(comm.costs.values()), tuple(reader.choices.values()), source, reader.num_odd,
    )  # fmt: skip


def _rings(comm: _Comm, size: int) -> Iterator[NcclRing]:
    for channel in sorted({*comm.rings, *comm.next_of}):
        shown, follow = comm.rings.get(channel, ()), comm.next_of.get(channel, {})
        if len(shown) < size and len(follow) == size:  # every rank has named its neighbour
            shown = _walk(follow) or shown
        if shown:
            yield NcclRing(channel, shown, cut=len(shown) < size)


def _walk(follow: dict[int, int]) -> tuple[int, ...]:
    """The ring from rank 0 on; empty if what the ranks say is none.

    >>> _walk({0: 2, 1: 0, 2: 1}), _walk({0: 1, 1: 1})
    ((0, 2, 1), ())
    """
    ring, rank = dict[int, None](), 0
    while rank in follow and rank not in ring:
        ring[rank] = None
        rank = follow[rank]
    return tuple(ring) if rank == 0 and len(ring) == len(follow) else ()


def _op(name: str) -> str:
    """
    >>> _op("AllReduce"), _op("AlltoAll"), _op("")
    ('all_reduce', 'all_to_all', '')
    """
    return {"AlltoAll": "all_to_all"}.get(name, re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())


def _kebab(name: str) -> str:
    """
    >>> _kebab("NVLS_TREE"), _kebab("NVLSTree"), _kebab("CollNetDirect"), _kebab("RING")
    ('nvls-tree', 'nvls-tree', 'collnet-direct', 'ring')
    """
    plain = name.replace("_", "").replace("-", "").lower()
    return next((each for each in ALGORITHMS if each.replace("-", "") == plain), name.lower())


def _at(names: tuple[str, ...], number: str) -> str:
    return names[int(number)] if int(number) < len(names) else number
