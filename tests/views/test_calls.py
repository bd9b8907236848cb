"""The picture of calls: its text as it stands, its page by structure, and its size and time with many ranks and calls."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from labkit.callgrid import CallGrid
from labkit.diagnosis import align, judge
from labkit.diagnosis.grid import call_grid
from labkit.views import to_html, to_text
from labkit.views._html import styles
from labkit.views._strokes import STYLES, THEMES, markup
from labkit.views.calls import drawn, legend
from labkit.wire import CellResult, Diagnosis, Outcome

from ..diagnosis.build import world
from ..diagnosis.pictured import left, skipped, swapped, unreceived

SWAPPED = """\
          #1  #2  #3  #4  #5 [#6]
  rank 0  B   A   A   |   A  (A)  30 s
  rank 1  B   A   A   |   A  (A)  30 s
  rank 2  B   A   A   |   A  (A)  30 s
> rank 3  B   A   A   |   A  (B)  30 s
                             ^^^^
B broadcast   A all_reduce   | barrier   (x) waits, not returned"""
LEFT = """\
          #1  #2  #3  #4 [#5]
  rank 0  B   D   D   A  (D)  12 s
  rank 1  B   D   D   A  (D)  12 s
> rank 2  B   D   D   A  [-]  | left
  rank 3  B   D   D   A  (D)  12 s
                         ^^^^"""
SKIPPED = """\
1 [======================== 9,930 calls agree =========================X] 9,970
                         9,930 [9,931] 9,932  37 more  9,970
  63 ranks  0–36, 38–63   A12    A15    A18    .....   (A15)  12 s
> rank 37  −1 call        A12    [-]    A18    .....    A15   | left
                               ^^^^^^^
           39 wrong sums: each met the others' call before it"""
UNRECEIVED = """\
world:
          #1  #2  #3 [#4]
  rank 0  B   A   |  (A)  8.0 s
  rank 1  B   A   |  (A)  8.0 s
> rank 2  B   A   |  [-]  | in send
> rank 3  B   A   |  (A)  8.0 s
                     ^^^^
pair:
          #1  #2
> rank 2  G   G
> rank 3  G   G
> rank 2 --x  rank 3   no recv, waits 8.0 s (cell 7, line 7)
  4 other messages"""


