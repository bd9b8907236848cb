"""The live picture: what is sent, when the thread ends, and what stays in the notebook."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from labkit.views import Watcher
from labkit.views._watch import WIDGET_MIME, widget_class
from labkit.wire import RankCard, WorldStatus


@dataclasses.dataclass(eq=False)
class PaperFeed:
    """A world of one rank, in the state it is told."""

    state: str = "idle"
    over: bool = False
    looks: int = 0

    def look(self) -> WorldStatus:
        self.looks += 1
        state = "ended" if self.over else self.state
        return WorldStatus(1, "gloo", "raw", 1, "fork", (RankCard(0, 7, "cpu", "gloo", state),))


class PaperWidget:
    """Keeps what it was sent."""

    model_id = "paper"

    def __init__(self, **traits: Any) -> None:
        self.sent: list[Any] = []
        self.closed = False
        self.hear: Callable[..., None] = lambda *_: None
        self.__dict__.update(traits)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "cards":
            self.sent.append(value[0]["state"])
        object.__setattr__(self, name, value)

    def hold_sync(self) -> Any:
        return threading.Lock()

    def on_msg(self, hear: Callable[..., None]) -> None:
        self.hear = hear

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def made() -> list[PaperWidget]:
    return []


@pytest.fixture
def watcher(made: list[PaperWidget]) -> Watcher:
    def make(**traits: Any) -> PaperWidget:
        made.append(PaperWidget(**traits))
        return made[-1]

    return Watcher(lambda: make)  # type: ignore[arg-type, return-value]


@pytest.fixture
def published() -> list[tuple[dict[str, Any], bool]]:
    return []


@pytest.fixture
def publish(published: list[tuple[dict[str, Any], bool]]) -> Callable[..., None]:
    def note(data: dict[str, Any], *, transient: Any = None, update: bool = False) -> None:
        published.append((data, update))

    return note


def until(true: Callable[[], bool]) -> None:
    ends = time.monotonic() + 5
    while not true() and time.monotonic() < ends:
        time.sleep(0.01)
    assert true()


def threads() -> int:
    return sum(thread.name == "labkit-watch" for thread in threading.enumerate())


def test_changes_are_sent_and_the_same_is_not(
    watcher: Watcher, made: list[PaperWidget], publish: Callable[..., None], published: list[Any]
) -> None:
    feed = PaperFeed()
    watcher.show(feed, publish)
    assert set(published[0][0]) == {"text/plain", "text/html", WIDGET_MIME}
    feed.state = "in all_reduce #5"
    until(lambda: "in all_reduce #5" in made[0].sent)
    looks = feed.looks
    until(lambda: feed.looks > looks + 2)
    assert made[0].sent.count("in all_reduce #5") == 1
    feed.over = True
    until(lambda: not watcher.running)


def test_at_the_end_a_still_picture_takes_its_place(
    watcher: Watcher, made: list[PaperWidget], publish: Callable[..., None], published: list[Any]
) -> None:
    feed = PaperFeed()
    watcher.show(feed, publish)
    feed.over = True
    until(lambda: not threads())
    data, update = published[-1]
    assert update
    assert set(data) == {"text/plain", "text/html"}
    assert "ended" in data["text/plain"]
    assert made[0].closed


def test_there_is_one_updater_whatever_is_shown(
    watcher: Watcher, made: list[PaperWidget], publish: Callable[..., None], published: list[Any]
) -> None:
    first, second = PaperFeed(), PaperFeed()
    watcher.show(first, publish)
    watcher.show(first, publish)
    assert len(made) == 1
    watcher.show(second, publish)
    assert len(made) == 2
    assert made[0].closed
    until(lambda: threads() == 1)
    assert [update for _, update in published].count(True) == 2  # both pictures of the first world have become still ones
    second.over = True
    until(lambda: threads() == 0)


def test_a_closed_view_stops_the_updater_and_a_new_one_starts_it(
    watcher: Watcher, made: list[PaperWidget], publish: Callable[..., None]
) -> None:
    feed = PaperFeed()
    watcher.show(feed, publish)
    made[0].hear(None, {"view": "a", "shown": True}, None)
    made[0].hear(None, {"view": "a", "shown": False}, None)
    until(lambda: threads() == 0)
    made[0].hear(None, {"view": "b", "shown": True}, None)
    until(lambda: threads() == 1)
    watcher.close()
    until(lambda: threads() == 0)


def test_a_world_that_is_over_is_a_plain_output(watcher: Watcher, publish: Callable[..., None], published: list[Any]) -> None:
    watcher.show(PaperFeed(over=True), publish)
    assert set(published[0][0]) == {"text/plain", "text/html"}
    assert not watcher.running


def test_the_widget_is_small() -> None:
    pytest.importorskip("anywidget")
    made = widget_class()
    assert len(made._esm) + len(made._css) < 12_000
    assert "innerHTML" not in made._esm
    assert "http" not in made._esm
