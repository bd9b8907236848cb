"""`labkit bench`: starts a world, sweeps, and prints what the field's own tools print."""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import json
import shutil
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import UsageError, count, shown

if TYPE_CHECKING:
    from .schedule.external import ExternalResults
    from .schedule.sweeps import Point, Sweep

EXAMPLES = """\
From four sizes on the last line is a fit of the times: what a message takes,
the bandwidth of a link, how far the fit is typically off, and by how much it
misses a size that it has not seen (-20%: it says less than was measured).

examples:
  labkit bench --sizes 1K:64M:8 --collectives all_reduce,ring
  labkit bench --ranks 4 --hosts 2 --rate 200mbit --members 0,2
  labkit bench --beside results-of-nccl-tests.txt
"""
LARGEST_TEXT = 16 << 20  # a file of results has some kilobytes


def add_options(parser: argparse.ArgumentParser, number_of_ranks: Callable[[str], int]) -> None:
    """The command's options."""
    parser.add_argument("--ranks", type=number_of_ranks, metavar="N", help="ranks (default: LABKIT_RANKS, or 4)")
    parser.add_argument("--backend", default="auto", metavar="NAME", help="gloo or nccl (default: what the machine has)")
    parser.add_argument("--sizes", default="1K:16M:4", metavar="FROM:TO:FACTOR", help="or a list, 1K,1M (default: 1K:16M:4)")
    parser.add_argument(
        "--collectives", default="all_reduce", metavar="NAMES", help="all_reduce,all_gather,... or schedules: ring,binomial-tree"
    )
    parser.add_argument("--dtype", default="float32", metavar="TYPE", help="float32, bfloat16, int64, ... (default: float32)")
    parser.add_argument("--op", default="sum", metavar="OP", help="sum, avg, max, min, product (default: sum)")
    parser.add_argument("--rounds", type=int, default=7, metavar="N", help="measured rounds a size (default: 7)")
    parser.add_argument("--warmups", type=int, default=2, metavar="N", help="rounds before that (default: 2)")
    parser.add_argument("--members", default="", metavar="RANKS", help="only these take part: 0,2 (default: all)")
    parser.add_argument(
        "--hosts", default="0", metavar="N", help="ranks on N hosts made for this, or 'up': those of labkit hosts up"
    )
    parser.add_argument("--rate", default="", metavar="RATE", help="of each host's link: 1gbit, 200mbit")
    parser.add_argument("--delay", default="", metavar="TIME", help="from a host to another, one way: 2ms")
    parser.add_argument("--beside", type=Path, metavar="FILE", help="show a result of nccl-tests, OSU MPI or labkit's CSV too")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON document instead of the table")
    form.add_argument("--csv", action="store_true", help="CSV instead of the table")
    parser.formatter_class, parser.epilog = argparse.RawDescriptionHelpFormatter, EXAMPLES


def run(options: argparse.Namespace) -> int:
    """Measure and print; 130 if it was interrupted, and what was measured until then is printed all the same."""
    text = _read(options.beside) if options.beside is not None else None
    _check(options, text)
    from .driver.start import start

    world = start(options.ranks, options.backend, hosts=_hosts(options.hosts), rate=options.rate, delay=options.delay)
    try:
        names = options.collectives.split(",")
        found = world.sweep(
            options.sizes, names, dtype=options.dtype, op=options.op, rounds=options.rounds, warmups=options.warmups,
            ranks=_members(options.members), on_progress=_progress if sys.stderr.isatty() else None,
        )  # fmt: skip
    finally:
        world.stop()
    _clear()
    beside = _beside(text, found.world_size) if text is not None else None
    sys.stdout.write(render(found, beside, form="json" if options.json else "csv" if options.csv else "table"))
    if options.json or options.csv:
        _warn_incomplete(found)
    return 130 if found.interrupted else 1 if found.error else 0