class Page(HTMLParser):
    """The elements of a page, with their attributes, and the text of its titles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.titles: list[str] = []
        self._in_title = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self._in_title = tag == "title"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.titles.append(data)
        self._in_title = False

    def number(self, name: str) -> int:
        """How many elements have this class."""
        return sum(name in attrs.get("class", "").split() for _, attrs in self.found)


def page_of(grid: CallGrid) -> Page:
    """The page of a picture without what is drawn for narrow windows."""
    return Page(re.sub(r'<svg class="lk-narrow".*?</svg>', "", drawn(grid)))


@pytest.fixture(scope="module")
def many() -> tuple[float, CallGrid]:
    """64 ranks with nearly 10,000 calls each: the CPU time of the picture alone, in seconds, and the picture."""
    evidence = skipped()
    seen, verdict = align(evidence), judge(evidence)[0]
    before = time.process_time()
    grid = call_grid(evidence, verdict, world=seen)
    to_html(grid)
    return time.process_time() - before, grid


@pytest.mark.parametrize(("make", "text"), [(swapped, SWAPPED), (left, LEFT), (unreceived, UNRECEIVED)])
def test_text(make: object, text: str) -> None:
    assert text in to_text(call_grid(make()))  # type: ignore[operator]


def test_text_of_many(many: tuple[float, CallGrid]) -> None:
    assert SKIPPED in to_text(many[1])


@pytest.mark.parametrize("make", [swapped, left, unreceived])
def test_a_page_has_one_frame_in_each_group_that_disagrees(make: object) -> None:
    grid = call_grid(make())  # type: ignore[operator]
    page = page_of(replace(grid, messages=None))
    holes = sum(place.hole for track in grid.tracks for row in track.rows for place in row.places)
    assert page.number("lk-frame") == 1
    assert page.number("lk-hole") == holes + (holes > 0), "each hole, and the one of the key"


def test_nothing_is_requested_and_nothing_runs(many: tuple[float, CallGrid]) -> None:
    for grid in (many[1], *(call_grid(make()) for make in (swapped, left, unreceived))):
        page = to_html(grid)
        assert not re.search(r"https?:|url\(|@import|<script|<link|<img|\son[a-z]+=", page)
        assert len(page) < 40_000


def test_each_row_is_one_stop_with_a_sentence_and_only_what_disagrees_has_a_stop_of_its_own() -> None:
    page = page_of(call_grid(left()))
    stops = [attrs["aria-label"] for _, attrs in page.found if "tabindex" in attrs]
    assert stops == [
        "rank 0: 4 calls returned, waits 12 s in DDP's gradient bucket 5 of step 1 (all_reduce #5) (cell 7, line 11)",
        "rank 1: 4 calls returned, waits 12 s in DDP's gradient bucket 5 of step 1 (all_reduce #5) (cell 7, line 11)",
        "rank 2: 4 calls returned, no call #5, its cell has ended",
        "rank 2: no call here, where others have DDP's gradient bucket 5 of step 1 (all_reduce #5)",
        "rank 3: 4 calls returned, waits 12 s in DDP's gradient bucket 5 of step 1 (all_reduce #5) (cell 7, line 11)",
    ]
    assert set(stops) <= set(page.titles)


def test_size_dtype_and_line_are_there_for_every_call() -> None:
    titles = page_of(call_grid(swapped())).titles
    assert (
        sum(title.startswith("rank 0: all_reduce #2: 8 float32 (32 B), sum, cell 7, line 6, returned") for title in titles) == 1
    )


def test_what_is_right_is_pale_and_the_odd_one_full() -> None:
    page = page_of(call_grid(swapped()))
    assert (page.number("lk-lb"), page.number("lk-la")) == (1, 0)
    assert page.number("lk-oa") == 3 + 1, "three wait, and the key"


def test_every_style_is_in_the_sheet_and_every_theme_has_its_colours() -> None:
    sheet = styles("calls")
    for name, style in STYLES.items():
        if name not in ("w",):
            assert re.search(rf"\.lk-{name}[ ,{{]", sheet), name
        for theme in THEMES.values():
            assert {style.fill, style.stroke} - {""} <= set(theme), name


def test_the_key_names_only_what_is_drawn() -> None:
    assert [words for _, _, words in legend(call_grid(left()))] == [
        "broadcast", "DDP's gradient bucket", "all_reduce", "waits, not returned", "no call",
    ]  # fmt: skip


def test_a_wide_picture_has_a_narrow_one_beside_it(many: tuple[float, CallGrid]) -> None:
    page = Page(drawn(many[1]))
    widths = {attrs["class"]: float(attrs["width"]) for tag, attrs in page.found if tag == "svg" and attrs.get("class")}
    assert widths["lk-narrow"] <= 345 - 24 < widths["lk-wide"] <= 740
    assert Page(drawn(call_grid(left()))).number("lk-narrow") == 0, "what fits is drawn once"
    assert "@container (max-width:740px){.labkit .lk-calls .lk-wide{display:none}}" in to_html(many[1])


def test_a_verdict_is_shown_with_its_picture_in_text_only_where_somebody_asked_for_a_diagnosis() -> None:
    evidence = swapped()
    diagnosis = Diagnosis(judge(evidence), evidence)
    assert SWAPPED.rpartition("\n")[0] in to_text(diagnosis)
    assert "A all_reduce   B broadcast   (x) waits, not returned" in to_text(diagnosis), "calls before the trouble need no name"
    assert to_text(diagnosis).count("\n") < 16
    result = CellResult(7, tuple(Outcome(rank, "stuck") for rank in range(4)), diagnosis, world_size=4)
    assert "#6]" not in to_text(result)
    assert Page(to_html(result)).number("lk-calls") == Page(to_html(diagnosis)).number("lk-calls") == 1


def test_a_verdict_on_ranks_that_made_no_call_has_no_picture() -> None:
    evidence = world("ar1", {rank: "die" if rank == 1 else "busy1" for rank in range(3)}, 3).run().evidence()
    page = to_html(Diagnosis(judge(evidence), evidence))
    assert "lk-calls" not in page
    assert "lk-side" in page


def test_of_fewer_than_eight_ranks_all_are_shown() -> None:
    text = to_text(call_grid(world("ar1 ar2", {6: "ar1"}, 7).run().evidence()))
    assert all(f"rank {rank}" in text for rank in range(7))


@pytest.mark.parametrize("ranks", [2, 3, 8, 128])
def test_any_number_of_ranks(ranks: int) -> None:
    grid = call_grid(skipped(ranks, 60, 1, 30))
    assert len(to_html(grid)) < 40_000
    assert max(map(len, to_text(grid).splitlines())) <= 80
    assert "rank 1" in to_html(grid)


def test_a_still_has_no_classes_and_no_variables() -> None:
    grid = call_grid(left())
    marks = [mark for shown, _, _ in legend(grid) for mark in shown]
    assert "class=" not in markup(marks, "dark")
    assert "class=" in markup(marks)


def test_many_ranks_and_calls_are_drawn_at_once(many: tuple[float, CallGrid]) -> None:
    assert many[0] < 0.5
    assert len(to_html(many[1])) < 32_000


def test_a_number_under_a_letter_is_said_to_be_a_line() -> None:
    said = "small number: the line"
    assert said in [words for _, _, words in legend(call_grid(skipped(4, 60, 1, 30)))]
    assert said not in [words for _, _, words in legend(call_grid(left()))], "there no tile has a number"
