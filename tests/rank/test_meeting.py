"""Waiting for announcements: told off, in a circle, and from which moment on."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from labkit.rank import meeting
from labkit.rank.context import RankContext
from labkit.rank.meeting import Meeting, Refused
from tests.rank.stores import Store


@pytest.fixture
def store() -> Store:
    return Store()


def rank(number: int, store: Store, folder: Path) -> tuple[RankContext, Meeting]:
    context = RankContext(number, 3, folder, {})
    return context, Meeting(context, store)


def test_keys_that_are_there_cost_one_look(store: Store, tmp_path: Path) -> None:
    store.set("a/1", "x")
    assert rank(0, store, tmp_path)[1].wait(["a/1"])
    assert set(store.kept) == {"a/1"}, "no note of a wait that was none"


def test_a_wait_that_is_told_raises_with_reason_and_hint(store: Store, tmp_path: Path) -> None:
    context, here = rank(0, store, tmp_path)
    timer = threading.Timer(0.05, lambda: context.refuse("rank 1 has left", "let it end"))
    timer.start()
    with pytest.raises(Refused) as caught:
        here.wait(["a/1"])
    assert (caught.value.reason, caught.value.hint) == ("rank 1 has left", "let it end")


def test_a_wait_that_begins_after_the_refusal_is_given_a_moment(store: Store, tmp_path: Path) -> None:
    context, here = rank(0, store, tmp_path)
    context.refuse("rank 1 has left")
    threading.Timer(meeting.GOES_ON_S / 3, lambda: store.set("a/1", "x")).start()
    assert here.wait(["a/1"]), "the others go on as well"
    began_s = time.monotonic()
    with pytest.raises(Refused):
        here.wait(["b/1"])
    assert time.monotonic() - began_s >= meeting.GOES_ON_S * 0.9


def test_an_asynchronous_call_goes_on_only_in_a_circle(store: Store, tmp_path: Path) -> None:
    contexts, here = zip(*(rank(number, store, tmp_path) for number in range(3)), strict=True)
    with ThreadPoolExecutor(3) as pool:
        one = pool.submit(here[0].wait, ["a/1"], goes_on=True)
        two = pool.submit(here[1].wait, ["b/2"])
        time.sleep(0.1)
        assert not one.done(), "rank 2 may still come"
        three = pool.submit(here[2].wait, ["c/0"])
        assert one.result(timeout=5) is False
        store.set("c/0", "x")
        assert three.result(timeout=5)
        store.set("b/2", "x")
        assert two.result(timeout=5)
    assert [context.rank for context in contexts] == [0, 1, 2]


def test_a_circle_without_an_asynchronous_call_is_the_drivers_to_end(store: Store, tmp_path: Path) -> None:
    (first, one), (second, two) = rank(0, store, tmp_path), rank(1, store, tmp_path)
    with ThreadPoolExecutor(2) as pool:
        waits = [pool.submit(one.wait, ["a/1"]), pool.submit(two.wait, ["a/0"])]
        time.sleep(0.1)
        assert not any(wait.done() for wait in waits)
        for context in (first, second):
            context.refuse("a deadlock")
        assert all(isinstance(wait.exception(timeout=5), Refused) for wait in waits)
