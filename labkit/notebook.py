"""labkit in a notebook: `%%ranks`, `%ranks`, and records that draw themselves.

`%load_ext labkit` brings these; `labkit.start()` in a running kernel does it too. While a cell runs, the
ranks' output is shown live if somebody watches: LABKIT_LIVE=1 or LABKIT_LIVE=0 says so, and without it
a kernel that JupyterLab, Notebook or VS Code started is watched and one that nbclient or nbval started
is not. The end of a cell is one plain output either way.
"""

from __future__ import annotations

import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import views
from .endings import declared, interrupted
from .errors import UsageError, join_ranks
from .places import cell_name
from .units import format_seconds

if TYPE_CHECKING:
    from .driver.world import World

_RANKS = re.compile(r"\s*(\d+(?:\s*-\s*\d+)?(?:\s*,\s*\d+(?:\s*-\s*\d+)?)*)(?=\s|$)")
_USAGE = "%%ranks 0,2 --deadline 10 --quiet has all there is"


class Interrupted(KeyboardInterrupt):
    """The learner's interrupt, in one line: the ranks are free already when it is raised."""

    def _render_traceback_(self) -> list[str]:
        return [f"KeyboardInterrupt: {self}"]


@dataclass(frozen=True)
class Arguments:
    """What stands behind `%%ranks`; `code` only for the one-line form."""

    ranks: tuple[int, ...] | None = None
    deadline_s: float | None = None
    quiet: bool = False
    code: str = ""


def parse_line(line: str) -> Arguments:
    """Read the line of a magic; what is no argument begins the code.

    >>> parse_line("0,2 --deadline 5")
    Arguments(ranks=(0, 2), deadline_s=5.0, quiet=False, code='')
    """
    ranks: tuple[int, ...] | None = None
    deadline_s: float | None = None
    quiet = False
    rest = line.strip()
    while rest:
        listed = _RANKS.match(rest) if ranks is None else None
        if listed:
            ranks, rest = parse_ranks(listed[1]), rest[listed.end() :].lstrip()
            continue
        word, _, after = rest.partition(" ")
        name, equals, value = word.partition("=")
        if name == "--quiet" and not equals:
            quiet, rest = True, after.lstrip()
        elif name == "--deadline":
            if not equals:
                value, _, after = after.lstrip().partition(" ")
            deadline_s, rest = parse_deadline(value), after.lstrip()
        elif word.startswith("--"):
            raise UsageError(f"unknown option {word!r}", hint=_USAGE)
        else:
            break
    return Arguments(ranks, deadline_s, quiet, rest)


def parse_ranks(text: str) -> tuple[int, ...]:
    """
    >>> parse_ranks("0-2, 5")
    (0, 1, 2, 5)
    """
    found: list[int] = []
    for piece in text.replace(" ", "").split(","):
        first, _, last = piece.partition("-")
        if last and int(last) < int(first):
            raise UsageError(f"{piece!r} runs backwards", hint=f"write {last}-{first}")
        if int(last or first) - int(first) > 10_000:
            raise UsageError(f"{piece!r} are too many ranks", hint="write 0,2 or 0-3")
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(dict.fromkeys(found))


