"""A rank whose call differs from that of the others: in shape, dtype, reduce op or root."""

from __future__ import annotations

from typing import Any

from ._calls import OtherTensors, arguments, changed
from .base import Expectation, Fault, Issue, OneShot, Param, PendingCall, declare


class ShapeMismatch(OtherTensors):
    """Gives the call a tensor of half or of twice as many elements.

    On gloo's ring a rank receives from the next one: with the smaller tensor this rank's process is ended,
    with the larger one that of the rank before it. A few elements only may pass, with wrong values.
    """

    ops = frozenset({"all_reduce", "reduce", "broadcast", "all_gather", "send", "recv", "isend", "irecv", "sendrecv"})

    def other(self, tensor: Any) -> Any:
        if tensor.numel() < 2:
            return None
        flat = tensor.detach().flatten()
        return flat[: tensor.numel() // 2].clone() if self.params["size"] == "smaller" else flat.repeat(2)


declare(
    Fault(
        name="shape-mismatch",
        title="One rank's tensor has another size",
        teaches=(
            "Ranks don't tell each other how long their tensors are: each sends what it has and makes room for as much. "
            "Here one rank's tensor is of another size, as with a last batch that is shorter, or a model built with another "
            "vocabulary. "
            "On the CPU backend, gloo, a message that is longer than the room made for it ends the receiving process on the "
            "spot, inside a thread of the library: no Python exception, no traceback, the process is gone. "
            "What its neighbours see is a closed connection, or a timeout."
        ),
        cure=(
            "Make the sizes equal before the call: drop or pad the short batch, or gather the sizes first and pad to the largest."
        ),
        demo=("batch = torch.arange(4096.0) + rank\ndist.all_reduce(batch)\ndist.barrier()\nbatch[:4].tolist()\n"),
        expect={
            "raw": Expectation("abort", ("LK005", "LK001")),
            "safe": Expectation("error", ("LK014", "LK005")),
        },
        make=ShapeMismatch,
        params={"size": Param("smaller", "this rank's tensor beside the others'", choices=("smaller", "larger"))},
        replaces_rank=True,
        in_schedule=Expectation("abort", ("LK005", "LK001")),  # a message shorter than its place passes, and is silent
    )
)


_HALF = {"float64": "float32", "float32": "float16", "int64": "int32"}
_DOUBLE = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int32": "int64"}


class DtypeMismatch(OtherTensors):
    """Casts the call's tensors to a narrower or a wider dtype of the same kind."""

    ops = frozenset(
        "all_reduce reduce broadcast all_gather all_gather_into_tensor reduce_scatter reduce_scatter_tensor "
        "all_to_all all_to_all_single send recv isend irecv sendrecv".split()
    )

    def other(self, tensor: Any) -> Any:
        import torch

        wanted = _HALF if self.params["width"] == "half" else _DOUBLE
        name = wanted.get(str(tensor.dtype).removeprefix("torch."))
        return None if name is None else tensor.detach().to(getattr(torch, name))


declare(
    Fault(
        name="dtype-mismatch",
        title="One rank's tensor has elements of another width",
        teaches=(
            "What travels between ranks is bytes, and nothing says what they mean. "
            "Here one rank's tensor is float16 where the others have float32, as with mixed precision that is switched on in "
            "one place only. "
            "The numbers of elements agree, the numbers of bytes do not: on gloo the rank that made room for fewer bytes is "
            "ended by the library, without a Python exception. "
            "Had the widths been the same (float32 and int32), the bytes would simply have been read as other numbers."
        ),
        cure=(
            "Cast to one dtype just before the collective, on every rank, and read the dtype from the configuration that all "
            "ranks share."
        ),
        demo=("grad = torch.full((4096,), float(rank + 1))\ndist.all_reduce(grad)\ndist.barrier()\ngrad[:4].tolist()\n"),
        expect={
            "raw": Expectation("abort", ("LK005", "LK001")),
            "safe": Expectation("error", ("LK014", "LK005")),
        },
        make=DtypeMismatch,
        params={"width": Param("half", "the width of this rank's elements beside the others'", choices=("half", "double"))},
        replaces_rank=True,
        in_schedule=Expectation("abort", ("LK005", "LK001")),  # a message shorter than its place passes, and is silent
    )
)


_REDUCES = frozenset({"all_reduce", "reduce", "reduce_scatter", "reduce_scatter_tensor"})
_MOVES = frozenset({"recv", "sendrecv"})  # of a schedule: those that add what comes in have an op


class ReduceOpMismatch(OneShot):
    """Replaces the reduce op; a call that has this op already is left alone."""

    def applies(self, call: PendingCall) -> bool:
        given = arguments(call)
        if call.op not in _REDUCES and not (call.op in _MOVES and "op" in given):
            return False
        return bool(_name(given.get("op")) != self.params["to"])

    def act(self, call: PendingCall, issue: Issue) -> Any:
        import torch.distributed as dist

        return issue(changed(call, op=getattr(dist.ReduceOp, self.params["to"])))


def _name(op: Any) -> str:
    """ "MAX" for a ReduceOp.MAX in either of torch's two spellings; SUM where none is given."""
    if op is None:
        return "SUM"
    text = str(op)
    return next((name for name in ("SUM", "MAX", "MIN", "PRODUCT", "AVG") if name in text), text)


declare(
    Fault(
        name="reduce-op-mismatch",
        title="One rank takes the maximum where the others sum",
        teaches=(
            "Each rank decides by itself how to combine the numbers: only the numbers are sent, not the operation. "
            "Here one rank reduces with MAX where the others use SUM, as with a default argument that was changed in one place. "
            "In a ring each rank combines some of the pieces, so the elements that this rank combined are wrong and the others "
            "are right. "
            "All ranks may even agree on the result, and nothing is raised: the same wrong numbers everywhere."
        ),
        cure=(
            "Write the reduce op once, in one function that every rank calls; check a reduction now and then against one that "
            "you computed from gathered values."
        ),
        demo=(
            "x = torch.arange(8.0) + 10 * rank\n"
            "expected = 8 * [10 * sum(range(world_size))]\n"
            "expected = [e + world_size * i for i, e in enumerate(expected)]\n"
            "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
            "print('got     ', x.tolist())\n"
            "print('expected', expected)\n"
        ),
        expect={
            "raw": Expectation("silent", ("LK006",)),
            "safe": Expectation("error", ("LK014", "LK006")),
        },
        make=ReduceOpMismatch,
        params={"to": Param("MAX", "the reduce op this rank uses", choices=("MAX", "MIN", "PRODUCT", "SUM"))},
        in_schedule=Expectation("silent", ("LK006",)),
    )
)


# the other calls with a root also need the root's list of tensors, so torch refuses a wrong one itself
_ROOTS = {"broadcast": ("src", "group_src"), "reduce": ("dst", "group_dst")}


class RootMismatch(OneShot):
    """Names another root: this rank itself, or the next one if this rank is the root."""

    def applies(self, call: PendingCall) -> bool:
        return call.op in _ROOTS and self.context.world_size > 1 and len(_members(call, self.context.world_size)) > 1

    def act(self, call: PendingCall, issue: Issue) -> Any:
        given = arguments(call)
        by_rank, by_place = _ROOTS[call.op]
        members = _members(call, self.context.world_size)
        place = given.get(by_place)
        if place is None:
            root = given.get(by_rank)
            place = members.index(0 if root is None else root)
        mine = members.index(self.context.rank)
        other = mine if mine != place else (mine + 1) % len(members)
        if given.get(by_place) is not None:
            return issue(changed(call, **{by_place: other}))
        return issue(changed(call, **{by_rank: members[other]}))


def _members(call: PendingCall, world_size: int) -> list[int]:
    """The ranks of the call's group, in the group's order."""
    group = arguments(call).get("group")
    if group is None:
        return list(range(world_size))
    import torch.distributed as dist

    return list(dist.get_process_group_ranks(group))


declare(
    Fault(
        name="root-mismatch",
        title="One rank broadcasts from another root",
        teaches=(
            "In a broadcast one rank, the root, sends and the others receive, and every rank must name the same root. "
            "Here one rank names another one, as with `src=rank` where `src=0` was meant, or a rank within a group taken for a "
            "rank of the world. "
            "Each rank works out from the root whom to receive from and whom to send to, so the plans do not fit together: some "
            "ranks wait for data that nobody sends them. "
            "Other ranks may even finish, with the numbers of the wrong root."
        ),
        cure=(
            "Give the root as a constant that is the same on all ranks, and remember that `src` counts in the world and "
            "`group_src` in the group."
        ),
        demo=("weights = torch.full((4,), 10.0 + rank)\ndist.broadcast(weights, src=0)\nweights.tolist()\n"),
        expect={
            "raw": Expectation("hang", ("LK006",)),
            "safe": Expectation("error", ("LK014", "LK006")),
        },
        make=RootMismatch,
    )
)
