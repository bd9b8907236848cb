"""A rank cell as a script of its own: written to a file, run under torchrun, and compared.

What runs in a notebook's ranks is ordinary `torch.distributed` code. This is the proof, and the way out
of the notebook: the script has nothing of labkit in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import psutil

from ..backends import find
from ..document import Printed
from ..driver.core import WorldCore, instrument
from ..driver.current import current
from ..errors import UsageError
from ..places import cell_label, cell_name, next_cell
from ..wire import record

DEADLINE_S = 60.0
_GRACE_S = 3.0  # torchrun ends its workers itself if it is asked to
_OUTPUT_CHARACTERS = 4000
# torchrun, ended with the kernel: 1 is PR_SET_PDEATHSIG
_AGENT = (
    "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGTERM); from torch.distributed.run import main; main()"
    if sys.platform.startswith("linux")
    else "from torch.distributed.run import main; main()"
)
_TEMPLATE = '''\
"""{name}: torchrun --standalone --nproc-per-node {ranks} {name}"""

import json
from datetime import timedelta

import torch
import torch.distributed as dist

dist.init_process_group("{backend}", timeout=timedelta(seconds=60))
rank, world_size = dist.get_rank(), dist.get_world_size()
device = torch.device({device})

{code}

with open(f"{variable}-rank-{{rank}}.json", "w") as file:
    json.dump({variable}.tolist(), file)
dist.destroy_process_group()
'''


@record
class ScriptRun(Printed):
    """A script's run: `values` is the variable by rank (its number as text), `exit_code` None at the deadline."""

    name: str
    source: str
    ranks: int
    variable: str
    exit_code: int | None = None
    values: dict[str, tuple[float, ...]] | None = None
    output: str = ""
    elapsed_s: float = 0.0

    @property
    def ok(self) -> bool:
        return self.exit_code == 0


def make_script(code: str, *, variable: str, ranks: int, backend: str = "gloo", name: str = "script.py") -> str:
    """The source of a script that runs `code` on every rank and writes `variable` to a file per rank."""
    device = '"cuda", dist.get_node_local_rank()' if find(backend).needs_gpu else '"cpu"'
    return _TEMPLATE.format(name=name, ranks=ranks, backend=backend, device=device, code=code.strip("\n"), variable=variable)


def torchrun(show: str, cell: int | None = None, *, deadline_s: float = DEADLINE_S) -> ScriptRun:
    """Run a rank cell of this notebook as a script under torchrun; see `script`, which does it for a given world."""
    found: ScriptRun = current().script(show, cell, deadline_s=deadline_s)
    return found


@instrument
def script(world: WorldCore, show: str, cell: int | None = None, *, deadline_s: float = DEADLINE_S) -> ScriptRun:
    """Run a rank cell of this notebook (the last one unless `cell` says which) as a script under torchrun.

    `show` is the variable to bring back. The cell must stand on its own: a script knows nothing of the
    cells before it. At `deadline_s` its processes are ended, by pid.
    """
    number = world.cell if cell is None else cell
    if not world.source(number) and number > 0:
        number = next_cell(0, number)  # what a notebook shows as [7] has a larger number
    code = world.source(number)
    if not code:
        raise UsageError(f"no rank {cell_name(number)}", hint=f"the last one is {cell_label(world.cell)}")
    if not show.isidentifier():
        raise UsageError(f"{show!r} is not a variable name", hint='for example labkit.torchrun("x")')
    return run_script(world, code, show, f"cell_{cell_label(number).replace('.', '_')}.py", deadline_s)


def run_script(world: WorldCore, code: str, variable: str, name: str, deadline_s: float) -> ScriptRun:
    """Write the script into the world's private folder, run it there, read what it wrote."""
    folder = world.folder / "scripts" / Path(name).stem
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for old in folder.glob("*.json"):
        old.unlink()
    source = make_script(code, variable=variable, ranks=world.world_size, backend=world.backend, name=name)
    (folder / name).write_text(source)
    started = time.monotonic()
    command = ["--standalone", "--nproc-per-node", str(world.world_size), name]
    exit_code, output = run_for(command, folder, deadline_s)
    values: dict[str, tuple[float, ...]] = {}
    for rank in range(world.world_size):
        with contextlib.suppress(OSError, ValueError):
            values[str(rank)] = tuple(json.loads((folder / f"{variable}-rank-{rank}.json").read_text()))
    return ScriptRun(
        name, source, world.world_size, variable, exit_code, values, output[-_OUTPUT_CHARACTERS:], time.monotonic() - started
    )


def run_for(arguments: Sequence[str], folder: Path, deadline_s: float) -> tuple[int | None, str]:
    """torchrun with these arguments: exit code (None if it was ended at the deadline) and output."""
    environment = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", **os.environ}
    log = folder / "output.txt"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", _AGENT, *arguments], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip
        exit_code: int | None = None
        try:
            exit_code = process.wait(deadline_s)
        except subprocess.TimeoutExpired:
            pass  # what is left is ended below; so it is on an interrupt
        finally:
            if process.poll() is None:
                end_tree(process)
    return exit_code, log.read_text(errors="replace")


def end_tree(process: subprocess.Popen[bytes]) -> None:
    """End torchrun and the workers it has started: asked first, then by pid."""
    with contextlib.suppress(psutil.Error):
        workers = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
        for worker in workers:
            with contextlib.suppress(psutil.Error):
                worker.kill()  # psutil knows by its start time if the pid is another process by now
        psutil.wait_procs(workers, _GRACE_S)
    if process.poll() is None:
        process.kill()
        process.wait(_GRACE_S)
