"""Long trials of a whole world. Exit status 1 if anything was not as it should be.

python -m benchmarks.stress chaos [--faults 1000] [--ranks 3] [--seed 20]
python -m benchmarks.stress confusion [--sizes 2 3 4] [--seeds 3]
python -m benchmarks.stress healthy [--sizes 2 3 4] [--cells 1000]
"""

from __future__ import annotations

import argparse
import sys
import time

from labkit.driver.current import HOLDER
from labkit.driver.start import start
from labkit.driver.world import World

from .chaos import chaos
from .confusion import confusion
from .healthy import healthy


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.stress", description=__doc__.splitlines()[0])
    trials = parser.add_subparsers(dest="trial", required=True)
    one = trials.add_parser("chaos", help="random faults, one after the other")
    one.add_argument("--faults", type=int, default=1000)
    one.add_argument("--ranks", type=int, default=3)
    one.add_argument("--seed", type=int, default=20)
    other = trials.add_parser("confusion", help="every fault against what was said of it")
    other.add_argument("--sizes", type=int, nargs="+", default=[2, 3, 4])
    other.add_argument("--seeds", type=int, default=3)
    third = trials.add_parser("healthy", help="programs that are right, of which nothing may be said")
    third.add_argument("--sizes", type=int, nargs="+", default=[2, 3, 4])
    third.add_argument("--cells", type=int, default=1000)
    options = parser.parse_args()
    began_s = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began_s:6.0f} s  {text}", file=sys.stderr, flush=True)

    try:
        if options.trial == "chaos":
            report = chaos(start(options.ranks, "gloo"), options.faults, options.seed, say)
            print(report)
            return bool(report.problems)
        if options.trial == "healthy":
            quiet = healthy(_world, options.sizes, options.cells, say)
            print(quiet)
            return bool(quiet.wrong)
        table = confusion(_world, options.sizes, options.seeds, say)
        print(table)
        return bool(table.wrong)
    finally:
        HOLDER.close()


def _world(size: int) -> World:
    HOLDER.close()
    return start(size, "gloo")


if __name__ == "__main__":
    sys.exit(main())
