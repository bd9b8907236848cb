"""Rank cards that move: one thread of the kernel looks at the world ten times a second and sends what has changed.

What is looked at comes through a `Feed`, so that no view knows the world. The cards are a small widget of
ours; it holds no picture of its own in the saved notebook: below it lie the text and HTML forms, and when
the world stops they take its place.
"""

from __future__ import annotations

import functools
import threading
import uuid
from collections.abc import Callable
from importlib import resources
from typing import Any, Protocol

from ..wire import RankCard, WorldStatus
from ._base import to_html, to_text
from ._html import styles
from .world_status import facts, headline, look

PERIOD_S = 0.1
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"


class Feed(Protocol):
    """A world as its picture sees it; feeds of one world are equal.

    `look` must be cheap and may be called from any thread.
    """

    @property
    def over(self) -> bool:
        """Nothing will change any more."""
        ...

    def look(self) -> WorldStatus:
        """Every rank's card, now."""
        ...


def plain_card(card: RankCard) -> dict[str, Any]:
    """A card as the widget draws it: all words are chosen here."""
    symbol, accent = look(card)
    return {
        "rank": f"rank {card.rank}",
        "symbol": symbol,
        "accent": accent,
        "state": card.doing,
        "detail": card.detail,
        "facts": facts(card),
    }


def picture(status: WorldStatus) -> dict[str, Any]:
    """What is sent: the widget's traits."""
    cards = [plain_card(card) for card in sorted(status.cards, key=lambda card: card.rank)]
    return {"head": headline(status), "note": status.note, "cards": cards}


@functools.cache
def widget_class() -> type:
    """The widget, made when it is first wanted: widgets take a tenth of a second to import."""
    import anywidget
    import traitlets

    class RankCards(anywidget.AnyWidget):
        _esm = resources.files("labkit.views").joinpath("static/cards.js").read_text(encoding="utf-8")
        _css = styles()
        head = traitlets.Unicode().tag(sync=True)
        note = traitlets.Unicode().tag(sync=True)
        cards: traitlets.List[Any] = traitlets.List().tag(sync=True)

    return RankCards


class Watcher:
    """At most one live picture and one thread per kernel; a second `show` of the same world shows the same picture."""

    def __init__(self, make: Callable[[], type] = widget_class) -> None:
        self._make = make
        self._lock = threading.RLock()
        self._feed: Feed | None = None
        self._widget: Any = None
        self._publish: Callable[..., Any] = lambda *_, **__: None
        self._displays: list[str] = []
        self._views: set[str] = set()
        self._thread: threading.Thread | None = None
        self._end = threading.Event()

    @property
    def running(self) -> bool:
        """Whether a thread looks at a world now."""
        return self._thread is not None and self._thread.is_alive()

    def show(self, feed: Feed, publish: Callable[..., Any]) -> None:
        """Publish the live picture of a world; another world's picture comes to its end."""
        status = feed.look()
        data: dict[str, Any] = {"text/plain": to_text(status), "text/html": to_html(status)}
        if feed.over:
            publish(data)
            return
        with self._lock:
            if self._feed is None or feed != self._feed:
                self.close()
                self._feed, self._widget = feed, self._make()(**picture(status))
                self._widget.on_msg(self._heard)
            self._publish = publish
            self._displays.append(uuid.uuid4().hex)
            data[WIDGET_MIME] = {"version_major": 2, "version_minor": 0, "model_id": self._widget.model_id}
            publish(data, transient={"display_id": self._displays[-1]})
            self._start()

    def _start(self) -> None:
        if not self.running and self._feed is not None:
            self._end = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._end,), name="labkit-watch", daemon=True)
            self._thread.start()

    def _heard(self, _: Any, message: dict[str, Any], __: Any) -> None:
        """A view came or went; without any there is nothing to do, until one comes again."""
        with self._lock:
            view = str(message.get("view", ""))
            if message.get("shown"):
                self._views.add(view)
                self._start()
            else:
                self._views.discard(view)
                if not self._views:
                    self._end.set()

    def _run(self, end: threading.Event) -> None:
        sent: dict[str, Any] = {}
        while not end.wait(PERIOD_S):
            feed, widget = self._feed, self._widget
            if feed is None:
                return
            status = feed.look()
            if feed.over:
                with self._lock:
                    if self._feed is feed:
                        self.close()
                return
            now = picture(status)
            changed = {name: value for name, value in now.items() if sent.get(name) != value}
            if changed and not end.is_set():
                _set(widget, changed)
                sent = now

    def close(self) -> None:
        """The last picture takes the widget's place in the notebook; the thread ends."""
        with self._lock:
            feed, widget, displays = self._feed, self._widget, self._displays
            self._feed, self._widget, self._displays, self._views = None, None, [], set()
            self._end.set()
            self._thread = None  # it sees the end within a period
        if feed is None:
            return
        status = feed.look()
        for display in displays:
            self._publish(
                {"text/plain": to_text(status), "text/html": to_html(status)}, transient={"display_id": display}, update=True
            )
        widget.close()


def _set(widget: Any, changed: dict[str, Any]) -> None:
    with widget.hold_sync():  # one message
        for name, value in changed.items():
            setattr(widget, name, value)


WATCHER = Watcher()
