"""Runs, comparisons, sweeps, crossings and prices: what their pictures say, and that a recording says so first."""

from __future__ import annotations

import dataclasses
import json
import re
from typing import Any

import plotly.graph_objects as go
import pytest

from labkit.document import Cell, Table, as_text
from labkit.exercises.lab03_measured import TABLES
from labkit.schedule import ALGORITHMS, Link, Schedule, check_schedule, count, predict, trace
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Source, Timing
from labkit.schedule.sweeps import Crossing, Point, Sweep
from labkit.units import format_seconds
from labkit.views import VIEWS, row, to_html, to_rich, to_text
from labkit.views._plotly import MIME

LINK = Link.of(latency_us=50, gb_per_s=1)
RING = ALGORITHMS["ring"].schedule(4)
LOADS = ("sent_messages", "received_messages", "sent_bytes", "received_bytes")
SOURCE = Source("2026-01-31 12:00 UTC", machine="<a machine>", backend="nccl")


def a_run(wrong: tuple[int, ...] = (), **changes: Any) -> ScheduleRun:
    loads = count(RING, 1000).by_rank
    counts = list(zip(*(getattr(loads, name).tolist() for name in LOADS), strict=True))
    ranks = tuple(
        RankRun(rank, 2e-3, (1e-3, 0.0, 3e-4, 0.0, 0.0, 2e-4), *each, rank not in wrong, 0.55 if rank in wrong else 0.0)
        for rank, each in enumerate(counts)
    )
    run = ScheduleRun("ring", "all_reduce", 4, 1000, "float32", "SUM", 4000, 6, True, 2e-3, ranks, tuple(counts))
    return dataclasses.replace(run, **changes)


def a_sweep(**changes: Any) -> Sweep:
    sizes = [1 << power for power in range(10, 23, 2)]
    times = {size: predict("ring", 4, size, LINK).seconds for size in sizes}
    points = [Point("all_reduce", "all_reduce", 4, n, "float32", 4, "SUM", (t, 1.5 * t, 0.9 * t)) for n, t in times.items()]
    return dataclasses.replace(Sweep("gloo", 4, tuple(points), 2), **changes)


def compared(size: int) -> Comparison:
    names = ("recursive-doubling", "ring")
    timings = [Timing(name, tuple(predict(name, 4, size, LINK).seconds * each for each in (1.0, 0.9, 1.2))) for name in names]
    return Comparison(4, size, "float32", (*timings, Timing("library", (1e-3, 2e-3, 3e-3))))


def a_crossing(predicted: float | None = 400_000.0, measured: float | None = 380_000.0) -> Crossing:
    sizes = [1 << power for power in (10, 15, 18, 20, 22)]
    return Crossing("recursive-doubling", "ring", 4, LINK, predicted, measured, tuple(compared(size) for size in sizes))


def body(record: Any) -> str:
    """The HTML without its styles."""
    return to_html(record).partition("</style>")[2]


def words(record: Any) -> str:
    return re.sub(r"<[^>]+>", " ", body(record))


def test_a_rank_that_began_early_says_so_since_its_steps_have_the_wait_in_them() -> None:
    assert "early" not in body(a_run()).lower() + str(a_run())
    run = a_run()
    ranks = (dataclasses.replace(run.ranks[0], early_s=5e-4), *run.ranks[1:])
    early = dataclasses.replace(run, ranks=ranks)
    assert "Early: how long before the last rank this one began" in str(early)
    assert str(early).splitlines()[3].split()[:3] == ["sent", "early", "step"]
    drawn = body(early)
    assert "<th>early</th>" in drawn.replace(' scope="col"', "")
    assert "500 µs" in drawn
    assert "Early: how long before the last rank this one began" in drawn
    assert "early" not in body(dataclasses.replace(early, traced=False)).lower()


def test_a_right_run_says_so_and_shows_who_did_nothing_in_a_step() -> None:
    drawn = body(a_run())
    assert "ring, 3.91 KiB of float32 on 4 ranks: 2 ms, 6 steps" in drawn
    assert "✓ the numbers that the library&#x27;s all-reduce gives; ✓ messages and bytes as declared" in drawn
    assert "lk-good" in drawn
    assert drawn.count("<td>·</td>") == 3 * 4
    assert ">step 5<" in drawn


def test_a_wrong_run_names_the_ranks_and_how_far_off_they_are() -> None:
    run = a_run((1, 3))
    assert "ranks 1 and 3: off by up to 0.55 times the largest value" in body(run)
    assert "lk-bad" in body(run)
    told = " ".join(to_text(run).split())
    assert told.count("off by up to 0.55") == body(run).count("off by up to 0.55") == 3, "in all, and at each of the two"
    assert "✗ messages and bytes not as declared" in body(a_run(declared=((1, 1, 1, 1),) * 4))


