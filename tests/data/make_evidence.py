"""Makes the recordings in tests/data/evidence: every fault once, on three real ranks with gloo, in raw mode.

    python tests/data/make_evidence.py [folder]

They are the rules' corpus: what really happened, which no rule may read otherwise after a change. To be
made anew only if evidence itself has changed; the rules' own changes are judged by the old ones.
"""

from __future__ import annotations

import sys
from pathlib import Path

from labkit.driver.start import start
from labkit.faults import FAULTS
from labkit.testing import record

RANKS, CULPRIT = 3, 1


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with start(RANKS, "gloo") as world:
        for name in FAULTS:
            path = folder / f"{name}.jsonl"
            path.unlink(missing_ok=True)
            world.recover(force=True)  # a new generation: no calls of the fault before
            with record(world, path, name) as noted:
                noted.run_cell(FAULTS[name].demo)
                with world.inject(name, CULPRIT) as fault:
                    noted.run_cell(FAULTS[name].demo, deadline_s=4)
                    noted.diagnose()
                    noted.write("inject", fault)
                noted.recover()
            path.chmod(0o644)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "evidence")
