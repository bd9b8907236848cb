"""A request under way: whoever answers first counts, also if two threads answer at once."""

from __future__ import annotations

from concurrent.futures import Future

from labkit.driver.transport import ControlError, Pending, Reply, answered, errors_of, value_of
from labkit.errors import RankDead
from labkit.wire import Outcome


def test_the_reply_and_the_end_of_a_rank_may_come_at_once() -> None:
    pending = Pending(0, "cell")
    pending.future.done = lambda: False  # type: ignore[method-assign] # as another thread saw it a moment ago
    pending.resolve(Reply(Outcome(0, value=1)))
    pending.fail("dead")
    assert pending.future.result(0).outcome == Outcome(0, value=1)


def of(*, value: object = None, error: Exception | None = None) -> Future[object]:
    future: Future[object] = Future()
    future.set_exception(error) if error is not None else future.set_result(value)
    return future


def test_an_error_that_a_rank_sends_is_an_answer_and_its_end_is_none() -> None:
    failed = ControlError("rank 1: KeyError: x", hint="none")
    asked = {0: of(value=3), 1: of(error=failed), 2: of(error=RankDead("gone", hint="none")), 3: Future()}
    assert [answered(future) for future in asked.values()] == [True, True, False, False]
    assert [value_of(future) for future in asked.values()] == [3, None, None, None]
    assert errors_of(asked) == {1: failed}
