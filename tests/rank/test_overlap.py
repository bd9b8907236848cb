"""The plan of an overlapped run: what each piece has to wait for, so that nothing is overwritten or sent too early."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from labkit.rank.overlap import In, Out, plan
from labkit.schedule import ALGORITHMS, programs
from labkit.schedule.program import Move

PIECES = (1, 3, 7, 1000)


def touches(one: Out | In, other: Out | In) -> bool:
    return one.start < other.stop and other.start < one.stop


def test_a_message_is_cut_into_pieces_that_cover_it() -> None:
    outs, ins = plan([Move(0, "sendrecv", 1, (0, 10), 2, (10, 20), reduce=True)], 4)
    assert [(each.start, each.stop, each.peer) for each in outs] == [(0, 4, 1), (4, 8, 1), (8, 10, 1)]
    assert [(each.start, each.stop, each.peer) for each in ins] == [(10, 14, 2), (14, 18, 2), (18, 20, 2)]
    assert [(each.needs, other.sends) for each, other in zip(outs, ins, strict=True)] == [(0, 0)] * 3


def test_a_piece_is_sent_on_when_it_has_come_and_not_when_its_message_has() -> None:
    moves = [Move(0, "recv", from_rank=0, into=(0, 8), reduce=True), Move(1, "send", to_rank=2, out=(0, 8))]
    outs, _ = plan(moves, 4)
    assert [each.needs for each in outs] == [1, 2]


def test_what_is_overwritten_waits_for_its_send() -> None:
    moves = [Move(0, "send", to_rank=1, out=(0, 8)), Move(1, "recv", from_rank=1, into=(0, 8))]
    _, ins = plan(moves, 4)
    assert [(each.sends, each.in_place) for each in ins] == [(1, True), (2, True)]
    _, ins = plan([Move(0, "sendrecv", 1, (0, 8), 1, (0, 8))], 4)
    assert [(each.sends, each.in_place) for each in ins] == [(1, False), (2, False)]  # at once, so not in place


def test_what_is_sent_from_the_copy_waits_for_nothing() -> None:
    moves = [Move(0, "recv", from_rank=1, into=(0, 4), send="own"), Move(1, "send", to_rank=1, out=(0, 4), send="own")]
    outs, ins = plan(moves, 4)
    assert outs[0].needs == 0
    assert ins[0].sends == 0


@pytest.mark.parametrize("name", ALGORITHMS)
def test_no_plan_breaks_the_order_of_the_moves(name: str) -> None:
    for world_size, piece in itertools.product([2, 3, 4, 7], PIECES):
        keeps_the_order(programs(ALGORITHMS[name].schedule(world_size)), piece)


def keeps_the_order(all_programs: Sequence[Any], piece: int) -> None:
    for program in all_programs:
        outs, ins = plan(program.moves(23), piece)
        for out in outs:
            came = [number for number, each in enumerate(ins) if each.move < out.move and touches(each, out)]
            if out.send != "own":
                assert out.needs == max(came, default=-1) + 1
            assert all(each.move < out.move for each in ins[: out.needs])
        for number, each in enumerate(ins):
            before = [at for at, out in enumerate(outs) if out.move <= each.move and out.send != "own" and touches(out, each)]
            assert each.sends == max(before, default=-1) + 1
            if each.in_place:
                assert not each.reduce
                assert all(outs[at].move < each.move for at in before)
            assert each.after <= number
