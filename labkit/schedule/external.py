"""Reads what another tool has measured: nccl-tests, the OSU MPI benchmarks, or labkit's own CSV.

Sizes are brought to S as nccl-tests counts it. OSU gives the size of one rank's piece for allgather, alltoall, gather,
scatter and reduce_scatter, and does not say how many ranks there were; so those are taken times our own number.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator

from ..errors import UsageError, shown
from ..plain import record

_NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "bcast": "broadcast",
    "broadcast": "broadcast", "reduce": "reduce", "alltoall": "all_to_all", "gather": "gather", "scatter": "scatter",
}  # fmt: skip
_PIECES = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_NCCL_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_NCCL_HEAD = re.compile(r"^#\s+(size\s+count\s+type\b.*)$", re.MULTILINE)
_NCCL_ROW = re.compile(r"^\s*[0-9]+\s+[0-9]+\s+[a-z]\w*\s")
_OSU_TITLE = re.compile(r"#\s*OSU MPI\S*\s+(.*?)\s+Latency Test", re.IGNORECASE)
_OSU_ROW = re.compile(r"^\s*([0-9]+)\s+([-+.0-9][-+.0-9eE]*|[-+]?(?:nan|inf))(?:\s|$)", re.IGNORECASE)
LONGEST_S = 86_400.0  # a call that took longer is none


@record
class ExternalResults:
    """Another tool's results: `sizes` in bytes as nccl-tests counts them, `times` in seconds.

    `collective` is "" where the file does not say.
    """

    tool: str
    collective: str
    sizes: tuple[int, ...]
    times: tuple[float, ...]
    note: str = ""

    def time_s(self, num_bytes: int) -> float | None:
        """Their time at exactly this size."""
        return dict(zip(self.sizes, self.times, strict=True)).get(num_bytes)


def read_results(text: str, world_size: int) -> ExternalResults:
    """What a result file says; UsageError for an unknown format.

    >>> read_results("# OSU MPI Allreduce Latency Test v7.5\\n# Size  Avg Latency(us)\\n1024  12.50\\n", 4).times
    (1.25e-05,)
    """
    readers: tuple[Callable[[str, int], ExternalResults | None], ...] = (_own, _osu, _nccl)
    for reader in readers:
        found = reader(text, world_size)
        if found is not None:
            return found
    raise UsageError(
        "unknown format of results", hint="give the output of nccl-tests, of an OSU MPI benchmark, or labkit's own --csv"
    )


def _made(tool: str, collective: str, pairs: Iterator[tuple[int, float]], note: str = "") -> ExternalResults | None:
    taken = [(size, time_s) for size, time_s in pairs if size > 0 and time_s > 0]
    return ExternalResults(tool, collective, tuple(s for s, _ in taken), tuple(t for _, t in taken), note) if taken else None


def _nccl(text: str, world_size: int) -> ExternalResults | None:
    """Rows of size, count, type, [redop, [root,]] time, algbw, busbw, #wrong: out of place, then the same in place."""
    head = _NCCL_HEAD.search(text)
    columns = head[1].split() if head else []
    if "time" not in columns:
        return None
    named, at = _NCCL_TEST.search(text), columns.index("time")
    rows = ((line, line.split()) for line in text.splitlines() if _NCCL_ROW.match(line))
    pairs = (_pair(words[0], words[at] if len(words) > at else "", line) for line, words in rows)
    return _made("nccl-tests", _name(named[1]) if named else "", pairs)


def _pair(size: str, time_us: str, line: str) -> tuple[int, float]:
    """Bytes and seconds of one line; UsageError for what can't be, since a table with a damaged line is damaged."""
    try:
        time_s = float(time_us) / 1e6
    except ValueError:
        time_s = math.nan
    if not re.fullmatch("[0-9]{1,15}", size) or not 0 <= time_s <= LONGEST_S:
        hint = "give the tool's own output, whole and as it was"
        raise UsageError(f"no size and time in the line {shown(line.strip())}", hint=hint)
    return int(size), time_s


def _osu(text: str, world_size: int) -> ExternalResults | None:
    title = _OSU_TITLE.search(text)
    if title is None:
        return None
    collective = _name(title[1])
    times = world_size if collective in _PIECES else 1
    found = (_pair(m[1], m[2], line) for line in text.splitlines() if (m := _OSU_ROW.match(line)))
    rows = ((size * times, time_s) for size, time_s in found)
    note = f"OSU counts one rank's piece; taken times {world_size} ranks" if times > 1 else ""
    return _made("OSU", collective, rows, note)


def _own(text: str, world_size: int) -> ExternalResults | None:
    if not text.startswith("name,collective,"):
        return None
    try:
        found = [row for row in csv.DictReader(io.StringIO(text)) if row["name"] and row["collective"]]
        lines = [(row["size_bytes"] or "", row["time_us"] or "") for row in found if row["name"] == found[0]["name"]]
    except (KeyError, csv.Error):  # an Error: a field of more than 131,072 characters
        return None
    rows = (_pair(size, time_us, f"{size},{time_us}") for size, time_us in lines)
    return _made("labkit", _name(found[0]["collective"]) if found else "", rows)


def _name(text: str) -> str:
    return _NAMES.get(re.sub(r"[^a-z]", "", text.lower()), "")