def parse_deadline(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise UsageError("deadline must be a number of seconds above 0", hint="for instance --deadline 10")
    return seconds


def check_ranks(ranks: Sequence[int], size: int) -> None:
    """Raise UsageError for ranks that the world does not have."""
    strangers = [rank for rank in ranks if rank >= size]
    if strangers:
        raise UsageError(f"no {join_ranks(strangers)}", hint=f"this world has {join_ranks(range(size))}")


def check_syntax(shell: Any, code: str, number: int) -> None:
    """Say a syntax error once, before any rank sees the cell; nothing is executed."""
    name = cell_name(number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the ranks say them
            compile(shell.transform_cell(code), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, OverflowError) as error:
        line = getattr(error, "lineno", None)
        where = f"{name}, line {line}" if line else name
        source = (getattr(error, "text", None) or "").strip()
        quoted = f": {source[:80]}" if source else ""
        message = getattr(error, "msg", None) or str(error)
        raise UsageError(f"{message} ({where}){quoted}", hint="nothing was sent to the ranks; fix the line") from None


def watched(shell: Any) -> bool:
    """Whether somebody sees outputs as they come: see LABKIT_LIVE in the module's text."""
    said = os.environ.get("LABKIT_LIVE", "")
    if said in ("0", "1"):
        return said == "1"
    if "PYTEST_CURRENT_TEST" in os.environ or getattr(shell, "kernel", None) is None:
        return False
    return "JPY_SESSION_NAME" in os.environ or "__vsc_ipynb_file__" in shell.user_ns


def running_shell() -> Any:
    """The shell of this notebook or IPython prompt; None elsewhere. Imports nothing."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython is not None else None


def prompt_number() -> int:
    """The number in the brackets of the running cell, so that "cell 7" is the learner's In[7]; 0 where there is none."""
    return int(getattr(getattr(running_shell(), "displayhook", None), "prompt_count", 0) or 0)


def drawn(record: Any) -> dict[str, Any]:
    """The forms of a record by mime type; empty if there is nothing to show."""
    text, html = views.to_text(record), views.to_html(record)
    return {"text/plain": text, "text/html": html, **views.to_rich(record)} if text or html else {}


def run_magic(shell: Any, line: str, body: str | None = None) -> Any:
    """`%%ranks` (with a body) and `%ranks`; find the world, check everything, run, show, raise."""
    from .instruments.calls import so_far

    args = parse_line(line)
    if body is not None and args.code:
        raise UsageError(f"unrecognised argument {args.code!r}", hint=_USAGE)
    world = current()
    check_ranks(args.ranks or (), world.world_size)
    code = args.code if body is None else body
    if not code.strip():
        if body is None and args == Arguments():
            return world.status()
        raise UsageError(
            "there is no code to run", hint="write it below %%ranks" if body is not None else "write it behind %ranks"
        )
    if body is not None and not code.lstrip().startswith("%%"):
        code = f"# %%ranks {line}".rstrip() + "\n" + code  # so that "line 3" is line 3 of what the learner sees
    number = world.next_cell()
    check_syntax(shell, code, number)
    armed = [injection for injection in world.injections if injection.active]
    live = watched(shell) and not args.quiet
    screen = views.Screen(shell.display_pub.publish, live, lambda: so_far(world.core))
    try:
        result = world.run_cell(
            code,
            args.ranks,
            deadline_s=args.deadline_s,
            on_output=screen.on_output,
            on_notice=screen.on_notice,
            cell=number,
        )
    finally:
        screen.close()
    shell.push({"_ranks": result}, interactive=False)
    screen.finish({} if args.quiet and result.ok else drawn(result))
    if interrupted(result):
        raise Interrupted("the cell was stopped and the ranks are free")
    error = views.error_for(result)
    armed += [injection for injection in world.injections if injection.active]
    if error is not None and not declared(result, armed):
        raise error
    return None


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
    deadline_s: float = 10.0,
    group_timeout_s: float = 120.0,
) -> World:
    """Start a world of live ranks, or give the one that runs; in a notebook it also brings `%%ranks`.

    `ranks`: one per GPU, or 4 where there is none. `backend`: nccl where each rank has its own GPU, else
    gloo. LABKIT_RANKS and LABKIT_BACKEND override both. `mode`: "raw" only watches, "safe" turns a
    collective that does not match into an error on every rank. `share_gpu`: several nccl ranks on one GPU.
    `hosts`: put the ranks on so many hosts (network namespaces of this machine), each with a link of `rate`
    ("1gbit") and one-way `delay` ("2ms"); "up" takes those of `labkit hosts up`. `placement`: "block" or "cyclic".
    Raises NotEnoughDevices, NotEnoughMemory, WorldMismatch or StartError.
    """
    from .driver.current import HOLDER
    from .driver.start import start as bring_up
    from .instruments.labnote import DESK
    from .instruments.unseen import Unseen

    ensure_loaded()
    HOLDER.progress = lambda: views.Progress(_publisher(), quiet_s=1.0)
    HOLDER.prompt = prompt_number
    with views.Progress(_publisher()) as progress:
        world = bring_up(
            ranks,
            backend,
            mode=mode,
            launcher=launcher,
            share_gpu=share_gpu,
            hosts=hosts,
            rate=rate,
            delay=delay,
            placement=placement,
            deadline_s=deadline_s,
            group_timeout_s=group_timeout_s,
            on_progress=progress.say,
            listeners=[DESK, Unseen(show_result)],
        )
        progress.done(f"{world.world_size} ranks are ready ({world.backend}, {format_seconds(world.started_in_s)})")
        return world


def show_result(result: Any) -> None:
    """Show a cell's result now: drawn in a notebook, as text elsewhere."""
    shell = running_shell()
    if shell is None:
        sys.stdout.write(f"{result}\n")
    else:
        shell.display_pub.publish(drawn(result))


def _publisher() -> Any:
    """How a watched notebook shows something; None where nobody watches."""
    shell = running_shell()
    return shell.display_pub.publish if shell is not None and watched(shell) else None


def current() -> World:
    """The running world; NoWorld if there is none."""
    from .driver.current import current as running

    return running()


def load_ipython_extension(ipython: Any) -> None:
    """Register the magics and the records' pictures; a second time changes nothing."""

    def ranks(line: str, cell: str | None = None) -> Any:
        """Run code on every rank, or on some: %%ranks [0,2 | 0-3] [--deadline 10] [--quiet]; %ranks alone shows the status."""
        return run_magic(ipython, line, cell)

    ipython.register_magic_function(ranks, magic_kind="line_cell", magic_name="ranks")
    display = ipython.display_formatter
    for view in views.VIEWS.values():
        _draw_by(display, view.place, lambda value: value)
    _draw_by(display, ("labkit.driver.injection", "ActiveInjection"), lambda value: value.record)
    display.ipython_display_formatter.for_type_by_name("labkit.instruments.watch", "Live", lambda live: show_live(ipython, live))


def _draw_by(display: Any, place: tuple[str, str], record_of: Callable[[Any], Any]) -> None:
    """Have values of the class at `place` drawn by their record's view; by name, so that nothing is loaded for it."""
    formatters = display.formatters
    formatters["text/plain"].for_type_by_name(*place, lambda value, printer, cycle: printer.text(views.to_text(record_of(value))))
    formatters["text/html"].for_type_by_name(*place, lambda value: views.to_html(record_of(value)) or None)
    rich = display.mimebundle_formatter
    rich.for_type_by_name(*place, lambda value, include=None, exclude=None: views.to_rich(record_of(value)) or None)


def show_live(shell: Any, live: Any) -> None:
    """Rank cards that move where somebody watches; else the cards as they are now."""
    if watched(shell):
        views.WATCHER.show(live, shell.display_pub.publish)
    else:
        shell.display_pub.publish(drawn(live.look()))


def ensure_loaded() -> bool:
    """Load the extension if this is a notebook or an IPython prompt; True if it is. Imports nothing otherwise."""
    shell = running_shell()
    if shell is None:
        return False
    load_ipython_extension(shell)
    return True
