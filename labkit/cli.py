"""The `labkit` command: doctor, stop, faults, labs, bench, hosts, version.

Nothing heavy is imported before it is needed: `labkit --help` loads neither torch nor ipyparallel.
Exit codes: 0 fine, 1 something does not work, 2 the command can't be right, 130 interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import errno
import io
import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

from . import bench
from .errors import LabkitError, UsageError, count, shown
from .hosts import command as hosts_command

if TYPE_CHECKING:
    from .doctor import CheckResult
    from .runfolder import WorldFound

_UNWRITTEN = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)  # of a full disk, or a closed file
COMMANDS = ("doctor", "stop", "faults", "labs", "bench", "hosts", "version")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; never raises, never shows a traceback for what is expected."""
    _open_streams()
    code = _told(argv)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:  # what is left in its buffer would change the exit code when Python ends
            _drop(stream)
    return code


def _told(argv: Sequence[str] | None) -> int:
    """The command's exit code; what went wrong is said on standard error."""
    try:
        _check_output()
        code = _run(sys.argv[1:] if argv is None else list(argv))
        sys.stdout.flush()
        return code
    except UsageError as error:
        return _complain(error, 2)
    except LabkitError as error:
        return _complain(error, 1)
    except KeyboardInterrupt:
        return _complain("interrupted", 130)
    except BrokenPipeError:
        # The reader has enough. What is still in the buffer has nowhere to go, also when Python exits.
        _drop(sys.stdout)
        return 141
    except OSError as error:
        if error.errno not in _UNWRITTEN or error.filename is not None:
            raise
        _drop(sys.stdout)
        return _complain(f"can't write to standard output: {error.strerror}", 1)


def _check_output() -> None:
    """Before anything runs or is measured: nobody would see what came of it."""
    if sys.stdout is None:
        raise UsageError("standard output is closed", hint="send it to a file, or to /dev/null")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without "µ" is no reason to stop


def _run(arguments: Sequence[str]) -> int:
    _check_command(arguments)
    try:
        options = _parser().parse_args(arguments)
        run: Callable[[argparse.Namespace], int] = options.run
        return run(options)
    except SystemExit as ending:  # argparse's --help and its errors
        return ending.code if isinstance(ending.code, int) else 2


def _complain(what: object, code: int) -> int:
    with contextlib.suppress(OSError):  # nobody reads it; the exit code says it as well
        print(f"labkit: {' '.join(str(what).split())}", file=sys.stderr)
    return code


def _open_streams() -> None:
    """Give standard input and error a place where they were closed: whatever is opened next would take their numbers."""
    for number, mode, name in ((0, "r", "stdin"), (2, "w", "stderr")):
        if getattr(sys, name) is not None:
            continue
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
        setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115 - open until the process ends


def _drop(stream: TextIO) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass  # it is no file; then there is no buffer to flush into it


class _Parser(argparse.ArgumentParser):
    """One line for a mistake instead of a page, and the nearest command for a misspelt one."""

    def print_help(self, file: Any = None) -> None:
        """argparse's own swallows it when nothing can be written."""
        (file or sys.stdout).write(self.format_help())

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"labkit: {message}; try '{self.prog} --help'\n")


def _check_command(arguments: Sequence[str]) -> None:
    """argparse's own message for an unknown command is a list; ours names the nearest one."""
    first = arguments[0] if arguments else ""
    if first.startswith("-") or first in COMMANDS:
        return
    near = difflib.get_close_matches(first, COMMANDS, n=1)
    hint = f"did you mean 'labkit {near[0]}'?" if near else f"there are: {', '.join(COMMANDS)}"
    raise UsageError(f"no command {first!r}" if first else "which command", hint=hint)


def _number_of_ranks(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and 1 <= int(text) <= 1024):
        raise argparse.ArgumentTypeError(f"{shown(text)} is not a number of ranks from 1 to 1024")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="labkit", description="See, break, diagnose and mend the communication of multi-GPU training.")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=_Parser)

    doctor = commands.add_parser("doctor", help="will it work on this machine?")
    doctor.add_argument("--json", action="store_true", help="one JSON document instead of text")
    doctor.add_argument("--ranks", type=_number_of_ranks, metavar="N", help="for N ranks (default: LABKIT_RANKS, or 4)")
    doctor.set_defaults(run=_doctor)

    stop = commands.add_parser("stop", help="end worlds that outlived their notebook")
    stop.add_argument("--all", action="store_true", help="also worlds whose notebook still runs")
    stop.add_argument("--yes", action="store_true", help="do not ask")
    stop.set_defaults(run=_stop)

    faults = commands.add_parser("faults", help="list the faults, or explain one")
    faults.add_argument("name", nargs="?", metavar="NAME")
    faults.set_defaults(run=_faults)

    labs = commands.add_parser("labs", help="list the labs, or write your own copies of them")
    labs.set_defaults(run=_labs, folder=None)
    start = labs.add_subparsers(metavar="start", parser_class=_Parser).add_parser("start", help="write your copies into DIR")
    start.add_argument("folder", metavar="DIR", help="a folder of yours; what you have changed there stays")
    start.add_argument("--lab", metavar="NN", help="only this one (default: all)")

    measure = commands.add_parser("bench", help="measure collectives and algorithms over sizes")
    bench.add_options(measure, _number_of_ranks)
    measure.set_defaults(run=bench.run)

    hosts = commands.add_parser("hosts", help="several hosts on this machine, with shaped links between them")
    hosts_command.add_options(hosts, _Parser)

    version = commands.add_parser("version", help="versions, platform and launch command")
    version.add_argument("--json", action="store_true", help="one JSON document instead of text")
    version.set_defaults(run=_version)
    return parser


