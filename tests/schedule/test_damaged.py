"""A recording that was changed is refused in one line, or what is read of it can be printed and drawn."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from labkit.errors import WireError
from labkit.plain import dumps, from_plain
from labkit.schedule import ALGORITHMS, Link, count
from labkit.schedule.nccl_log import RECORDINGS, NcclLink, NcclLog, recorded
from labkit.schedule.recording import load_record, marked, save_record
from labkit.schedule.records import Comparison, RankRun, ScheduleRun, Source, Timing
from labkit.schedule.sweeps import Crossing, Point, Sweep
from labkit.views import to_html, to_rich, to_text
from labkit.wire import Call, Diagnosis, Evidence, RankView, Side, Verdict

SIZES = (1024, 4096, 16384, 65536)
ROUNDS = 7 * settings().max_examples // 2  # damaged files of each kind


def a_comparison(size: int) -> Comparison:
    timings = [Timing(name, (1e-3 * step, 2e-3, 1.5e-3)) for step, name in enumerate(("ring", "naive", "library"), 1)]
    return Comparison(4, size, "float32", tuple(timings), "gloo")


def a_run() -> ScheduleRun:
    loads = count(ALGORITHMS["ring"].schedule(4), 100).by_rank
    columns = (loads.sent_messages, loads.received_messages, loads.sent_bytes, loads.received_bytes)
    declared = tuple(tuple(row) for row in zip(*(column.tolist() for column in columns), strict=True))
    ranks = tuple(RankRun(rank, 1e-2, (1e-3,) * 6, *row, agrees=rank > 0, worst=math.nan) for rank, row in enumerate(declared))
    sides = (Side((0,), "called all_reduce"), Side((1, 2), "called broadcast"))
    verdict = Verdict("LK001", "mismatch", "a mismatch", "rank 0 differs.", (0,), (1, 2), sides, "look at it", ("a fact",))
    evidence = Evidence(4, ranks=(RankView(0, calls=(Call(1, 1, "all_reduce"),)),), sources={"1": "x = 1"})
    return ScheduleRun(
        "ring", "all_reduce", 4, 100, "float32", "SUM", 400, 6, True, 1e-2, ranks, declared, Diagnosis((verdict,), evidence)
    )


def kept(record: Any) -> Any:
    return json.loads(dumps(marked(record)))


def bases() -> dict[str, Any]:
    points = tuple(Point(name, "all_reduce", 4, size, "float32", 4, "SUM", (size * 1e-8, 1e-3))
                   for name in ("ring", "all_reduce") for size in SIZES)  # fmt: skip
    crossing = Crossing("naive", "ring", 4, Link(1e-5, 1e-9), 9e3, 8e3, tuple(map(a_comparison, SIZES)))
    hosts = Path(__file__).parents[2] / "labkit" / "hosts" / "recordings" / "two-hosts.json"
    return {
        "comparison": kept(a_comparison(1024)), "run": kept(a_run()), "stuck": kept(dataclasses.replace(a_run(), ranks=())),
        "sweep": kept(Sweep("gloo", 4, points, 2)), "crossing": kept(crossing), "hosts": json.loads(hosts.read_text()),
        **{name: json.loads(dumps(recorded(name))) for name in RECORDINGS},
    }  # fmt: skip


BASES = bases()
LIKE: dict[type, list[Any]] = {
    int: [0, -1, 1, 2, 3, 64, 1000, 10**18, 10**30], float: [0.0, -1.0, 1e300, 1e-320, math.nan, math.inf, 1e17],
    str: ["", "x", "ring", "ring-all-gather", "library", "all_gather", "<b>", "\ud800"], bool: [True, False],
}  # fmt: skip
ANY = [None, 0, 1.5, "x", [], {}, True, [None], {"$": "Link"}, {"$": ["x"]}, {"a": 1}, [1, 2], "\ud800"]


def places(plain: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if at:
        yield at
    inside = plain.items() if isinstance(plain, dict) else enumerate(plain) if isinstance(plain, list) else ()
    for key, item in inside:
        yield from places(item, (*at, key))


def damage(plain: Any, chance: random.Random) -> None:
    """Change one value, high up as often as deep down: by one of its kind, by any, by another's, or by none."""
    deepest = chance.choice([1, 2, 3, 99])
    *way, last = chance.choice([each for each in places(plain) if len(each) <= deepest])
    inside = plain
    for key in way:
        inside = inside[key]
    value, how = inside[last], chance.random()
    if how < 0.1:
        del inside[last]
    elif how < 0.6 and type(value) in LIKE:
        inside[last] = chance.choice(LIKE[type(value)])
    elif how < 0.8 and isinstance(value, list) and value:
        inside[last] = chance.choice([[], value[:-1], value[::-1], [*value, value[0]]])
    else:
        inside[last] = chance.choice(ANY)


@pytest.mark.parametrize("name", BASES)
def test_a_damaged_recording_is_one_line_or_can_be_drawn(name: str, tmp_path: Path) -> None:
    path, chance, drawn = tmp_path / "kept.json", random.Random(name), 0
    refused: list[str] = []
    for _ in range(ROUNDS):
        plain = copy.deepcopy(BASES[name])
        for _ in range(chance.choice([1, 1, 2])):
            damage(plain, chance)
        path.write_text(json.dumps(plain))
        try:
            found = load_record(path)
        except WireError as error:
            refused.append(str(error).removeprefix(str(path)))
            continue
        for text in (str(found), to_text(found), to_html(found), json.dumps(to_rich(found))):
            assert text.encode() or not to_rich(found)
        drawn += 1
    assert 0 < drawn < ROUNDS
    assert max(map(len, refused)) < 250
    assert not any("\n" in line for line in refused)


@pytest.mark.parametrize("name", BASES)
def test_what_is_not_damaged_is_read_and_soon(name: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps(BASES[name]))
    load_record(path)
    started_s = time.thread_time()
    found = load_record(path)
    assert time.thread_time() - started_s < 0.05
    assert found == from_plain(BASES[name]) or name == "run"  # which has a nan


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("stuck", {"diagnosis": "x"}, "a damaged ScheduleRun: expected object \\| null, got str at diagnosis"),
        ("comparison", {"world_size": None}, "a damaged Comparison: expected int, got null at world_size"),
        ("crossing", {"comparisons": [None]}, r"expected object, got null at comparisons\[0\]"),
        ("comparison", {"num_bytes": True}, "expected int, got bool at num_bytes"),
        ("comparison", {"num_bytes": 10**30}, "a number in it does not fit in 64 bits"),
        ("comparison", {"dtype": "\ud800"}, r"a text in it can't be printed"),
        ("comparison", {"timings": []}, "it has no timings"),
        ("crossing", {"one": "rign"}, "there is no algorithm 'rign'"),
        ("run", {"declared": [[1, 2, 3]]}, r"expected array of length 4, got 3 at declared\[0\]"),
        ("two-hosts", {"world_size": 2}, "it names a rank that a world of 2 does not have"),
    ],
)
def test_the_line_says_where_the_damage_is(name: str, change: dict[str, Any], says: str, tmp_path: Path) -> None:
    path = tmp_path / "kept.json"
    path.write_text(json.dumps({**BASES[name], **change}))
    with pytest.raises(WireError, match=says):
        load_record(path)


def test_a_log_that_tells_no_size_comes_back(tmp_path: Path) -> None:
    log = NcclLog(links=(NcclLink(1, 6, 5, "P2P/IPC/read"),), source=Source("2026-01-31 12:00 UTC"))
    assert load_record(save_record(tmp_path / "log.json", log)) == log
