"""Every fault on real ranks with real gloo: the ending that its expectation promises is the one that comes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from labkit.faults import FAULTS

HERE = Path(__file__).resolve().parent
RANKS = 4
CULPRIT = 2
SHORT = {"slow": {"delay_s": 0.5}}

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def seen() -> dict[tuple[str, bool], dict[str, Any]]:
    """What every demo came to, without and with its fault; one process imports torch for all of them."""
    jobs = [(name, culprit, SHORT.get(name, {}), RANKS) for name in FAULTS for culprit in (None, CULPRIT)]
    done = subprocess.run(
        [sys.executable, str(HERE / "raw_world.py")],
        input="".join(json.dumps(job) + "\n" for job in jobs),
        env={**os.environ, "PYTHONPATH": str(HERE.parent.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {(job[0], job[1] is not None): line for job, line in zip(jobs, lines, strict=True)}


def endings(report: dict[str, Any]) -> list[str]:
    return [rank["ending"] for rank in report["ranks"]]


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_demo_is_right_without_its_fault(seen: Any, name: str) -> None:
    report = seen[name, False]
    assert endings(report) == ["ok"] * RANKS
    values = [rank["value"] for rank in report["ranks"]]
    assert all(value == values[0] for value in values), "a learner sees the same result on every rank"
    assert values[0] is not None or report["ranks"][0]["output"]


@pytest.mark.parametrize("name", list(FAULTS))
def test_the_ending_is_the_promised_one(seen: Any, name: str) -> None:
    right, report = seen[name, False], seen[name, True]
    ending = FAULTS[name].expect["raw"].ending
    got = endings(report)
    assert report["fired"] == 1
    if ending == "hang":
        assert "waits" in got
        assert "dead" not in got
    elif ending == "abort":
        assert got[CULPRIT] == "dead"
        assert got.count("dead") == 1
        assert FAULTS[name].replaces_rank
    elif ending == "silent":
        assert got == ["ok"] * RANKS
        assert report["ranks"] != right["ranks"]
    elif ending == "slow":
        assert got == ["ok"] * RANKS
        assert [rank["value"] for rank in report["ranks"]] == [rank["value"] for rank in right["ranks"]]
    else:
        pytest.fail(f"nothing checks the ending {ending}")


def test_what_becomes_of_the_culprit(seen: Any) -> None:
    got = {name: endings(seen[name, True])[CULPRIT] for name in FAULTS}
    assert got["rank-raises"] == "raised"
    assert got["leaves-early"] == "left"
    assert got["stopped"] == "stopped"
    assert got["skipped-collective"] == "ok"
    assert got["extra-collective"] == "waits"
