"""A line for what takes long: when it comes, that it goes on by itself, and that it goes away."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from labkit.callgrid import CallGrid
from labkit.diagnosis.grid import call_grid
from labkit.views import Progress, Screen, _live
from labkit.wire import Call, Evidence, RankView


class Page:
    """Keeps what is published."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, bool]] = []

    def __call__(self, data: dict[str, str], transient: dict[str, str] | None = None, update: bool = False) -> None:
        self.shown.append((data["text/plain"], update))
        self.html = data.get("text/html", "")


def until(page: Page, count: int) -> None:
    ends_s = time.monotonic() + 5
    while len(page.shown) < count and time.monotonic() < ends_s:
        time.sleep(0.01)


def test_what_is_over_at_once_needs_no_word() -> None:
    page = Page()
    with Progress(page, quiet_s=60) as progress:
        for number in range(5):
            progress.say(f"part {number}")
        progress.done("all parts")
    assert page.shown == []


def test_the_newest_line_comes_by_itself_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "LINE_S", 0.02)
    page = Page()
    with Progress(page, quiet_s=0.05) as progress:
        progress.say("part 1")
        progress.say("part <2>")
        until(page, 3)
        progress.done("2 parts")
    first, second, *_, last = page.shown
    assert (first, second) == (("part <2> (0 s)", False), ("part <2> (0 s)", True))
    assert last == ("2 parts", True)
    assert len(page.shown) == len([text for text, _ in page.shown if text])


def fail_after(progress: Progress, text: str) -> None:
    with progress:
        progress.say(text)
        raise ValueError(text)


def test_a_line_goes_when_all_is_over_or_fails() -> None:
    page = Page()
    with Progress(page) as progress:
        progress.say("<part>")
        assert "&lt;part&gt;" in page.html
    assert page.shown == [("<part> (0 s)", False), ("", True)]
    page = Page()
    with pytest.raises(ValueError, match="<part>"):
        fail_after(Progress(page), "<part>")
    assert page.shown == [("<part> (0 s)", False), ("", True)]


def test_in_a_terminal_the_line_is_on_stderr_and_elsewhere_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for screen, written in ((Terminal(), "\r\x1b[Kpart 1 (0 s)\r\x1b[K"), (io.StringIO(), "")):
        monkeypatch.setattr("sys.stderr", screen)
        with Progress(None) as progress:
            progress.say("part 1")
        assert screen.getvalue() == written


def test_a_cell_that_shows_nothing_says_that_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "QUIET_S", 1.0)
    monkeypatch.setattr(_live, "PERIOD_S", 0.02)
    page: Any = Page()
    screen = Screen(page, live=True)
    time.sleep(0.5)
    assert page.shown == []
    until(page, 2)
    assert "running for 2 s …" in page.html
    screen.finish({"text/plain": "the result"})
    assert page.shown == [("running …", False), ("running …", True), ("the result", True)]


def test_a_cell_that_nobody_watches_has_one_output() -> None:
    page: Any = Page()
    screen = Screen(page, live=False)
    screen.on_output(0, "stdout", "hello")
    time.sleep(0.3)
    screen.finish({"text/plain": "the result"})
    assert page.shown == [("the result", False)]


def test_a_running_cell_shows_its_calls_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "PERIOD_S", 0.01)
    monkeypatch.setattr(_live, "PICTURE_S", 0.02)
    page: Any = Page()
    grids = iter([None, "x", "x x", "x x"])
    screen = Screen(page, live=True, look=lambda: (found := next(grids, None)) and grid_of(len(found.split())))
    until(page, 2)
    assert page.shown[0][0].startswith("1 call, the same on all 2 ranks")
    assert page.shown[1][0].startswith("2 calls, the same on all 2 ranks")
    assert "lk-calls" in page.html
    screen.finish({"text/plain": "the result"})
    assert page.shown[-1] == ("the result", True)


def test_a_look_that_takes_long_is_taken_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_live, "PERIOD_S", 0.005)
    monkeypatch.setattr(_live, "PICTURE_S", 0.01)
    looks = []

    def look() -> None:
        looks.append(time.monotonic())
        time.sleep(0.05)

    screen = Screen(Page(), live=True, look=look)
    time.sleep(1.2)
    screen.finish({})
    assert 1 <= len(looks) <= 3, "ten times the time that a look takes is between two"


def grid_of(number: int) -> CallGrid:
    calls = tuple(Call(n + 1, n + 1, "all_reduce", cell=1, state="done") for n in range(number))
    return call_grid(Evidence(2, cell=1, ranks=tuple(RankView(rank, cell=1, calls=calls) for rank in range(2))))
