"""Safe mode never refuses right code, tells the truth of a rank at work, and keeps the culprit of code that goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from labkit.driver.world import World

pytestmark = [pytest.mark.gloo, pytest.mark.timeout(120)]
WorldMaker = Callable[..., World]

RIGHT = {
    "asynchronous calls of three groups in any order": """
import random
gs = [dist.new_group(list(range(world_size))) for _ in range(3)]
for step in range(6):
    ts = [torch.ones(5) * (i + 1) for i in range(3)]
    order = list(range(3)); random.Random(rank * 100 + step).shuffle(order)
    hs = {i: dist.all_reduce(ts[i], group=gs[i], async_op=True) for i in order}
    random.Random(step + rank).shuffle(order)
    for i in order: hs[i].wait()
    assert [t[0].item() for t in ts] == [world_size * (i + 1) for i in range(3)]
""",
    "an asynchronous call before the message that lets the other rank come": """
t, b = torch.ones(2), torch.zeros(2)
for step in range(3):
    if rank == 0:
        w = dist.all_reduce(t, async_op=True); dist.isend(b, 1).wait(); w.wait()
    elif rank == 1:
        dist.irecv(b, 0).wait(); dist.all_reduce(t)
    else: dist.all_reduce(t)
""",
    "a ring, a pipeline, tags in another order, any source": """
right, left, b = (rank + 1) % world_size, (rank - 1) % world_size, torch.empty(4)
h = dist.isend(torch.full((4,), float(rank)), right); dist.recv(b, left); h.wait()
for w in dist.batch_isend_irecv([dist.P2POp(dist.isend, b, right), dist.P2POp(dist.irecv, torch.empty(4), left)]): w.wait()
for m in range(3):
    x = torch.full((2, 3), float(m))
    if rank: dist.recv(x, rank - 1, tag=m)
    if rank < world_size - 1: dist.send(x + 1, rank + 1, tag=m)
if rank == 0:
    for w in [dist.isend(torch.ones(2), 1, tag=tag) for tag in (0, 1)]: w.wait()
elif rank == 1:
    for tag in (1, 0): dist.recv(torch.empty(2), 0, tag=tag)
if rank == 0:
    for _ in range(world_size - 1): dist.recv(b)
else: dist.send(b, 0)
""",
    "branches, shapes of one size, groups of some": """
pair = dist.new_group([0, 1])
if rank == 0:
    dist.all_reduce(torch.ones(2, 3)); dist.broadcast(torch.ones(4), src=0)
else:
    dist.all_reduce(torch.ones(6))
    dist.broadcast(torch.ones(2, 2).view(-1), src=0)
if rank < 2: dist.all_reduce(torch.ones(3), group=pair)
out = [torch.zeros(1) for _ in range(world_size)] if rank == 0 else None
dist.gather(torch.ones(1), out)
ins = [(r + 1) * (rank + 1) for r in range(world_size)]
dist.all_to_all_single(torch.zeros(sum(ins)), torch.ones(sum(ins)), ins, ins)
dist.monitored_barrier()
""",
}


@pytest.mark.parametrize("ranks", [2, 3])
@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_let_through(world_of: WorldMaker, name: str, ranks: int) -> None:
    result = world_of(ranks, "safe").run_cell(RIGHT[name], deadline_s=10)
    assert result.ok, result
    assert result.diagnosis is None


def test_a_message_may_be_received_by_a_later_cell(world_of: WorldMaker) -> None:
    world = world_of(2, "safe")
    assert world.run_cell("h = dist.isend(torch.ones(2), 1) if rank == 0 else None").ok
    assert world.run_cell("b = torch.zeros(2)\nif rank == 1: dist.recv(b, 0)\nelse: h.wait()").ok


def test_a_rank_at_work_is_said_to_be_there_and_the_world_is_not_called_well(world_of: WorldMaker) -> None:
    world = world_of(3, "safe")
    result = world.run_cell("import time\ndef load():\n    time.sleep(20)\nif rank == 0: load()\ndist.barrier()", deadline_s=1.5)
    assert [str(outcome.status) for outcome in result.outcomes] == ["late", "error", "error"]
    told = result.outcomes[1].error.message
    assert "rank 0 is still in load (cell" in told
    assert "run it again" not in told
    step = result.diagnosis.verdict.next_step
    assert "rank 0 is still in load (cell" in step
    assert "healthy" not in step
    assert world.recover().replaced == ()


def test_a_rank_that_comes_when_the_others_have_given_up_hears_why(world_of: WorldMaker) -> None:
    world = world_of(2, "safe")
    world.run_cell("import time\nif rank == 0: time.sleep(2.5)\ndist.barrier()", deadline_s=1.0)
    world.core.pending[0].future.result(timeout=10)
    error = world.core.pending[0].future.result().outcome.error
    assert error.type == "ContractError"
    assert "others have given up waiting in it" in error.message
    world.recover()


@pytest.mark.parametrize("after", ["pass", "dist.barrier()", "raise SystemError('stopped')"])
def test_code_that_catches_the_error_keeps_its_culprit(world_of: WorldMaker, after: str) -> None:
    world = world_of(3, "safe")
    code = f"try:\n    dist.all_reduce(torch.ones(3 + (rank == 1)))\nexcept Exception:\n    {after}\nif rank == 0: dist.barrier()"
    result = world.run_cell(code, deadline_s=6)
    assert not {str(outcome.status) for outcome in result.outcomes} & {"stuck", "late", "dead"}, result
    verdict = result.diagnosis.verdict
    assert (verdict.code, verdict.culprits) == ("LK005", (1,)), verdict
    assert "line 2" in verdict.sentence
    world.recover()


def test_what_went_out_before_it_could_be_compared_is_not_called_unissued(world_of: WorldMaker) -> None:
    world = world_of(3, "safe")
    code = (
        "g, t = dist.new_group([0, 1, 2]), torch.ones(4)\n"
        "if rank == 0:\n    w = dist.all_reduce(t, async_op=True); dist.barrier(group=g); w.wait()\n"
        "else:\n    dist.barrier(group=g); dist.broadcast(t, 0)"
    )
    result = world.run_cell(code, deadline_s=6)
    assert [outcome.error.type for outcome in result.outcomes if outcome.error] == ["ContractError"] * 3, result
    assert "rank 0 had issued it, asynchronously" in result.outcomes[1].error.message
    assert "No rank has issued" not in result.diagnosis.verdict.next_step
    assert world.broken
    assert world.recover().replaced == ()
