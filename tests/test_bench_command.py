"""`labkit bench`: sizes, tables, results of other tools, and the command itself on live ranks."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit import bench, cli
from labkit.errors import UsageError
from labkit.plain import dumps, loads
from labkit.schedule import Link, predict
from labkit.schedule.external import read_results
from labkit.schedule.fit import crossing_of
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Timing
from labkit.schedule.sweeps import CSV_COLUMNS, LIBRARY_MODELS, Crossing, Point, Sweep, table, to_csv
from labkit.units import parse_sizes

HERE = Path(__file__).parent.parent

NCCL = """\
# nccl-tests version 2.17.6
# Collective test starting: all_reduce_perf
# nThread 1 nGpus 8 minBytes 1024 maxBytes 4096 step: 4(factor) warmup iters: 5 iters: 20
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
        1024           256     float     sum      -1    33.05    0.03    0.05      0    32.84    0.03    0.05      0
        4096          1024     float     sum      -1  1.2e+05    0.12    0.21      0    33.84    0.12    0.21      0
       16384          4096     float     sum      -1   134.05    0.12    0.21      0    33.84    0.12    0.21      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 0.13
"""
NCCL_BROADCAST = """\
#       size         count      type    root     time   algbw   busbw  error     time   algbw   busbw  error
        1024           256     float       0     7.50    0.14    0.14  0e+00     7.10    0.14    0.14  0e+00
