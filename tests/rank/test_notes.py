"""What a rank finds that shows in wrong numbers only, and what it leaves alone. One rank, in this process."""

from __future__ import annotations

import linecache
from typing import Any

import pytest
import torch
import torch.distributed as dist

from labkit.notes import Finding
from labkit.rank.cell import run_cell
from labkit.rank.context import RankContext
from labkit.rank.notes import not_contiguous, not_waited
from labkit.rank.tap import Tap


@pytest.fixture(autouse=True)
def _two(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checks believe that there is somebody to move something to."""
    monkeypatch.setattr(not_contiguous.dist, "get_world_size", lambda group=None: 2)


def found(tap: Tap, context: RankContext, source: str, cell: int = 7) -> list[tuple[str, str, str]]:
    context.namespace.update(torch=torch, dist=dist)
    run_cell(context, None, source, cell)
    return [(each.kind, each.op, each.place) for each in tap.notes.take()]


def one(tap: Tap, context: RankContext, source: str) -> Finding:
    context.namespace.update(torch=torch, dist=dist)
    run_cell(context, None, source, 7)
    (finding,) = tap.notes.take()
    return finding


# ---- not contiguous
TABLE = "table = torch.zeros(4, 3)\n"


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(table[:, 1])",
        "dist.all_reduce(tensor=table[::2])",
        "dist.reduce(table[:, :2], 0)",
        "dist.broadcast(table[:, 1], src=0)",
        "dist.broadcast(torch.zeros(1).expand(4), src=0)",
        "dist.scatter(table[:, 1], [torch.zeros(4)], src=0)",
        "dist.scatter(torch.zeros(4), [table[:, 1]], src=0)",
        "dist.all_reduce(table[:, 0], async_op=True).wait()",
    ],
)
def test_a_tensor_with_gaps_is_noted_where_gloo_moves_a_row(tap: Tap, rank_context: RankContext, call: str) -> None:
    assert [(kind, place) for kind, _, place in found(tap, rank_context, TABLE + call)] == [("not-contiguous", "cell 7, line 2")]


@pytest.mark.parametrize(
    "call",
    [
        "dist.all_reduce(table)",
        "dist.all_reduce(table[1:3])",
        "dist.all_reduce(table[1])",
        "dist.all_reduce(table.t())",
        "dist.broadcast(torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last), 0)",
        "dist.all_gather([torch.zeros(4)], table[:, 1])",
        "dist.all_gather([table[:, 1]], torch.zeros(4))",
        "dist.all_gather_into_tensor(torch.zeros(4), table[:, 1])",
        "dist.gather(table[:, 1], [torch.zeros(4)], dst=0)",
        "dist.reduce_scatter_tensor(table[:, 1], torch.zeros(4))",
        "dist.all_reduce(table[:1, 1])",
        "dist.all_reduce(table[:0, 1])",
        "dist.all_reduce(torch.tensor(1.0))",
    ],
)
def test_a_layout_that_arrives_as_it_is_is_no_slip(tap: Tap, rank_context: RankContext, call: str) -> None:
    assert found(tap, rank_context, TABLE + call) == []


def test_a_place_in_a_loop_is_told_once_with_what_it_was_given(tap: Tap, rank_context: RankContext) -> None:
    finding = one(tap, rank_context, TABLE + "for _ in range(3):\n    column = table[:, 1]\n    dist.all_reduce(column)")
    assert (finding.times, finding.place, finding.source) == (3, "cell 7, line 4", "dist.all_reduce(column)")
    assert (finding.facts["shape"], finding.facts["stride"], finding.facts["name"]) == ([4], [3], "column")


def test_with_one_member_nothing_moves(tap: Tap, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(not_contiguous.dist, "get_world_size", lambda group=None: 1)
    assert found(tap, rank_context, TABLE + "dist.all_reduce(table[:, 1])") == []


# ---- thrown away
BEGIN = """x = torch.ones(3, 4).t()
flags = [torch.ones(2), torch.ones(2)]
net = torch.nn.Linear(2, 2)
net(torch.ones(1, 2)).sum().backward()
loss = net(torch.ones(1, 2)).sum()
number = 3
"""


@pytest.mark.parametrize(
    "given",
    [
        "x.contiguous()",
        "x.clone()",
        "x + 1",
        "-x",
        "2 * x.sum()",
        "x.double()",
        "x[x > 0]",
        "torch.cat([x, x])",
        "torch.stack(flags)",
        "torch.cat([f.view(-1) for f in flags])",
        "torch.cat([p.grad.view(-1) for p in net.parameters()])",
        "flags[0].clone()",
        "loss.detach().clone()",
        "net.weight.grad.double()",
        "net.weight.detach() * 2",
        "torch.tensor(loss.item())",
        "torch.tensor([loss.item(), number])",
        "x.clone() if number else x.contiguous()",
    ],
)
def test_a_copy_that_nobody_holds_is_noted(tap: Tap, rank_context: RankContext, given: str) -> None:
    source = f"{BEGIN}def mean(x):\n    dist.all_reduce({given})\n    return x\nmean(x)"
    assert found(tap, rank_context, source) == [("thrown-away", "all_reduce", "cell 7, line 8")]
    assert found(tap, rank_context, f"{BEGIN}dist.all_reduce(tensor={given})") == [
        ("thrown-away", "all_reduce", "cell 7, line 7")
    ]


@pytest.mark.parametrize(
    "line",
    [
        "dist.all_reduce(x)",
        "dist.all_reduce(torch.ones(1))",
        "dist.all_reduce(torch.ones(1) * number)",
        "dist.all_reduce(torch.zeros_like(x))",
        "dist.all_reduce(torch.zeros(x.shape))",
        "dist.all_reduce(torch.tensor(x.numel()))",
        "dist.all_reduce(x.new_zeros(3))",
        "dist.all_reduce(x.view(-1) if x.is_contiguous() else x)",
        "dist.all_reduce(x.detach())",
        "dist.all_reduce(x.float())",
        "dist.all_reduce(loss.detach().cpu())",
        "dist.all_reduce(net.weight.data)",
        "dist.all_reduce(net.weight.grad)",
        "dist.all_reduce(net.weight.grad.contiguous())",
        "dist.all_reduce(flags[0])",
        "dist.all_reduce(flags[0][1:])",
        "dist.all_reduce(torch.from_numpy(x.numpy()))",
        "dist.all_reduce(kept := x.clone())",
        "kept = x.clone(); dist.all_reduce(kept); kept.sum().item()",
        "box = []; box.append(x.clone()); dist.all_reduce(box[0])",
        "def total(v):\n    v = v.clone()\n    dist.all_reduce(v)\n    return v.sum().item()\ntotal(x)",
        "def inner(v): dist.all_reduce(v); return v\ninner(x.clone())",
        "dist.broadcast(x.clone(), src=0)",
        "dist.reduce(x.clone(), dst=0) if number > 5 else None",
        "dist.all_gather_into_tensor(torch.empty(12), x.contiguous().view(-1))",
        "dist.gather(x.contiguous(), [torch.empty(4, 3)], dst=0)",
        "made = lambda: x.clone(); dist.all_reduce(made())",
    ],
)
def test_a_result_that_somebody_can_read_or_nobody_needs_is_no_slip(tap: Tap, rank_context: RankContext, line: str) -> None:
    assert found(tap, rank_context, BEGIN + line) == []


@pytest.mark.parametrize(
    "body",
    [
        "v = x.clone()\n    dist.all_reduce(v)",
        "v = v.clone()\n    dist.all_reduce(v)",
        "v = v.double()\n    v *= 2\n    dist.all_reduce(v)\n    return x",
        "for p in net.parameters():\n        g = p.grad.double()\n        dist.all_reduce(g)",
        "for f in flags:\n        v = f.clone()\n        dist.all_reduce(v)\n        v = f",
    ],
)
def test_a_copy_that_a_function_never_reads_again_is_noted(tap: Tap, rank_context: RankContext, body: str) -> None:
    assert [kind for kind, _, _ in found(tap, rank_context, f"{BEGIN}def f(v):\n    {body}\nf(x)")] == ["thrown-away"]


@pytest.mark.parametrize(
    "body",
    [
        "v = v.clone()\n    dist.all_reduce(v)\n    return v",
        "v = v.clone()\n    dist.all_reduce(v)\n    print(locals())",
        "v = v.clone()\n    for _ in range(3):\n        dist.all_reduce(v)",
        "v = torch.ones(1)\n    dist.all_reduce(v)",
        "v = torch.zeros_like(v)\n    dist.all_reduce(v)",
        "v = v.view(-1) if v.is_contiguous() else v\n    dist.all_reduce(v)",
        "w = v.detach()\n    dist.all_reduce(w)",
        "g = net.weight.grad\n    dist.all_reduce(g)",
        "g = net.weight.grad.contiguous()\n    dist.all_reduce(g)",
        "v = v.clone()\n    keep = lambda: v\n    dist.all_reduce(v)\n    return keep",
        "v = v.clone()\n    out = [v]\n    dist.all_reduce(v)\n    return out",
        "v = v.clone()\n    if number > 5:\n        dist.all_reduce(v)\n    return v",
        "v = v.clone()\n    try:\n        dist.all_reduce(v)\n    finally:\n        print(v.sum())",
        "part = v.clone()\n    rest = part[1:]\n    dist.all_reduce(part)\n    return rest",
        "total = 0\n    for f in flags:\n        w = f.clone()\n        dist.all_reduce(w)\n        total += w.sum()",
        "last = flags[0].clone()\n    for f in flags:\n        f += last\n        last = f.clone()\n        dist.all_reduce(last)",  # noqa: E501
    ],
)
def test_a_copy_that_a_function_goes_on_with_is_no_slip(tap: Tap, rank_context: RankContext, body: str) -> None:
    assert found(tap, rank_context, f"{BEGIN}def f(v):\n    {body}\nf(x)") == []


def test_a_copy_whose_handle_is_only_waited_for_is_noted(tap: Tap, rank_context: RankContext) -> None:
    source = f"{BEGIN}dist.all_reduce(x.contiguous(), async_op=True).wait()"
    assert [kind for kind, _, _ in found(tap, rank_context, source)] == ["thrown-away"]
    assert found(tap, rank_context, f"{BEGIN}work = dist.all_reduce(x.contiguous(), async_op=True)\nwork.wait()") == []
    assert found(tap, rank_context, f"{BEGIN}dist.all_reduce(x, async_op=True).wait()") == []


def test_the_note_says_what_made_the_copy(tap: Tap, rank_context: RankContext) -> None:
    facts = one(tap, rank_context, f"{BEGIN}dist.all_reduce(\n    x.contiguous(),\n    op=dist.ReduceOp.MAX,\n)").facts
    assert facts == {"given": "x.contiguous()", "origin": "x", "name": ""}


def test_without_source_nothing_is_said(tap: Tap, rank_context: RankContext) -> None:
    names: dict[str, Any] = {"dist": dist, "x": torch.ones(2, 3).t()}
    exec(compile("dist.all_reduce(x.contiguous())", "cell 99", "exec"), names)
    assert "cell 99" not in linecache.cache
    assert tap.notes.take() == []


# ---- not waited
@pytest.mark.parametrize(
    ("source", "how", "changed"),
    [
        ("dist.all_reduce(x, async_op=True)\ny = 1", "lost", False),
        ("dist.all_reduce(x, async_op=True)\nx.div_(2)", "lost", True),
        ("work = dist.all_reduce(x, async_op=True)\nx += 1", "changed", True),
        ("work = dist.all_reduce(x, async_op=True)\nx += 1\nwork.wait()", "changed", True),
        ("work = dist.all_reduce(x, async_op=True)\nprint(x.sum())", "used", False),
        ("work = dist.all_reduce(x, async_op=True)\ny = x * 2\nwork.wait()", "used", False),
        ("def f():\n    work = dist.all_reduce(x, async_op=True)\n    y = x.sum()\n    work.wait()\nf()", "used", False),
        (
            "held = []\ndef f(g0):\n    held.append(dist.all_reduce(g0, async_op=True))\n    return g0\ng = f(x)\ny = g / 2",
            "used",
            False,
        ),
        ("def f():\n    work = dist.all_reduce(x, async_op=True)\nf()", "lost", False),
        ("for _ in range(2):\n    work = dist.all_reduce(x, async_op=True)\nwork.wait()", "lost", False),
        ("works = [dist.all_reduce(x, async_op=True) for _ in range(2)]\nworks[0].wait()\ndel works", "lost", False),
        ("dist.barrier(async_op=True)\ny = 1", "lost", False),
    ],
)
def test_work_that_nobody_waits_for_is_noted(
    tap: Tap, rank_context: RankContext, source: str, how: str, changed: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    finding = one(tap, rank_context, "x = torch.ones(3)\n" + source)
    assert finding.kind == "not-waited"
    assert (finding.facts["how"], finding.facts["changed"]) == (how, changed)


@pytest.mark.parametrize(
    "source",
    [
        "dist.all_reduce(x, async_op=True).wait()",
        "works = [dist.all_reduce(x, async_op=True), dist.broadcast(y, 0, async_op=True)]\nfor w in works[::-1]: w.wait()",
        "work = dist.all_reduce(x, async_op=True)\nwhile not work.is_completed(): pass\nx += 1",
        "work = dist.all_reduce(x, async_op=True)\nwork.get_future().wait()\nx += 1",
        "work = dist.all_reduce(x, async_op=True)\ny += 1\nwork.wait()\nx += 1",
        "work = dist.all_reduce(x, async_op=True)\ndist.barrier()\nx += 1",
        "dist.all_gather([y], x, async_op=True).wait()",
        "work = dist.all_gather([y], x, async_op=True)\nwork.wait()",
        "work = dist.all_reduce(x, async_op=True)\ny = 2",  # a later cell may wait for it
        "work = dist.all_reduce(x, async_op=True)\nprint(x.shape, x.numel())\nheld = (work, x)\nwork.wait()\nprint(x * 2)",
        "work = dist.all_gather([y], x, async_op=True)\nz = x * 2\nwork.wait()",  # what is only sent may be read
        "work = dist.all_reduce(x, async_op=True)\nx = y\nz = x * 2\nwork.wait()",
        "def f():\n    work = dist.all_reduce(x, async_op=True)\n    if not work:\n        return x * 2\n    work.wait()\nf()",
    ],
)
def test_work_that_is_waited_for_is_no_slip(tap: Tap, rank_context: RankContext, source: str) -> None:
    assert found(tap, rank_context, "x, y = torch.ones(3), torch.ones(3)\n" + source) == []


def test_a_handle_may_be_waited_for_in_a_later_cell(tap: Tap, rank_context: RankContext) -> None:
    assert found(tap, rank_context, "x = torch.ones(3)\nwork = dist.all_reduce(x, async_op=True)") == []
    assert found(tap, rank_context, "work.wait()\nx += 1", cell=8) == []


def test_a_handle_that_a_later_cell_throws_away_is_noted_with_its_own_line(tap: Tap, rank_context: RankContext) -> None:
    assert found(tap, rank_context, "x = torch.ones(3)\nwork = dist.all_reduce(x, async_op=True)") == []
    assert found(tap, rank_context, "work = None", cell=8) == [("not-waited", "all_reduce", "cell 7, line 2")]


def test_a_cell_that_raised_has_lost_its_handles_by_that(tap: Tap, rank_context: RankContext) -> None:
    with pytest.raises(ZeroDivisionError):
        found(tap, rank_context, "x = torch.ones(3)\ndist.all_reduce(x, async_op=True)\n1 / 0")
    assert tap.notes.take() == []


def test_a_new_generation_forgets_the_handles(tap: Tap, rank_context: RankContext) -> None:
    found(tap, rank_context, "x = torch.ones(3)\nwork = dist.all_reduce(x, async_op=True)")
    tap.forget()
    assert found(tap, rank_context, "del work", cell=8) == []


# ---- one tensor at several places
@pytest.mark.parametrize(
    ("call", "places"),
    [
        ("'all_gather', ([x] * 3, x), {}", 1),
        ("'gather', (x,), {'gather_list': [y[:1], x, y[:1]]}", 2),
        ("'all_to_all', ([y, y], [x, x]), {}", 1),
        ("'all_to_all', ([x, y], [x, x]), {}", 0),
        ("'all_gather', ([y[:1], y[1:2]], x), {}", 0),
        ("'all_gather', ([x[:0], x[:0]], x[:0]), {}", 0),
        ("'all_reduce', (x,), {}", 0),
    ],
)
def test_a_list_with_one_tensor_twice_is_noted(tap: Tap, rank_context: RankContext, call: str, places: int) -> None:
    rank_context.namespace.update(x=torch.ones(1), y=torch.ones(3), returned=tap.notes.after)
    run_cell(rank_context, None, f"returned({call}, None)", 7)
    assert [each.facts["places"] for each in tap.notes.take() if each.kind == "one-memory"] == [places] * bool(places)


# ---- what a library does is its own
def test_calls_of_a_library_are_left_alone(tap: Tap, rank_context: RankContext, monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"dist": dist}
    code = "def sync(x):\n    dist.all_reduce(x.clone())\n    dist.all_reduce(x[:, 0])\n    dist.all_reduce(x, async_op=True)\n"
    file = not_waited.torch.__file__  # a file of the libraries
    exec(compile(code, file, "exec"), names)
    rank_context.namespace["sync"] = names["sync"]
    assert found(tap, rank_context, "sync(torch.ones(2, 3))") == []


# ---- not synced
DDP = """from torch.nn.parallel import DistributedDataParallel
net = DistributedDataParallel(torch.nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
def backward(model=net): model(torch.ones(2, 4)).sum().backward()
def average(parameter): dist.all_reduce(parameter.grad); parameter.grad /= 1
"""


@pytest.mark.parametrize(
    "body",
    [
        "with net.no_sync(): backward()\nopt.step()",
        "backward()\nwith net.no_sync(): backward()\nopt.step()",
        "with net.no_sync(): y = net(torch.ones(2, 4)).sum()\ny.backward()\nopt.step()",
        "backward(net.module)\nopt.step()",
        "net.require_backward_grad_sync = False\nbackward()\nopt.step()",
        "with net.no_sync(): backward()\ndist.all_reduce(torch.ones(1))\nopt.step()",
    ],
)
def test_a_step_on_local_gradients_is_found_with_its_line(tap: Tap, rank_context: RankContext, body: str) -> None:
    line = len(f"{DDP}{body}".splitlines())
    assert found(tap, rank_context, DDP + body) == [("not-synced", "step", f"cell 7, line {line}")]


@pytest.mark.parametrize(
    "body",
    [
        "backward()\nopt.step()",
        "with net.no_sync(): backward()\nbackward()\nopt.step()",
        "with net.no_sync(): backward()",
        "with net.no_sync(): backward()\nfor p in net.parameters(): average(p)\nopt.step()",
        "with net.no_sync(): backward()\nopt.step()\nfor p in net.parameters(): dist.all_reduce(p.data)",
        "backward()\nwith net.no_sync(): unused = net(torch.ones(2, 4))\nopt.step()",
        "backward()\nwith torch.no_grad(): net(torch.ones(2, 4))\nopt.step()",
        "opt.step()",
        "import io, copy\ntorch.save(net, io.BytesIO())\nbackward()\nopt.step()",
        "other = torch.nn.Linear(4, 1)\nbackward(other)\ntorch.optim.SGD(other.parameters(), lr=0.1).step()",
    ],
)
def test_a_step_on_averaged_gradients_is_no_slip(tap: Tap, rank_context: RankContext, body: str) -> None:
    assert found(tap, rank_context, DDP + body) == []