def _warn_incomplete(found: Sweep) -> None:
    """Say on standard error that the results are not complete: output for programs has no line for it."""
    sys.stdout.flush()
    said = "interrupted: what was measured until then is written" if found.interrupted else ""
    said = said or (f"ended early: {found.error}" if found.error else "")
    if said:
        with contextlib.suppress(OSError):  # the exit code says it as well
            sys.stderr.write(f"labkit: {' '.join(said.split())}\n")


def render(found: Sweep, beside: ExternalResults | None, form: str) -> str:
    """A sweep as "table", "csv" or "json"."""
    from .plain import to_plain
    from .schedule.sweeps import rows, table, to_csv

    if form == "csv":
        return to_csv(found)
    if form == "json":
        head = {"backend": found.backend, "ranks": found.world_size, "torch": _torch(), "warmups": found.warmups}
        head |= {"where": found.where}
        ending = {"interrupted": found.interrupted, "error": found.error}
        plain = {**head, **ending, "rows": rows(found), "sweep": to_plain(found), "beside": to_plain(beside)}
        return json.dumps(plain, indent=2, allow_nan=False) + "\n"
    ranks, rounds = count(found.world_size, "rank"), count(found.warmups, "round")
    lines = [f"# labkit bench: {found.backend}, torch {_torch()}, {ranks}, {rounds} to warm up"]
    if beside is not None:
        lines.append(f"# beside: {beside.tool}{', ' + beside.collective if beside.collective else ''}{_note(beside)}")
    return "\n".join([*lines, table(found, beside)]) + "\n"


def _note(beside: ExternalResults) -> str:
    return f"; {beside.note}" if beside.note else ""


def _torch() -> str:
    return importlib.metadata.version("torch")


def _check(options: argparse.Namespace, text: str | None) -> None:
    """Refuse wrong options before a world is started, which takes seconds."""
    from .driver.checks import targets_of
    from .instruments.arguments import check_once, check_op, check_rounds, contestants
    from .units import parse_sizes

    parse_sizes(options.sizes)
    contestants(options.collectives.split(","))
    check_op(options.op, options.dtype)
    check_rounds(options.rounds)
    check_rounds(options.warmups, 0)
    members = _members(options.members)
    check_once(members)
    if options.ranks is not None:
        targets_of(members, options.ranks)
    if text is not None:
        _beside(text, options.ranks or 1)


def _members(text: str) -> list[int] | None:
    parts = text.split(",") if text else []
    if not all(_is_number(part.strip()) for part in parts):
        raise UsageError(f"ranks can't be {shown(text)}", hint="give numbers, for example --members 0,2")
    return [int(part) for part in parts] or None


def _hosts(text: str) -> int | str:
    return int(text) if _is_number(text) else text


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 6


def _read(path: Path) -> str:
    """The text of a file of results. Anything but a file is refused: reading a pipe may never end."""
    text: bytes | None = None
    try:
        if stat.S_ISREG(path.stat().st_mode):
            with path.open("rb") as file:
                text = file.read(LARGEST_TEXT + 1)
    except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"{shown(str(path))} can't be read: {reason}", hint="give a file of results") from None
    if text is None:
        raise UsageError(f"{shown(str(path))} is not a file", hint="keep the tool's output in one")
    if len(text) > LARGEST_TEXT:
        raise UsageError(f"{shown(str(path))} is too large for a table of results", hint="give the tool's own output")
    return text.decode(errors="replace")


def _beside(text: str, world_size: int) -> ExternalResults:
    from .schedule.external import read_results

    return read_results(text, world_size)


def _progress(done: int, total: int, point: Point) -> None:
    from .units import format_bytes

    width = shutil.get_terminal_size((80, 24)).columns - 1
    bar = "#" * (20 * done // total)
    text = f"[{bar:<20}] {done}/{total} {point.name} {format_bytes(point.num_bytes)}"
    sys.stderr.write(f"\r{text[:width]:<{width}}")
    sys.stderr.flush()


def _clear() -> None:
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
