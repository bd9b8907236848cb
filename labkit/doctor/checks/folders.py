"""Is the temporary folder writable, private and not full, and has a world outlived its notebook in it?"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

from ...errors import count
from ...runfolder import OWN_FOLDER, FoundWorlds, distrust, find_worlds
from ...units import format_bytes
from ..base import Context, Finding, check

LEAST_BYTES, USUAL_BYTES = 16 * 2**20, 256 * 2**20
LONGEST_PATH = 70  # a local socket's path has about 100 characters, and the world adds its own


def judge_tempdir(folder: str, free_bytes: int, error: str, private: bool, root: str, distrusted: str) -> Finding:
    """`error`: why nothing could be written; `private`: a new folder came out readable by us alone."""
    facts = {"folder": folder, "free_bytes": free_bytes, "private": private, "run_root": root}
    if error:
        return Finding("fail", f"{folder} can't be written: {error}", "set TMPDIR to a folder of yours", facts)
    if distrusted:
        return Finding("fail", f"{distrusted}, so it is not used", OWN_FOLDER, facts)
    if not private:
        step = "set TMPDIR to a folder on a file system that keeps permissions"
        return Finding("warn", f"folders made in {folder} are open to others", step, facts)
    text = f"{folder}, {format_bytes(free_bytes)} free"
    if free_bytes < USUAL_BYTES:
        return Finding("fail" if free_bytes < LEAST_BYTES else "warn", f"only {text}", "make room there, or set TMPDIR", facts)
    if len(root) > LONGEST_PATH:
        step = "set TMPDIR or LABKIT_RUN_ROOT to a short path"
        return Finding("warn", f"{root} is a long path; local sockets below it may not open", step, facts)
    return Finding("ok", text, facts=facts)


def _try(folder: str) -> tuple[str, bool]:
    """Write into a new private folder, and look at its mode; leaves nothing behind."""
    try:
        made = Path(tempfile.mkdtemp(prefix="labkit-doctor-", dir=folder))
    except OSError as error:
        return error.strerror or str(error), False
    try:
        (made / "probe").write_bytes(b"x" * 65536)
        return "", os.name != "posix" or stat.S_IMODE(made.stat().st_mode) & 0o077 == 0
    except OSError as error:
        return error.strerror or str(error), False
    finally:
        shutil.rmtree(made, ignore_errors=True)


@check("tempdir", "Temporary folder", order=50)
def run_tempdir(context: Context) -> Finding:
    try:
        folder = tempfile.gettempdir()
    except FileNotFoundError as error:
        return Finding("fail", f"no temporary folder can be used: {error}"[:200], "set TMPDIR to a folder of yours")
    why, private = _try(folder)
    free, root = shutil.disk_usage(folder).free, context.run_root
    return judge_tempdir(folder, free, why, private, str(root), distrust(root))


def judge_strays(found: FoundWorlds) -> Finding:
    states = ("owned", "stray", "dead", "elsewhere")
    by_state = {state: [world for world in found.worlds if world.state == state] for state in states}
    pids = tuple(pid for world in by_state["stray"] for pid in world.living)
    facts = {"pids": pids, "damaged": found.damaged, **{state: len(worlds) for state, worlds in by_state.items()}}
    if found.distrust:
        return Finding("warn", f"{found.distrust}; what is in it is not believed", OWN_FOLDER, facts)
    if pids:
        worlds = len(by_state["stray"])
        text = f"{count(len(pids), 'process', 'es')} of {count(worlds, 'world')} whose notebook has ended"
        return Finding("warn", text, "labkit stop ends exactly those", facts)
    if found.damaged:
        step = "remove the folder if no world of yours runs"
        return Finding("note", f"{found.damaged[0]} has no readable world.json", step, facts)
    running = f"{count(len(by_state['owned']), 'world')} running" if by_state["owned"] else "no world running"
    if by_state["dead"]:
        text = f"{running}; {count(len(by_state['dead']), 'folder')} of ended worlds"
        return Finding("note", text, "labkit stop removes them", facts)
    return Finding("ok", f"{running}, nothing left over", facts=facts)


@check("strays", "Left over", order=61)
def run_strays(context: Context) -> Finding:
    return judge_strays(find_worlds(context.run_root))