"""
OSU = """\
# OSU MPI Allgather Latency Test v7.5
# Datatype: MPI_CHAR.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
256                     1.50              1.40              1.60        1000
1024                    2.50              2.40              2.60        1000
"""


def points(name: str = "all_reduce", sizes: tuple[int, ...] = (1024, 4096, 16384, 65536), ranks: int = 4) -> tuple[Point, ...]:
    """Points that follow the model exactly: 10 µs a message, 2 GB/s."""
    link = Link.of(latency_us=10, gb_per_s=2)
    made = []
    for size in sizes:
        seconds = predict(LIBRARY_MODELS[name], ranks, size, link).seconds
        made.append(Point(name, name, ranks, size, "float32", 4, "SUM", (seconds, seconds * 0.5, seconds * 3)))
    return tuple(made)


def test_sizes_are_read_as_people_write_them() -> None:
    assert parse_sizes("1k:1M:32") == (1024, 32768, 1048576)
    assert parse_sizes("1KiB,3MB,7") == (1024, 3 << 20, 7)
    assert parse_sizes([5, 6]) == (5, 6)


@pytest.mark.parametrize(
    "text", ["", "x", "0", "1K:", "4K:1K:2", "1K:4K:1", "1K:4K:2:2", "-1", "1e3", "١K", [0], [], [True], [1.5]]
)
def test_sizes_that_are_none_are_refused(text: object) -> None:
    with pytest.raises(UsageError):
        parse_sizes(text)  # type: ignore[arg-type]


def test_the_table_has_the_columns_and_numbers_of_the_fields_tools() -> None:
    sweep = Sweep("gloo", 4, points() + points("all_gather"), 2)
    text = table(sweep)
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert lines[0] == ["1024", "256", "float32", "sum", "60.8", "30.4", "182.3", "0.0169", "0.0253"]
    # all-gather: S is the total, the count is one rank's, and the factor is (n - 1)/n
    assert lines[4][:4] == ["1024", "64", "float32", "none"]
    assert float(lines[4][8]) == pytest.approx(float(lines[4][7]) * 0.75, rel=0.01)
    assert "# fit as ring: 10 µs a message, 2 GB/s a link; typical error 0%; held out 16 KiB: +0%" in text
    assert str(sweep) == text
    assert "interrupted" in table(Sweep("gloo", 4, points(), 2, interrupted=True))
    assert "ended early: rank 1 died" in table(Sweep("gloo", 4, points(), 2, error="rank 1 died"))
    assert table(Sweep("gloo", 4, ())) == "# nothing was measured"
    assert table(Sweep("gloo", 4, points(), where="ranks 0 and 2 of 4")).startswith("#\n# ranks 0 and 2 of 4\n#\n# all_reduce")


def test_the_held_out_size_is_not_fitted() -> None:
    first, *rest = points()
    off = Point(*(getattr(first, field) for field in list(vars(first))[:-1]), times_s=(1.0,))
    found = Sweep("gloo", 4, (off, *rest)).fit("all_reduce", hold=[1024])
    assert found.fit.typical < 1e-6
    assert found.typical > 0.9
    with pytest.raises(UsageError, match="too few"):
        Sweep("gloo", 4, points(sizes=(1, 2))).fit("all_reduce")


def test_csv_and_json_carry_every_point() -> None:
    sweep = Sweep("gloo", 4, points(), 2)
    read = list(csv.DictReader(io.StringIO(to_csv(sweep))))
    assert tuple(read[0]) == CSV_COLUMNS
    assert [int(row["size_bytes"]) for row in read] == [1024, 4096, 16384, 65536]
    document = json.loads(bench.render(sweep, None, "json"))
    assert len(document["rows"]) == 4
    assert loads(json.dumps(document["sweep"])) == sweep
    assert bench.render(sweep, None, "csv") == to_csv(sweep)


def test_nccl_tests_output_is_read_and_laid_beside() -> None:
    found = read_results(NCCL, 4)
    assert (found.tool, found.collective) == ("nccl-tests", "all_reduce")
    assert found.time_s(1024) == pytest.approx(33.05e-6)
    assert found.time_s(2048) is None
    text = table(Sweep("gloo", 4, points() + points("broadcast")), found)
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    assert lines[0][-2:] == ["33.1", "1.84"] or lines[0][-2:] == ["33.0", "1.84"]
    assert lines[1][-2:] == ["120000.0", "0.00"]
    assert lines[3][-2:] == ["-", "-"]
    assert len(lines[4]) == 9  # another collective: nothing to lay beside
    assert "beside: nccl-tests, all_reduce" in bench.render(Sweep("gloo", 4, points()), found, "table")


def test_columns_that_a_tool_leaves_out_do_not_shift_the_time() -> None:
    assert read_results(NCCL_BROADCAST, 4).time_s(1024) == pytest.approx(7.5e-6)


def test_osu_counts_one_ranks_piece_so_it_is_taken_times_the_ranks() -> None:
    found = read_results(OSU, 4)
    assert (found.tool, found.collective, found.sizes) == ("OSU", "all_gather", (1024, 4096))
    assert found.time_s(4096) == pytest.approx(2.5e-6)
    assert "times 4" in found.note
    whole = read_results(OSU.replace("Allgather", "Allreduce"), 4)
    assert (whole.collective, whole.sizes, whole.note) == ("all_reduce", (256, 1024), "")


def test_our_own_csv_is_read_back() -> None:
    found = read_results(to_csv(Sweep("gloo", 4, points())), 4)
    assert (found.tool, found.collective, found.time_s(1024)) == ("labkit", "all_reduce", pytest.approx(60.768e-6))


@pytest.mark.parametrize(
    "text", ["", "hello", "name,collective,\n", "# OSU MPI Allreduce Latency Test v1\n", "\0\xff", "# size count type\n"]
)
def test_a_file_that_is_no_result_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="unknown format of results"):
        read_results(text, 4)


def test_records_say_what_they_are_and_travel() -> None:
    part = RankRun(0, 0.2, (0.1, 0.1), 1, 1, 4, 4, agrees=True)
    run = ScheduleRun("ring", "all_reduce", 1, 1, "int32", "SUM", 4, 2, True, 0.2, (part,), ((1, 1, 4, 4),))
    assert run.ok
    assert run.step_s == (0.1, 0.1)
    assert "as declared" in str(run)
    assert loads(dumps(run)) == run
    sides = Comparison(4, 1024, "float32", (Timing("ring", (2.0, 4.0, 3.0)), Timing("library", (1.0, 1.0, 3.0))))
    assert sides.speed("ring") == 0.5
    crossing = Crossing("a", "b", 4, Link.of(10, 2), 1024.0, None, (sides,))
    assert loads(dumps(crossing)) == crossing
    assert (
        " ".join(str(crossing).split())
        == "a and b on 4 ranks cross: predicted 1 KiB (from 10 µs a message, 2.00 GB/s), measured at none of the sizes"
    )


def test_the_crossing_is_between_the_sizes_around_it() -> None:
    assert crossing_of([(1e4, 2.0), (1e2, 0.5), (1e6, 3.0)]) == pytest.approx(1e3)
    assert crossing_of([(10, 1.0), (100, 2.0)]) == pytest.approx(10)
    assert crossing_of([]) is None
    noisy = [(1e3, 1.02), (1e4, 0.5), (1e5, 0.98), (1e6, 1.01), (1e7, 4.0)]
    assert 1e5 < (crossing_of(noisy) or 0) < 1e6
    backwards = [(1e3, 3.0), (1e4, 2.0), (1e5, 0.5), (1e6, 0.9), (1e7, 1.1)]
    assert 1e4 < (crossing_of(backwards) or 0) < 1e5
    assert 1e6 < (crossing_of(backwards, rises=True) or 0) < 1e7
    assert crossing_of(backwards[:4], rises=True) is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--collectives", "al_reduce"], "did you mean 'all_reduce'"),
        (["--sizes", "3x"], "'3x' is not a size"),
        (["--beside", "/nowhere/at/all"], "can't be read"),
        (["--ranks", "0"], "not a number of ranks"),
        (["--json", "--csv"], "not allowed with"),
        (["--dtype", "float33", "--ranks", "0"], "not a number of ranks"),
    ],
)
def test_a_mistake_is_one_line_before_anything_starts(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["bench", *arguments]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1


@pytest.mark.gloo
def test_the_command_measures_on_live_ranks(tmp_path: Path) -> None:
    other = tmp_path / "nccl.txt"
    other.write_text(NCCL)
    command = [
        sys.executable,
        "-m",
        "labkit.cli",
        "bench",
        "--ranks",
        "2",
        "--sizes",
        "1K:16K:4",
        "--collectives",
        "all_reduce,ring",
    ]
    done = subprocess.run(
        [*command, "--rounds", "2", "--beside", str(other)], capture_output=True, text=True, timeout=60, cwd=HERE, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
    assert [line[0] for line in lines] == ["1024", "4096", "16384"] * 2
    assert "# all_reduce on 2 ranks, schedule ring on the live ranks; median of 2" in done.stdout
    assert float(lines[0][-1]) > 0
