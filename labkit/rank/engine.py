"""The engine process of a rank: ipyparallel's engine app, started with the rank's identity.

`python -m labkit.rank.engine` serves every launcher that starts processes; the fork server calls `run`
in a fork, with torch imported already. Rank, device and folder come from the environment (see boot.py).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..vocabulary import engine_arguments


def run(arguments: Sequence[str]) -> None:
    """Be an engine until told to stop."""
    from ipyparallel.engine.app import IPEngine

    await_controller(Path(os.environ["LABKIT_RUN_DIR"]))
    IPEngine.launch_instance(list(arguments))


def await_controller(folder: Path, timeout_s: float = 60.0) -> None:
    """Wait until the controller's file for engines is there and whole: engines may be started beside it.

    The engine app itself looks ten times a second and takes a half-written file for a broken one.
    """
    file = folder / "security" / "ipcontroller-engine.json"
    end = time.monotonic() + timeout_s
    while time.monotonic() < end:
        try:
            json.loads(file.read_text())
        except (OSError, ValueError):
            time.sleep(0.003)
        else:
            return
    sys.exit(f"labkit.rank.engine: no controller in {timeout_s:g} s")


def main() -> None:
    """Entry for launchers that start a process per rank; the rank may come from Slurm's or MPI's variables."""
    rank = next((os.environ[name] for name in _RANK_NAMES if os.environ.get(name)), None)
    if rank is None:
        sys.exit("labkit.rank.engine: no rank; set LABKIT_RANK, or start it through srun or mpiexec")
    os.environ["LABKIT_RANK"] = rank
    run(engine_arguments(int(rank), os.environ["LABKIT_RUN_DIR"]))


_RANK_NAMES = ("LABKIT_RANK", "SLURM_PROCID", "PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK")

if __name__ == "__main__":
    main()
