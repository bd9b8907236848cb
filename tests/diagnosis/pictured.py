"""Four worlds that go wrong, each with one thing that its picture must show at once."""

from __future__ import annotations

from dataclasses import replace

from labkit.wire import Call, CallSite, Evidence, RankView

from .build import world

LOOP = (
    "\n" * 11
    + "    dist.all_reduce(grad)\n    if loss < 5:\n        pass\n    dist.all_reduce(loss)\n\n\n    dist.all_reduce(acc)"
)


def swapped() -> Evidence:
    """Rank 3 is in a broadcast, three ranks in an all_reduce."""
    source = "x = torch.ones(4)\ndist.all_reduce(grad)\ndist.broadcast(scale, src=0)"
    program = "bc5 ar6 ar7 bar8 ar9 ar2 bc3"
    return world(program, {3: "bc5 ar6 ar7 bar8 ar9 bc3 ar2"}, source=source).run().evidence(30)


def left() -> Evidence:
    """Rank 2 leaves before a DDP bucket, in which the others wait."""
    found = world("bc1 ar11 ar11 ar5 ar11", {2: "bc1 ar11 ar11 ar5"}, source="\n" * 10 + "loss.backward()").run().evidence(12)
    return replace(found, ranks=tuple(replace(view, calls=tuple(map(_bucket, view.calls))) for view in found.ranks))


def _bucket(call: Call) -> Call:
    return replace(call, part=f"DDP's gradient bucket {call.index} of step 1") if call.site and call.site.line == 11 else call


def skipped(ranks: int = 64, calls: int = 9970, odd: int = 37, at: int = 9930) -> Evidence:
    """One rank of many skips one of three all_reduces in a loop; its later calls meet the others' wrong ones."""
    sites = [CallSite("cell 9", line) for line in (12, 15, 18)]
    members = tuple(range(ranks))
    lines = {}
    for skips in (False, True):
        line = []
        for number in (n for n in range(calls) if not skips or n != at):
            open_ = number == calls - 1 and not skips
            line.append(Call(
                len(line) + 1, len(line) + 1, "all_reduce", group_ranks=members, shape=(8,), dtype="float32", num_bytes=32,
                reduce_op="sum", site=sites[(number + 1) % 3], cell=9, state="issued" if open_ else "done",
                issued_s=100 + number * 1e-3, returned_s=0.0 if open_ else 100.0005 + number * 1e-3,
            ))  # fmt: skip
        lines[skips] = tuple(line)
    views = []
    for rank in members:
        activity = "idle" if rank == odd else "call"
        views.append(RankView(rank, activity=activity, cell=9, generation=1, calls=lines[rank == odd], pid=10 + rank))
    return Evidence(ranks, cell=9, targets=members, taken_s=112 + calls * 1e-3, ranks=tuple(views), sources={"9": LOOP})


def unreceived() -> Evidence:
    """Rank 2 sends what rank 3 never receives, while the others wait for it; a group of two has its own calls."""
    source = "\n" * 6 + "dist.send(act, dst=3)\n\ndist.all_reduce(loss)"
    return world("", {
        0: "bc1 ar2 send3^1 recv4^3 bar5 ar9",
        1: "bc1 ar2 recv3^0 send4^2 bar5 ar9",
        2: "bc1 ar2 recv3^1 send4^3 bar5 ag6%pair ag6%pair send7^3 ar9",
        3: "bc1 ar2 recv3^2 send4^0 bar5 ag6%pair ag6%pair ar9",
    }, groups={"pair": (2, 3)}, source=source).run().evidence(8)  # fmt: skip