def _doctor(options: argparse.Namespace) -> int:
    from .doctor import run_checks
    from .views import to_text
    from .wire import to_plain

    progress = sys.stderr.isatty() and not options.json

    def seen(result: CheckResult) -> None:
        sys.stderr.write(f"\r\x1b[Kchecked: {result.title} ..." if progress else "")

    report = run_checks(ranks=options.ranks, on_result=seen)
    sys.stderr.write("\r\x1b[K" if progress else "")
    if options.json:
        _print_json({**to_plain(report), "ok": report.ok})
    else:
        print(_tinted(to_text(report)) if sys.stdout.isatty() and "NO_COLOR" not in os.environ else to_text(report))
    return report.exit_code


_TINTS = {"ok": "32", "note": "36", "WARN": "1;33", "FAIL": "1;31"}


def _tinted(text: str) -> str:
    """The report with its status words in colour; they say the same without."""
    return re.sub(r"^(ok|note|WARN|FAIL)\b", lambda word: f"\x1b[{_TINTS[word[0]]}m{word[0]}\x1b[0m", text, flags=re.M)


def _stop(options: argparse.Namespace) -> int:
    from .runfolder import find_worlds, remove_folder, stop_world

    found = find_worlds()
    if found.distrust:
        raise LabkitError(found.distrust, hint="remove it, or set LABKIT_RUN_ROOT to a folder of your own")
    strays = [world for world in found.worlds if world.state == "stray"]
    owned = [world for world in found.worlds if world.state == "owned" and world.living] if options.all else []
    if owned and not options.yes:
        owned = owned if _agreed(owned) else []
    left = 0
    for world in [*strays, *owned]:
        ended = stop_world(world)
        left += len(world.living) - len(ended)
        print(f"{world.entry.world_id}: ended {count(len(ended), 'process', 'es')}{_pids(ended)}")
    removed = sum(remove_folder(world) for world in find_worlds().worlds if world.state == "dead")
    if removed:
        print(f"removed {count(removed, 'folder')} of ended worlds")
    elif not strays and not owned:
        print("nothing to stop")
    for world in found.worlds:
        if world.state == "elsewhere":
            print(f"left alone: {world.entry.world_id} belongs to another container")
    for folder in found.damaged:
        print(f"left alone: {folder} has no readable world.json")
    if left:
        raise LabkitError(f"{count(left, 'process', 'es')} could not be ended", hint="labkit doctor lists them")
    return 0


def _agreed(owned: Sequence[WorldFound]) -> bool:
    """Ask before ending a world that somebody may be working in; where nobody can answer, --yes is the answer."""
    living = sum(len(world.living) for world in owned)
    what = f"{count(len(owned), 'world')} with {count(living, 'process', 'es')} whose notebook still runs"
    if not sys.stdin.isatty():
        raise UsageError(f"--all would end {what}", hint="add --yes if that is meant")
    print(f"End {what}? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _pids(pids: Sequence[int]) -> str:
    return f" ({', '.join(map(str, pids))})" if pids else ""


def _faults(options: argparse.Namespace) -> int:
    from .doctor.explain import explain_fault, list_faults
    from .faults import FAULTS

    sys.stdout.write(list_faults(FAULTS.values()) if options.name is None else explain_fault(FAULTS[options.name]))
    return 0


def _labs(options: argparse.Namespace) -> int:
    from . import labs

    there = labs.find_labs()
    if options.folder is None:
        width = max(len(lab.title) for lab in there)
        for lab in there:
            print(f"{lab.number}  {lab.title:<{width}}  {lab.minutes:>3} minutes, on {lab.ranks[0]} ranks or more")
        return 0
    chosen = there if options.lab is None else (labs.choose(there, options.lab),)
    copies = labs.copy_labs(Path(options.folder), chosen)
    for copy in copies:
        print(f"{copy.what:<9}  {copy.path}")
    if any(copy.what == "kept" for copy in copies):
        print("kept: you have changed it; for a fresh copy name another folder, or move yours away")
    return 0


def _version(options: argparse.Namespace) -> int:
    from .doctor.experiment import experiment_record, experiment_text
    from .wire import to_plain

    record = experiment_record()
    if options.json:
        _print_json(to_plain(record))
    else:
        sys.stdout.write(experiment_text(record))
    return 0


def _print_json(plain: Any) -> None:
    print(json.dumps(plain, indent=2, allow_nan=False))


if __name__ == "__main__":
    raise SystemExit(main())
