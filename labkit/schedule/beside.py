"""Reads what another tool has measured: nccl-tests, the OSU MPI benchmarks, or labkit's own CSV.

Sizes are brought to S as nccl-tests counts it. OSU gives the size of one rank's piece for allgather, alltoall, gather,
scatter and reduce_scatter, and does not say how many ranks there were; so those are taken times our own number.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator

from ..errors import UsageError
from ..plain import record

_NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "bcast": "broadcast",
    "broadcast": "broadcast", "reduce": "reduce", "alltoall": "all_to_all", "gather": "gather", "scatter": "scatter",
}  # fmt: skip
_PIECES = ("all_gather", "reduce_scatter", "all_to_all", "gather", "scatter")
_NCCL_TEST = re.compile(r"\b([a-z_]+)_perf\b")
_NCCL_ROW = re.compile(r"^\s*(\d+)\s+\d+\s+[a-z]\w*\s+(.*)$")
_OSU_TITLE = re.compile(r"#\s*OSU MPI\S*\s+(.*?)\s+Latency Test", re.IGNORECASE)
_OSU_ROW = re.compile(r"^\s*(\d+)\s+([\d.]+)(?:\s|$)")


@record
class Beside:
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


def read_beside(text: str, world_size: int) -> Beside:
    """What a result file says; UsageError if it is none that is known.

    >>> read_beside("# OSU MPI Allreduce Latency Test v7.5\\n# Size  Avg Latency(us)\\n1024  12.50\\n", 4).times
    (1.25e-05,)
    """
    readers: tuple[Callable[[str, int], Beside | None], ...] = (_own, _osu, _nccl)
    for reader in readers:
        found = reader(text, world_size)
        if found is not None:
            return found
    raise UsageError(
        "this is no result that can be read", hint="give the output of nccl-tests, of an OSU MPI benchmark, or labkit's own --csv"
    )


def _made(tool: str, collective: str, pairs: Iterator[tuple[int, float]], note: str = "") -> Beside | None:
    taken = [(size, time_s) for size, time_s in pairs if size > 0 and time_s > 0]
    return Beside(tool, collective, tuple(s for s, _ in taken), tuple(t for _, t in taken), note) if taken else None


def _nccl(text: str, world_size: int) -> Beside | None:
    """Rows of size, count, type, [redop, [root,]] time, algbw, busbw, #wrong: out of place, then the same in place."""
    if not re.search(r"^#\s+size\s+count\s+type\b", text, flags=re.M):
        return None
    named = _NCCL_TEST.search(text)
    return _made("nccl-tests", _name(named[1]) if named else "", _nccl_rows(text))


def _nccl_rows(text: str) -> Iterator[tuple[int, float]]:
    for line in text.splitlines():
        row = _NCCL_ROW.match(line)
        if row is None:
            continue
        words = row[2].split()
        while words and not re.fullmatch(r"\d+\.\d+|\d+", words[0]):
            words.pop(0)  # redop
        if words and re.search(r"\broot\b", text) and len(words) in (5, 9):
            words.pop(0)  # root
        if words:
            yield int(row[1]), float(words[0]) / 1e6


def _osu(text: str, world_size: int) -> Beside | None:
    title = _OSU_TITLE.search(text)
    if title is None:
        return None
    collective = _name(title[1])
    times = world_size if collective in _PIECES else 1
    rows = ((int(m[1]) * times, float(m[2]) / 1e6) for line in text.splitlines() if (m := _OSU_ROW.match(line)))
    note = f"OSU counts one rank's piece; taken times {world_size} ranks" if times > 1 else ""
    return _made("OSU", collective, rows, note)


def _own(text: str, world_size: int) -> Beside | None:
    if not text.startswith("name,collective,"):
        return None
    found = list(csv.DictReader(io.StringIO(text)))
    try:
        first = found[0]["name"] if found else ""
        rows = [(int(row["size_bytes"]), float(row["time_us"]) / 1e6) for row in found if row["name"] == first]
        return _made("labkit", found[0]["collective"] if found else "", iter(rows))
    except (KeyError, ValueError, TypeError):
        return None


def _name(text: str) -> str:
    return _NAMES.get(re.sub(r"[^a-z]", "", text.lower()), "")
