"""The catalogue of measures, and what the command makes of one that can't be taken."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.__main__ import arguments, chosen, main, take
from benchmarks.bench import Bench
from benchmarks.core import MEASURES, BenchError, Measure, Row
from labkit.errors import UnknownName


def test_every_measure_of_the_design_is_there() -> None:
    assert set(MEASURES) == {"start-cold", "start-warm", "recovery", "stall", "cell", "tap", "bandwidth", "memory", "labs"} | {
        "calls",
        "pictures",
        "schedules",
        "schedules-model",
        "schedules-simulator",
        "twin",
    }


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_says_what_it_is_and_has_its_own_place(name: str) -> None:
    measure = MEASURES[name]
    assert measure.name == name
    assert measure.title
    assert (measure.run.__doc__ or "").strip()
    assert sum(other.order == measure.order for other in MEASURES.values()) == 1


@pytest.mark.parametrize("name", list(MEASURES))
def test_a_measure_is_one_file_that_registers_itself(name: str, root: Path) -> None:
    files = (root / "benchmarks" / "measures").glob("[!_]*.py")
    assert sum(f'@measure("{name}"' in file.read_text() for file in files) == 1


def test_quick_leaves_the_labs_out() -> None:
    assert "labs" not in {measure.name for measure in chosen(None, quick=True)}
    assert [measure.name for measure in chosen(["stall", "start-cold"], quick=False)] == ["start-cold", "stall"]


def test_a_name_that_does_not_exist_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UnknownName):
        chosen(["bandwith"], quick=False)
    assert main(["--only", "bandwith"]) == 2
    assert "did you mean 'bandwidth'?" in capsys.readouterr().err


def test_one_measure_that_fails_does_not_end_the_others() -> None:
    def broken(bench: Bench) -> list[Row]:
        raise BenchError("torchrun-1 ended")

    with Bench(1) as bench:
        (row,) = take(Measure("x", "X", broken), bench)
    assert row.failed == "torchrun-1 ended"


def test_options_have_defaults() -> None:
    options = arguments([])
    assert (options.only, options.repeat, options.quick, options.json, options.markdown) == (None, 5, False, None, None)


def test_quick_takes_dear_things_once_and_a_tenth_of_the_rounds() -> None:
    with Bench(5, quick=True) as quick, Bench(5) as full:
        assert (quick.repeat, quick.rounds(30), quick.rounds(5)) == (1, 3, 2)
        assert (full.repeat, full.rounds(30)) == (5, 30)


def test_an_experiment_is_made_once() -> None:
    made: list[int] = []
    with Bench(1) as bench:
        for _ in range(2):
            assert bench.once("faults", lambda: made.append(1) or len(made)) == 1