def test_a_run_that_overlapped_has_one_time_and_a_long_one_is_cut() -> None:
    assert ">time<" in body(a_run(traced=False))
    long = a_run()
    ranks = tuple(dataclasses.replace(each, step_s=(1e-3,) * 40) for each in long.ranks)
    assert "(and 28 more steps)" in body(dataclasses.replace(long, num_steps=40, ranks=ranks))


def test_a_run_that_did_not_end_says_why() -> None:
    drawn = body(a_run(ranks=(), error="rank 1 <died>"))
    assert "✗ ring, 3.91 KiB of float32 on 4 ranks: did not end" in drawn
    assert "rank 1 &lt;died&gt;" in drawn


def test_a_comparison_has_a_bar_for_each_and_no_speed_for_the_library() -> None:
    drawn = body(compared(1 << 20))
    assert drawn.count("<svg") == 3
    assert "<title>ring: 1.87 ms, from 1.69 ms to 2.25 ms</title>" in drawn
    said = "The speed is the median of each round's ratio, not the ratio of the medians."
    assert words(compared(1 << 20)).replace("&#x27;", "'").split("slowest. ")[1].strip() == said
    assert to_text(compared(1 << 20)).splitlines()[-1] == said
    once = dataclasses.replace(compared(1 << 20), timings=(Timing("ring", (1e-3,)), Timing("library", (2e-3,))))
    assert "ratio" not in words(once) + to_text(once), "one round's ratio is the ratio of the medians"
    assert "<td>1 ms to 3 ms</td><td></td>" in drawn


def test_a_sweep_is_a_table_with_what_the_fit_makes_of_it() -> None:
    drawn = body(a_sweep())
    assert "all_reduce on 4 ranks; median of 3 rounds, after 2 to warm up (gloo, float32, sum)" in drawn
    assert "#" not in words(a_sweep())
    assert drawn.count("<tr>") == 8
    assert "Fit as ring: 50 µs a message, 1 GB/s a link; typical error 0%; held out 64 KiB: " in drawn
    assert "… ended early: rank 1 died" in body(a_sweep(error="rank 1 died"))
    assert "… interrupted" in body(a_sweep(interrupted=True))
    assert "nothing was measured" in body(a_sweep(points=()))
    assert "Ranks 0 and 2 of 4, on hosts 0 and 1; links: 200mbit." in body(
        a_sweep(where="ranks 0 and 2 of 4, on hosts 0 and 1; links: 200mbit")
    )


def test_a_crossing_draws_both_curves_and_its_own_two_places() -> None:
    crossing = a_crossing()
    made = to_rich(crossing)[MIME]
    go.Figure(data=made["data"], layout=made["layout"])
    title = made["layout"]["title"]["text"]
    assert "from 391 KiB on ring is cheaper (model)" in title
    assert "from 371 KiB on ring is cheaper (measured)" in title
    assert len([each for each in made["data"] if each["name"].startswith("crossover")]) == 2
    assert "from 371 KiB on ring is cheaper than recursive-doubling (measured)" in body(crossing)


def test_a_measured_crossing_goes_the_way_that_was_predicted_however_noisy_the_small_sizes_are() -> None:
    upside_down = (Timing("recursive-doubling", (2e-3,)), Timing("ring", (1e-3,)))
    noise = [Comparison(4, size, "float32", upside_down) for size in (1 << 10, 1 << 15)]
    crossing = dataclasses.replace(a_crossing(), comparisons=(*noise, *a_crossing().comparisons[2:]))
    assert "from 371 KiB on ring is cheaper than recursive-doubling (measured)" in body(crossing)


@pytest.mark.parametrize(
    ("predicted", "measured", "says"),
    [
        (None, None, "by the model and as measured"),
        (400_000.0, None, "as measured"),
        (None, 380_000.0, "by the model"),
    ],
)
def test_where_nothing_crosses_the_figure_says_so(predicted: float | None, measured: float | None, says: str) -> None:
    title = to_rich(a_crossing(predicted, measured))[MIME]["layout"]["title"]["text"]
    assert f"{says} neither overtakes the other" in re.sub(r"(<[^>]+>)+", " ", title)


def test_a_crossing_without_measures_is_still_told() -> None:
    bare = dataclasses.replace(a_crossing(), comparisons=())
    assert to_rich(bare) == {}
    assert "measured 371 KiB" in body(bare)


