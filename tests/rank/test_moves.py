"""A rank's part of a schedule, on threads instead of processes: results, counts, lines in the beacon, armed faults."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from labkit.faults import FAULTS
from labkit.rank.moves import Memory, Tally, step_by_step
from labkit.rank.overlap import Overlapped
from labkit.schedule import ALGORITHMS, Schedule, count, programs, run_programs

from .channels import Channel, channels, on_all

SIZE = 29  # elements: no world size divides it


def inputs_of(schedule: Schedule) -> list[np.ndarray]:
    layout = schedule.layout(SIZE)
    lengths = [len(layout.elements(schedule.start(rank))) for rank in range(schedule.world_size)]
    return [np.arange(length, dtype=np.float64) + 100 * rank for rank, length in enumerate(lengths)]


def execute(
    schedule: Schedule, how: str, op: str = "SUM", made: list[Channel] | None = None, piece_bytes: int = 64
) -> tuple[list[torch.Tensor], list[Tally], list[Channel]]:
    """Every rank's result, counts and channel."""
    made = made or channels(schedule.world_size)
    memories, runs = [], []
    for program, channel, tensor in zip(programs(schedule), made, inputs_of(schedule), strict=True):
        memory = Memory(program, SIZE, torch.float64, "cpu")
        memory.load(torch.from_numpy(tensor))
        moves = program.moves(SIZE)
        stepwise = step_by_step(channel, memory, moves, op)
        runs.append(stepwise if how == "steps" else Overlapped(channel, memory, moves, op, piece_bytes).run)
        memories.append(memory)
    tallies = on_all(runs)
    return [memory.result() for memory in memories], tallies, made


@pytest.mark.parametrize("how", ["steps", "overlapped"])
@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_ranks_come_to_what_the_pure_programs_come_to(name: str, world_size: int, how: str) -> None:
    schedule = ALGORITHMS[name].schedule(world_size)
    wanted = run_programs(programs(schedule), inputs_of(schedule))
    found, tallies, _ = execute(schedule, how)
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.tolist() == theirs.tolist()
    load = count(schedule, SIZE, 8).by_rank
    assert [each.sent_bytes for each in tallies] == load.sent_bytes.tolist()
    assert [each.received_bytes for each in tallies] == load.received_bytes.tolist()


@pytest.mark.parametrize("how", ["steps", "overlapped"])
@pytest.mark.parametrize("op", ["MAX", "MIN", "PRODUCT", "AVG"])
def test_ranks_reduce_by_the_op(op: str, how: str) -> None:
    schedule = ALGORITHMS["ring"].schedule(3)
    tensors = [torch.from_numpy(each) for each in inputs_of(schedule)]
    wanted = {
        "MAX": torch.stack(tensors).amax(0), "MIN": torch.stack(tensors).amin(0), "PRODUCT": torch.stack(tensors).prod(0),
        "AVG": torch.stack(tensors).sum(0),  # divided once, by whoever asked
    }[op]  # fmt: skip
    for found in execute(schedule, how, op)[0]:
        torch.testing.assert_close(found, wanted)


def test_every_move_leaves_one_line_that_says_whom_it_waits_for() -> None:
    schedule = ALGORITHMS["ring"].schedule(4)
    _, tallies, made = execute(schedule, "steps")
    lines = made[1].context.ring
    assert [(each.algorithm, each.op, each.root, each.step, each.move) for each in lines.made] == [
        ("ring", "recv", 0, step, step + 1) for step in range(6)
    ]
    assert [each.reduce_op for each in lines.made] == ["sum"] * 3 + [""] * 3
    assert set(lines.states.values()) == {"done"}
    assert sorted(tallies[1].step_s) == list(range(6))


def test_a_program_run_in_pieces_leaves_a_line_a_move_as_well() -> None:
    _, _, made = execute(ALGORITHMS["ring"].schedule(2), "overlapped", piece_bytes=8)
    assert made[0].context.groups.num_sends == SIZE  # pieces of one element
    lines = made[0].context.ring.made
    assert [(each.op, each.move) for each in lines] == [("recv", 1), ("recv", 2), ("send", 2)]


class Armed:
    """What a fault's interceptor is handed, and whether it fired."""

    def __init__(self, rank: int, world_size: int) -> None:
        self.rank, self.world_size, self.times = rank, world_size, 0

    def fired(self) -> None:
        self.times += 1


class Twice:
    """Issues every move twice, where its peers know of one only."""

    in_schedules = True

    def around(self, call: Any, issue: Any) -> Any:
        issue(call)
        return issue(call)


class Nothing(Twice):
    def around(self, call: Any, issue: Any) -> Any:
        return None


class Elsewhere(Twice):
    in_schedules = False


def broadcast_lines(fault: Any) -> tuple[list[torch.Tensor], list[Tally], Channel]:
    """A broadcast on two ranks, in one chunk, with a fault on the rank that only sends."""
    schedule = ALGORITHMS["binomial-broadcast"].schedule(2)
    made = channels(2, {0: [fault]})
    found, tallies, _ = execute(schedule, "steps", made=made)
    return found, tallies, made[0]


def test_a_move_that_a_fault_issues_twice_is_two_messages_and_two_lines() -> None:
    _, tallies, channel = broadcast_lines(Twice())
    assert (tallies[0].sent_messages, tallies[0].sent_bytes) == (2, 2 * SIZE * 8)
    lines = channel.context.ring
    assert [each.move for each in lines.made] == [1, 1]
    assert len(lines.states) == 2


def test_a_fault_that_is_not_for_schedules_is_not_asked() -> None:
    found, tallies, channel = broadcast_lines(Elsewhere())
    assert tallies[0].sent_messages == 1
    assert found[0].tolist() == found[1].tolist()
    assert [each.state for each in channel.context.ring.made] == ["issued"]


def test_a_move_that_a_fault_drops_stays_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.rank.channels.WAIT_S", 0.2)
    schedule, made = ALGORITHMS["binomial-broadcast"].schedule(2), channels(2, {0: [Nothing()]})
    with pytest.raises(Exception):  # noqa: B017, PT011 - the queue is empty: rank 1 waits in vain
        execute(schedule, "steps", made=made)
    assert [each.state for each in made[0].context.ring.made] == ["begun"]
    assert set(made[1].context.ring.states.values()) == {"failed"}
    assert len(made[1].context.unfinished) == 1  # its message is kept alive


def test_a_changed_op_is_in_the_line_and_in_the_result() -> None:
    schedule = ALGORITHMS["ring"].schedule(2)
    context = Armed(0, 2)
    fault = FAULTS["reduce-op-mismatch"].arm(context)
    made = channels(2, {0: [fault]})
    found, _, _ = execute(schedule, "steps", made=made)
    assert context.times == 1
    changed = [each for each in made[0].context.ring.made if each.planned]
    assert [each.move for each in changed] == [1]
    assert changed[0].reduce_op != "sum"
    assert "sum" in changed[0].planned
    assert found[0].tolist() != [a + b for a, b in zip(*(each.tolist() for each in inputs_of(schedule)), strict=True)]
