"""Makes the recordings in tests/data on real ranks with gloo.

    python tests/data/make_evidence.py [raw] [safe] [schedules] [lab09]

raw, safe: every fault once on three ranks, in that mode. schedules: every fault that fires in a schedule, on four
ranks. lab09: the answers in tests/exercises/answers.py, each run as a cell on three ranks.

The first three are what the rules are tested on: no rule may read them otherwise after a change. Make them anew
only if evidence itself has changed. Make lab09 anew when its answers or the lab's cells change.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from labkit.driver.start import start  # noqa: E402
from labkit.driver.world import World  # noqa: E402
from labkit.faults import FAULTS  # noqa: E402
from labkit.testing import Recorder, record  # noqa: E402
from tests.exercises import answers  # noqa: E402

HERE = Path(__file__).parent
RANKS, CULPRIT = 3, 1
SCHEDULES = (("ring", 2), ("binomial-tree", 0))  # algorithm and the rank with the fault, of four
FIRST_MOVE = ("reduce-op-mismatch", "shape-mismatch", "dtype-mismatch")  # they need a move that receives or sends data


def noted(world: World, path: Path, note: str) -> Recorder:
    """A recorder on a new file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    return record(world, path, note)


def record_faults(folder: str, mode: str) -> None:
    with start(RANKS, "gloo", mode=mode) as world:
        for name in FAULTS:
            world.recover(force=True)  # a new generation: no calls of the fault before
            path = HERE / folder / f"{name}.jsonl"
            with noted(world, path, name) as recorder:
                recorder.run_cell(FAULTS[name].demo)
                with world.inject(name, CULPRIT) as fault:
                    recorder.run_cell(FAULTS[name].demo, deadline_s=4)
                    recorder.diagnose()
                    recorder.write("inject", fault)
                recorder.recover()
            path.chmod(0o644)


def record_schedules() -> None:
    with start(4, "gloo") as world:
        for name in (fault.name for fault in FAULTS.values() if fault.in_schedule is not None):
            path = HERE / "schedules" / f"{name}.jsonl"
            with noted(world, path, name) as recorder:
                for algorithm, rank in SCHEDULES:
                    world.recover(force=True)
                    recorder.note = f"{algorithm}, rank {rank}"
                    with world.inject(name, rank, at=1 if name in FIRST_MOVE else 2) as fault:
                        recorder.run_schedule(algorithm, numel=1200)
                        recorder.write("inject", fault)
                    recorder.recover()
            path.chmod(0o644)


def record_lab09() -> None:
    path = HERE / "lab09.jsonl"
    with start(RANKS, "gloo") as world, noted(world, path, "") as recorder:
        for code in answers.all_cells():
            world.recover(force=True)  # no calls of the cells before
            recorder.note = answers.key_of(code)
            recorder.run_cell(code, deadline_s=4)
            recorder.diagnose()
    path.chmod(0o644)


PARTS: dict[str, Callable[[], None]] = {
    "raw": lambda: record_faults("evidence", "raw"),
    "safe": lambda: record_faults("safe", "safe"),
    "schedules": record_schedules,
    "lab09": record_lab09,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()