@pytest.mark.parametrize("record", [a_run(), compared(1024), a_sweep(), a_crossing()], ids=lambda record: type(record).__name__)
def test_a_recording_says_so_before_all_else(record: Any) -> None:
    recorded = dataclasses.replace(record, source=SOURCE)
    assert words(recorded).split()[:5] == ["recorded", "on", "2026-01-31", "12:00", "UTC,"]
    assert "lk-wait" in body(recorded)
    assert "<a machine>" not in body(recorded)
    assert "recorded on" in to_text(recorded)
    assert "recorded on" not in body(record) + to_text(record)
    if to_rich(recorded):
        assert "recorded on" in json.dumps(to_rich(recorded)).replace("<br>", " ")


def test_a_price_shows_its_parts_as_shares_of_one_bar() -> None:
    drawn = body(predict("ring", 8, 1 << 20, Link.of(5, 10)))
    assert "ring, 1 MiB on 8 ranks" in drawn
    assert 'aria-label="28% latency, 72% transfer"' in drawn
    assert [float(share) for share in re.findall(r"width:([\d.]+)%", drawn)] == pytest.approx([27.6, 72.4], abs=0.1)
    assert "reducing" not in drawn
    assert "under 1 µs transfer, 0%" in body(predict("ring", 8, 1024, Link.of(5, 10)))
    assert "reducing" in body(predict("ring", 8, 1 << 20, Link.of(5, 10, 20)))


def test_text_and_picture_say_the_same_of_a_comparison_a_crossing_and_a_price() -> None:
    found = compared(1 << 20)
    head, *lines = to_text(found).splitlines()
    assert head in words(found)
    for each, line in zip(found.timings, lines, strict=False):
        for number in (each.median_s, each.low_s, each.high_s):
            assert format_seconds(number) in line
            assert format_seconds(number) in words(found)
    crossing = a_crossing()
    assert " ".join(to_text(crossing).split()).endswith(crossing.sentence)
    assert crossing.sentence in words(crossing)
    price = predict("ring", 8, 1024, Link.of(5, 10))
    assert to_text(price) == "ring, 1 KiB on 8 ranks: 70 µs = 70 µs latency + under 1 µs transfer"
    assert "under 1 µs transfer" in words(price)


def test_a_column_of_drawings_is_no_column_of_text() -> None:
    rows = [["a", Cell("", "<svg></svg>"), "1"], ["bc", Cell("", "<svg></svg>"), "22"]]
    assert as_text([Table(("x", "bar", "time"), rows, right=(2,))]) == "x   time\na      1\nbc    22"


def test_a_row_holds_several_records_and_reads_as_text_too() -> None:
    prices = [predict("ring", 8, size, LINK) for size in (1024, 2048)]
    both = row(*prices)
    assert body(both).count("lk-price") == 2
    assert to_text(both) == repr(both) == "\n".join(map(str, prices))
    assert to_text(row(a_sweep(), a_sweep())).count("average bus bandwidth") == 2
    assert to_html(row()) == ""


def test_many_problems_are_few_lines() -> None:
    wrong = ALGORITHMS["ring"].schedule(4)
    half = Schedule("half-a-ring", "all_reduce", 4, 4, lambda: iter(list(wrong.steps())[:3]))
    problems = check_schedule(half)
    assert len(problems) > 5
    drawn = body(trace(half, 400))
    assert drawn.count("✗") == 4
    assert f"and {len(problems) - 4} more" in drawn
    assert "✗ " + problems[0].sentence in body(problems[0])


@pytest.mark.parametrize("name", list(TABLES))
def test_a_table_that_lies_has_its_letter_and_every_number(name: str) -> None:
    table = TABLES[name]
    assert body(table).count("<tr>") == 1 + len(table.lines)
    assert f">{name}: " in body(table)
    for speed in ("algbw, GB/s", "busbw, GB/s"):
        assert speed in to_text(table)
        assert f">{speed}<" in body(table)
    assert to_text(table) == repr(table)
    for *_, busbw in table.lines:
        assert f"{busbw:.3f}" in body(table)


def test_the_views_are_found_by_the_names_of_their_records() -> None:
    assert {"ScheduleRun", "Comparison", "Sweep", "Crossing", "Price", "Problem", "Row", "Liar"} <= set(VIEWS)


def test_a_rank_that_did_not_come_to_every_step_has_a_row_too() -> None:
    ranks = (RankRun(0, 0.2, (0.1, 0.1), 2, 2, 8, 8, agrees=True), RankRun(1, 0.2, (0.1,), 1, 1, 4, 4, agrees=False))
    run = ScheduleRun("ring", "all_reduce", 2, 2, "int32", "SUM", 8, 2, True, 0.2, ranks, ((2, 2, 8, 8),) * 2, backend="gloo")
    for form in (to_text(run), to_html(run)):
        assert "rank 0" in form
        assert "rank 1" in form
