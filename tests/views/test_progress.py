"""A line for what takes long: when it comes, that it goes on by itself, and that it goes away."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest

from labkit.views import Progress, Screen, _live


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
