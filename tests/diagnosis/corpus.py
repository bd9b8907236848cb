"""Every kind of fault as a named case: its evidence, the code that must claim it, and the culprits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from labkit.makings import OUTSIDE
from labkit.wire import Call, CallSite, CodeError, Evidence, Frame

from .build import ECHO, world

PEEK = (
    Frame("cell 7", 1, "<module>"),
    Frame("cell 7", 2, "peek"),
    Frame("/lib/python3.11/ctypes/__init__.py", 517, "string_at"),
)
ALONE = "if rank == 0:\n    dist.all_reduce(x)"
BRANCH = "if rank == 0:\n    dist.all_reduce(x)\nelse:\n    dist.broadcast(x)"


@dataclass(frozen=True)
class Case:
    """A world that goes wrong."""

    name: str
    evidence: Evidence
    code: str
    culprits: tuple[int, ...]
    sentence: str = ""
    ending: str = ""


def _w(*args, **kw):
    return world(*args, **kw).run()


GROUPS: list[Callable[[], list[Case]]] = []


def group(make: Callable[[], list[Case]]) -> Callable[[], list[Case]]:
    """Put a function that makes some cases into the corpus."""
    GROUPS.append(make)
    return make


def cases() -> list[Case]:
    """All cases, live and after the fact."""
    return [case for make in GROUPS for case in make()]


@group
def process() -> list[Case]:
    crash, left = ({"stack": stack, "stack_from": "crash"} for stack in (PEEK, PEEK[:2]))
    return [
        Case("killed", _w("ar1 ar2", {2: "ar1 die"}).evidence(), "LK001", (2,),
             "rank 2 died (killed by SIGKILL) while ranks 0, 1 and 3 wait in all_reduce #2 (cell 7, line 2).", "abort"),
        Case("exit 3 of 2", _w("ar1", {1: "die"}, 2).but(1, exit_code=3).evidence(), "LK001", (1,),
             "rank 1 died (exit code 3) while rank 0 waits in all_reduce #1 (cell 7, line 1).", "abort"),
        Case("died idle", _w("ar1", {2: "ar1 die"}, 3).evidence(), "LK001", (2,),
             "rank 2 died (killed by SIGKILL); its last call was all_reduce #1 (cell 7, line 1).", "abort"),
        Case("segmentation fault", _w("ar1 ar2", {1: "ar1 die"}, 2).but(1, exit_code=-11, **crash).evidence(), "LK001", (1,),
             "rank 1 died of a segmentation fault in string_at, called in peek (cell 7, line 2), reached through line 1 "
             "while rank 0 waits in all_reduce #2 (cell 7, line 2).", "abort"),
        Case("killed, seen before", _w("ar1", {1: "die"}, 2).but(1, stack=PEEK, stack_from="seen").evidence(), "LK001", (1,),
             "rank 1 died (killed by SIGKILL), last seen in string_at, called in peek (cell 7, line 2), reached through line 1, "
             "while rank 0 waits in all_reduce #1 (cell 7, line 1).", "abort"),
        Case("os._exit", _w("ar1", {1: "die"}, 2).but(1, exit_code=3, **left).evidence(), "LK001", (1,),
             "rank 1 died (exit code 3) in peek (cell 7, line 2), reached through line 1 while rank 0 waits in all_reduce #1 "
             "(cell 7, line 1).", "abort"),
        Case("died in the call", _w("ar1", {1: "die"}, 3).but(1, exit_code=-11).evidence(), "LK001", (1,)),
        Case("stopped", _w("ar1 bar2", {0: "ar1 stop"}).evidence(), "LK002", (0,),
             "rank 0 is stopped (SIGSTOP) while ranks 1-3 wait in barrier #2 (cell 7, line 2).", "hang"),
        Case("stopped idle", _w("ar1", {2: "ar1 stop"}, 3).evidence(), "LK002", (2,)),
        Case("raised", _w("ar1 ar2", {1: "ar1 raise2"}).evidence(), "LK003", (1,),
             "rank 1 raised ValueError: bad batch (cell 7, line 2) and ranks 0, 2 and 3 wait in all_reduce #2 (cell 7, "
             "line 2).", "hang"),
        Case("raised of 2", _w("ar1", {0: "raise1"}, 2).evidence(), "LK003", (0,)),
    ]  # fmt: skip


@group
def handlers() -> list[Case]:
    """A rank raises, and its handler makes a call; the exception is seen while it is handled, or behind the one that ended it."""
    error = CodeError("KeyError", "'y'", CallSite("cell 7", 9, "fit"))
    told = CodeError("ContractError", "the ranks do not agree", handling=error)
    cut = replace(ECHO, handling=error)
    fallback = {rank: {"handling": CodeError("ImportError", "no apex", CallSite("cell 7", 1))} for rank in range(4)}
    same = _w("ar1 ar2", {1: "ar1 busy2"})
    for rank, change in fallback.items():
        same.but(rank, **change)
    return [
        Case("calls in a handler", _w("ar1 ar2", {1: "ar1 bc5"}, 3).but(1, handling=error).evidence(), "LK018", (1,),
             "rank 1 is handling KeyError: 'y', raised at cell 7, line 9, and calls broadcast #2 (cell 7, line 5) from its "
             "handler, while ranks 0 and 2 wait in all_reduce #2 (cell 7, line 2).", "hang"),
        Case("saves in a handler", _w("ar1 ar2", {1: "ar1 busy5"}, 3).but(1, handling=error).evidence(), "LK018", (1,)),
        Case("safe: calls in a handler", _w("ar1 ar2", {1: "ar1 bc5"}, 3).refuse().but(1, error=told).evidence(), "LK018", (1,)),
        Case("after the deadline, in a handler", _w("ar1 ar2", {1: "ar1 bc5"}, 3).cut().but(1, error=cut).evidence(),
             "LK018", (1,)),
        Case("skips a call and calls in a handler", _w("ar1 ar1 ar1 bc3", {1: "ar1 bc3"}, 3).but(1, handling=error).evidence(),
             "LK018", (1,)),
        Case("all in one handler", same.evidence(), "LK010", (1,)),
    ]  # fmt: skip


@group
def models() -> list[Case]:
    """Each rank has raised in DDP, with the parameters that it was given."""
    there = _w("ag1", None, 3)
    whole = ("lora.0.weight (2, 8)", "norm.bias (8)")
    for rank, names in enumerate((whole, whole, whole[1:])):
        error = CodeError("RuntimeError", "DDP expects same model", CallSite("cell 7", 2), parameters=names)
        there.but(rank, error=error, activity="idle")
    return [
        Case("models differ", there.evidence(), "LK019", (2,),
             "the ranks give DDP different models (cell 7, line 2): ranks 0 and 1 can train lora.0.weight (2, 8), rank 2 can't.",
             "error"),
        Case("models wrapped in another order", _wrapped(3), "LK019", (1,),
             "rank 1 gave DDP a model with weight (3, 8) (cell 7, line 5) while rank 0 gave it another model (cell 7, line 3)",
             "hang"),
        Case("a model of another shape", _wrapped(5), "LK019", (1,),
             "rank 1 gave DDP a model with weight (3, 8) (cell 7, line 5), and the parameters of the model that rank 0 gave",
             "hang"),
    ]  # fmt: skip


def _wrapped(line: int) -> Evidence:
    """DDP compares each model with rank 0's, and rank 0 goes on."""
    seen = _w(f"bc{line}", {1: "raise5"}, 3)
    for rank in (0, 2):
        seen.calls[rank][:] = [replace(seen.calls[rank][0], part="DDP's construction")]
    text = "params[0] appears not to match sizes"
    refused = CodeError("RuntimeError", text, CallSite("cell 7", 5), parameters=("weight (3, 8)",))
    return seen.but(1, error=refused).evidence()


@group
def no_gradient() -> list[Case]:
    """DDP has counted the parameters without a gradient, on one rank or on all."""
    started = "Expected to have finished reduction in the prior iteration"
    error = CodeError("RuntimeError", f"{started}: no gradient came to aux.weight, aux.bias", CallSite("cell 7", 1))
    every = _w("raise1", None, 2)
    for rank in (0, 1):
        every.but(rank, error=error)
    return [
        Case("no gradient on one rank", _w("ar1 ar2", {1: "ar1 raise1"}, 3).but(1, error=error).evidence(), "LK026", (1,),
             "on rank 1 the backward of the step before gave no gradient to aux.weight, aux.bias, so DDP could not finish that "
             "step and raised at the next forward (cell 7, line 1); ranks 0 and 2 wait in all_reduce #2 (cell 7, line 2).",
             "hang"),
        Case("no gradient on any rank", every.evidence(), "LK026", (0, 1),
             "on ranks 0 and 1 the backward of the step before gave no gradient to aux.weight, aux.bias", "error"),
    ]  # fmt: skip


@group
def mismatch() -> list[Case]:
    swapped = {2: "ar1 bc3 ar2"}
    return [
        Case("order", _w("ar1 ar2 bc3", swapped).evidence(), "LK004", (2,),
             "rank 2 called broadcast (cell 7, line 3) while ranks 0, 1 and 3 wait in all_reduce #2 (cell 7, line 2).", "hang"),
        Case("order of 3", _w("ar1 bar2", {0: "bar2 ar1"}, 3).evidence(), "LK004", (0,)),
        Case("order of 2", _w("ar1 ar2 bc3", {1: "ar1 bc3 ar2"}, 2).evidence(), "LK004", (1,),
             "rank 0 called all_reduce #2 (cell 7, line 2), rank 1 called broadcast #2 (cell 7, line 3). "
             "Most likely rank 1 is wrong: line 3 comes after line 2."),
        Case("order of 2 in branches", _w("ar2", {1: "bc4"}, 2, source=BRANCH).evidence(), "LK004", (0, 1),
             "rank 0 called all_reduce #1 (cell 7, line 2), rank 1 called broadcast #1 (cell 7, line 4)."),
        Case("order, two against two", _w("ar1 bc2", {2: "bc2 ar1", 3: "bc2 ar1"}).evidence(), "LK004", (0, 1, 2, 3)),
        Case("skip seen as order", _w("ar1 bc2", {3: "bc2"}).evidence(), "LK004", (3,)),
        Case("order across groups", _w("ar1 ar2", {0: "ar1%tp ar2", 1: "ar2 ar1%tp", 2: "ar2", 3: "ar2"},
             groups={"tp": (0, 1)}).evidence(), "LK004", (0,),
             "rank 0 waits in all_reduce #1 of process group tp (cell 7, line 1) while ranks 1-3 wait in all_reduce #1 "
             "(cell 7, line 2): a deadlock, each waits for the other."),
        Case("size", _w("ar1 bar2", {2: "ar1:4 bar2"}).evidence(), "LK005", (2,),
             "rank 2 called all_reduce #1 with shape (4,), float32 (cell 7, line 1) while ranks 0, 1 and 3 called it with "
             "shape (8,), float32 (cell 7, line 1).", "hang"),
        Case("dtype", _w("ar1", {0: "ar1/f64"}, 3).evidence(), "LK005", (0,)),
        Case("broadcast size", _w("bc1", {3: "bc1:16"}).evidence(), "LK005", (3,)),
        Case("size of 2", _w("ar1", {1: "ar1:4"}, 2).evidence(), "LK005", (0, 1),
             "rank 0 called all_reduce #1 with shape (8,), float32 (cell 7, line 1), rank 1 called all_reduce #1 with shape "
             "(4,), float32 (cell 7, line 1)."),
        Case("size, the smaller died", _w("ar1", {2: "ar1:16"}).but(0, process="dead", exit_code=-6).but(
             1, process="dead", exit_code=-6).evidence(), "LK005", (2,), ending="abort"),
        Case("root", _w("bc1", {1: "bc1^1"}).evidence(), "LK006", (1,),
             "rank 1 called broadcast #1 with root 1 (cell 7, line 1) while ranks 0, 2 and 3 name root 0 "
             "(cell 7, line 1).", "hang"),
        Case("reduce op", _w("ar1", {2: "ar1~max"}, 3).evidence(), "LK006", (2,), ending="silent"),
        Case("every rank its own root", _w("bc1", {1: "bc1^1"}, 2).evidence(), "LK006", (0, 1)),
    ]  # fmt: skip


@group
def lines() -> list[Case]:
    three = "ar1 ar2 ar3"
    return [
        Case("twins", _w(three, {2: "ar2 ar1 ar3"}).evidence(), "LK008", (2,),
             "rank 2 ran line 2 before line 1 in cell 7 (all_reduce #1 and #2). Ranks 0, 1 and 3 ran line 1 first.", "silent"),
        Case("twins of 3, apart", _w(three, {0: "ar3 ar2 ar1"}, 3).evidence(), "LK008", (0,)),
        Case("twins of 2", _w(three, {1: "ar1 ar3 ar2"}, 2).evidence(), "LK008", (1,)),
        Case("twins beside a branch", _w("bc1 " + three, {0: "bc9 " + three, 3: "bc1 ar2 ar1 ar3"}).evidence(), "LK008", (3,)),
        Case("skipped", _w(three, {2: "ar1 ar3"}).evidence(), "LK009", (2,),
             "rank 2 skipped all_reduce #2 (cell 7, line 2), which ranks 0, 1 and 3 called; from there on the wrong calls are "
             "matched, and ranks 0, 1 and 3 wait in all_reduce #3 (cell 7, line 3).", "hang"),
        Case("skipped, then another op", _w("ar1 ar2 bc3", {1: "ar2 bc3"}).evidence(), "LK009", (1,)),
        Case("skipped two", _w("ar1 ar2 ar3 ar4 ar5", {1: "ar1 ar4 ar5"}, 3).evidence(), "LK009", (1,)),
        Case("skipped of 2", _w(three, {1: "ar1 ar3"}, 2).evidence(), "LK009", (1,)),
        Case("extra", _w(three, {2: "ar1 ar1 ar2 ar3"}).evidence(), "LK009", (2,),
             "rank 2 made an extra all_reduce #2 (cell 7, line 1), which ranks 0, 1 and 3 did not make; "
             "from there on the wrong calls are matched, and rank 2 waits in all_reduce #4 (cell 7, line 3).", "hang"),
        Case("extra of 2", _w(three, {0: "ar1 ar1 ar2 ar3"}, 2).evidence(), "LK009", (0,)),
        Case("extra at the end", _w("ar1", {3: "ar1 ar2"}).evidence(), "LK009", (3,),
             "rank 3 waits in all_reduce #2 (cell 7, line 2), an extra call: ranks 0-2 have finished cell 7 without it."),
        Case("extra of 2 at the end", _w("ar1", {0: "ar1 ar1"}, 2).evidence(), "LK009", (0,)),
    ]  # fmt: skip


@group
def absent() -> list[Case]:
    behind = _w("ar1", {1: "busy1"}, 3)
    waits_async = _w("ar1&", {1: "busy1"}, 3, source="work = dist.all_reduce(x)\nwork.wait()")
    for rank in (0, 2):
        waits_async.but(rank, activity="cell", stack=(Frame("cell 7", 2, "<module>"),))
    only = world("ar1", targets=(0, 1)).run()
    late = _w("ar1 ar2", ranks=4)
    old = world("bar1", {1: "", 2: "", 3: ""}).run()
    return [
        Case("left early", _w("ar1 ar1 ar1", {2: "ar1 ar1"}).evidence(), "LK007", (2,),
             "rank 2 has finished cell 7 without all_reduce #3, in which ranks 0, 1 and 3 wait (cell 7, line 1).", "hang"),
        Case("left early of 2", _w("ar1 ar2", {0: "ar1"}, 2).evidence(), "LK007", (0,)),
        Case("only rank 0 calls", _w("", {0: "ar2"}, 2, source=ALONE).evidence(), "LK007", (0, 1)),
        Case("busy", _w("ar1 ar2", {3: "ar1 busy2"}).evidence(), "LK010", (3,),
             "rank 3 is busy in Python at cell 7, line 2 while ranks 0-2 have waited for 2.00 s in all_reduce #2 "
             "(cell 7, line 2).",
             "hang"),
        Case("busy of 2", behind.evidence(), "LK010", (1,)),
        Case("holds the lock", _w("ar1 ar2", {3: "ar1 busy2"}).but(3, answers=False, stack=()).evidence(), "LK010", (3,),
             "rank 3 holds the interpreter lock (GIL) after all_reduce #1 (cell 7, line 1) while ranks 0-2 have waited for "
             "2.00 s in all_reduce #2 (cell 7, line 2)."),
        Case("busy, others wait for a Work", waits_async.evidence(), "LK010", (1,)),
        Case("not begun", _w("ar1", {2: ""}, 3).but(2, cell=6).evidence(), "LK010", (2,)),
        Case("not sent", only.evidence(), "LK012", (2, 3),
             "ranks 0 and 1 wait in all_reduce #1 (cell 7, line 1), which needs ranks 2 and 3 too, but cell 7 was sent only to "
             "ranks 0 and 1.", "hang"),
        Case("an older cell waits", old.but(1, cell=8).but(2, cell=8).but(3, cell=8).evidence(cell=8, targets=(1, 2, 3)),
             "LK012", (1, 2, 3)),
        Case("straggler", late.late(2, 1.5).evidence(), "LK011", (2,),
             "rank 2 is a straggler: it came to all_reduce #2 (cell 7, line 2) 1.50 s after the first rank, and ranks 0, 1 and 3 "
             "waited for it.", "slow"),
        Case("straggler of 2", _w("ar1", ranks=2).late(0, 0.9).evidence(), "LK011", (0,)),
    ]  # fmt: skip


@group
def p2p() -> list[Case]:
    return [
        Case("both receive", _w("", {0: "recv1^1", 1: "recv2^0"}, 2).evidence(), "LK013", (0, 1),
             "rank 0 waits in recv from rank 1 (cell 7, line 1); rank 1 waits in recv from rank 0 (cell 7, line 2): "
             "a deadlock.", "hang"),
        Case("both send", _w("", {0: "send1^1", 1: "send2^0"}, 2).evidence(), "LK013", (0, 1)),
        Case("send without recv", _w("", {0: "send1^1"}, 3).evidence(), "LK013", (0, 1),
             "rank 0 waits in send to rank 1 (cell 7, line 1), but rank 1 has finished cell 7."),
        Case("recv beside a collective", _w("ar1", {2: "recv2^3 ar1"}).evidence(), "LK013", (2, 3)),
        Case("a ring of sends", _w("", {r: f"send1^{(r + 1) % 4}" for r in range(4)}).evidence(), "LK013", (0, 1, 2, 3)),
        Case("p2p peer busy", _w("", {0: "recv1^1", 1: "busy2"}, 2).evidence(), "LK010", (1,)),
        Case("p2p peer raised", _w("", {0: "recv1^1", 1: "raise2"}, 2).evidence(), "LK003", (1,)),
    ]  # fmt: skip


@group
def safe() -> list[Case]:
    same = world("ar1").run(1)
    for rank in (1, 2, 3):
        same._advance(rank)
    for rank in range(4):
        same.calls[rank][-1] = replace(same.calls[rank][-1], state="issued")
    twins = _w("ar1", {2: "ar2"})
    for rank in range(4):
        twins.calls[rank][-1] = replace(twins.calls[rank][-1], state="issued")
    alike = same.refuse().evidence()
    handled = CodeError("ContractError", "no", handling=CodeError("KeyError", "'y'", CallSite("cell 7", 9)))
    in_handler = tuple(replace(view, error=handled) if view.rank == 2 else view for view in alike.ranks)
    return [
        Case("safe order", _w("ar1 bc2", {2: "bc2 ar1"}).refuse().evidence(), "LK004", (2,),
             "rank 2 called broadcast (cell 7, line 2) while ranks 0, 1 and 3 called all_reduce #1 (cell 7, line 1).", "error"),
        Case("safe size", _w("ar1", {0: "ar1:4"}).refuse().evidence(), "LK005", (0,), ending="error"),
        Case("safe root", _w("bc1", {3: "bc1^3"}).refuse().evidence(), "LK006", (3,), ending="error"),
        Case("safe left early", _w("ar1 ar1", {1: "ar1"}).refuse().evidence(), "LK007", (1,)),
        Case("safe raised", _w("ar1 ar1", {1: "ar1 raise2"}).refuse().evidence(), "LK003", (1,)),
        Case("safe busy", _w("ar1 ar1", {1: "ar1 busy2"}).refuse().evidence(), "LK010", (1,)),
        Case("safe twins", twins.refuse().evidence(), "LK008", (2,),
             "rank 2 called all_reduce #1 (cell 7, line 2) while ranks 0, 1 and 3 called it at cell 7, line 1: "
             "two calls that look alike were swapped, or one was left out.", "error"),
        Case("safe, nothing to see", same.refuse().evidence(), "LK014", (),
             "safe mode refused all_reduce #1 (cell 7, line 1) on ranks 0-3: the ranks do not agree on it.", "error"),
        Case("safe, all in a handler by now", replace(alike, ranks=in_handler), "LK018", (2,)),
    ]  # fmt: skip


@group
def after() -> list[Case]:
    """The same worlds after a deadline has cut who waited."""
    late = _w("ar1 ar2", {2: "ar1 busy2"}).cut()
    came = Call(2, 2, "all_reduce", "world", (0, 1, 2, 3), (8,), "float32", 32, "sum", -1, False, CallSite("cell 7", 2), 7,
                "failed", late.now_s + 3, late.now_s + 3.1)  # fmt: skip
    late.calls[2].append(came)
    return [
        Case("after: order", _w("ar1 ar2 bc3", {2: "ar1 bc3 ar2"}).cut().evidence(), "LK004", (2,),
             "rank 2 called broadcast (cell 7, line 3) while ranks 0, 1 and 3 waited in all_reduce #2 (cell 7, line 2).", "hang"),
        Case("after: size", _w("ar1 bar2", {2: "ar1:4 bar2"}).cut().evidence(), "LK005", (2,)),
        Case("after: skipped", _w("ar1 ar2 ar3", {2: "ar1 ar3"}).cut().evidence(), "LK009", (2,)),
        Case("after: left early", _w("ar1 ar1", {3: "ar1"}).cut().evidence(), "LK007", (3,),
             "rank 3 has finished cell 7 without all_reduce #2, in which ranks 0-2 waited (cell 7, line 1)."),
        Case("after: raised", _w("ar1", {1: "raise1"}).cut().evidence(), "LK003", (1,)),
        Case("after: died", _w("ar1", {1: "die"}).cut(0.01).evidence(), "LK001", (1,)),
        Case("after: interrupted in Python", _w("ar1 ar2", {0: "ar1 busy3"}).cut().evidence(), "LK010", (0,),
             "rank 0 was busy in Python at cell 7, line 3 while ranks 1-3 waited in all_reduce #2 (cell 7, line 2)."),
        Case("after: came too late", late.but(2, error=CodeError("RuntimeError", "Connection closed by peer")).evidence(9.0),
             "LK010", (2,), "rank 2 came to all_reduce #2 (cell 7, line 2) only after the others had stopped waiting while "
             "ranks 0, 1 and 3 waited in all_reduce #2 (cell 7, line 2)."),
        Case("after: came too late, seen before", late.but(2, error=CodeError("RuntimeError", "Connection closed by peer"),
             stack=(Frame("cell 7", 2, "load"),)).evidence(9.0),
             "LK010", (2,), "rank 2 came to all_reduce #2 (cell 7, line 2) only after the others had stopped waiting; meanwhile "
             "rank 2 was in load (cell 7, line 2)."),
        Case("after: not sent", world("ar1", targets=(0, 2)).run().cut().evidence(), "LK012", (1, 3)),
        Case("after: p2p", _w("", {0: "recv1^1", 1: "recv2^0"}, 2).cut().evidence(), "LK013", (0, 1)),
    ]  # fmt: skip


@group
def groups_made() -> list[Case]:
    """Process groups that are not made alike, by who made which."""
    some = {
        "ends": (0, 3),
        "all": (0, 1, 2, 3),
        "low": (0, 1),
        "high": (2, 3),
        "most": (0, 1, 2),
        "other": (0, 2, 3),
        "mid": (1, 2),
    }

    def made(script: str, differ: dict[int, str] | None = None, **kw: object) -> Evidence:
        refuse = bool(kw.pop("refuse", False))
        ran = world(script, differ, groups=some, **kw).run()
        return (ran.refuse() if refuse else ran).evidence()

    only = {0: "ng3%ends ar4%ends bar5 ng6%all", 3: "ng3%ends ar4%ends bar5 ng6%all"}
    not_done = world("bar5", {0: "ng3%ends bar5", 3: "ng3%ends bar5"}, groups=some).run()
    for rank in (0, 3):  # in safe mode they wait for all ranks before they make it
        not_done.calls[rank][:] = [replace(not_done.calls[rank][0], state="issued")]
    return [
        Case("new_group on its members", made("bar5 ng6%all", only), "LK020", (0, 3),
             "only ranks 0 and 3 called new_group([0, 3]) (cell 7, line 3), and ranks 1 and 2 did not: the next group of ranks 1 "
             "and 2 is new_group([0, 1, 2, 3]) (cell 7, line 6)", "hang"),
        Case("new_group on its members, no more", made("bar5", {0: "ng3%ends bar5", 3: "ng3%ends bar5"}), "LK020", (0, 3),
             "only ranks 0 and 3 called new_group([0, 3]) (cell 7, line 3), and ranks 1 and 2 did not", "silent"),
        Case("safe: new_group on its members", not_done.refuse().evidence(), "LK020", (0, 3),
             "only ranks 0 and 3 called new_group([0, 3]) (cell 7, line 3), and ranks 1 and 2 did not", "error"),
        Case("a member does not make it", made("ng1%most bar2", {2: "bar2"}), "LK020", (2,),
             "ranks 0, 1 and 3 called new_group([0, 1, 2]) (cell 7, line 1), and rank 2 did not; ranks 0 and 1 wait", "hang"),
        Case("a member has finished", made("ng1%most", {2: ""}), "LK020", (2,)),
        Case("other members", made("ng1%most", {2: "ng1%other"}), "LK020", (2,),
             "ranks 0, 1 and 3 called new_group([0, 1, 2]) (cell 7, line 1), rank 2 called new_group([0, 2, 3]) (cell 7, line "
             "1)"),
        Case("each its own group", made("ng1%low", {2: "ng1%high", 3: "ng1%high"}), "LK020", (0, 1, 2, 3),
             "each rank made only the group that it is in: ranks 0 and 1 called new_group([0, 1]) (cell 7, line 1), "
             "ranks 2 and 3 called new_group([2, 3]) (cell 7, line 1)", "silent"),
        Case("one group more in a loop", made("ng2%all ng2%all ar4", {1: "ng2%all ar4"}), "LK020", (1,)),
        Case("members alone, then all", made("ng3%mid", {0: "nl1%low ng3%mid", 1: "nl1%low ng3%mid"}), "LK020", (0, 1)),
        Case("a maker raised", made("ng2%all", {1: "raise1"}), "LK003", (1,),
             "rank 1 raised ValueError: bad batch (cell 7, line 1) and ranks 0, 2 and 3 wait in new_group([0, 1, 2, 3]) "
             "(cell 7, line 2)."),
        Case("groups ended on a rank", _w("ar1", {2: "ar1 end2"}, 3).evidence(), "LK021", (2,),
             "rank 2 ended all process groups with destroy_process_group() (cell 7, line 2).", "silent"),
        Case("groups ended, others wait", _w("ar1 ar3", {2: "ar1 end2"}, 3).evidence(), "LK021", (2,),
             "rank 2 ended all process groups with destroy_process_group() (cell 7, line 2); ranks 0 and 1 wait in all_reduce #2 "
             "(cell 7, line 3).", "hang"),
    ]  # fmt: skip


@group
def messages() -> list[Case]:
    """Sends and receives that do not meet, or do not fit."""
    gone = _w("", {0: "isend1^1", 1: "recv2^0"}, 2)
    gone.calls[0][-1] = replace(gone.calls[0][-1], state="done")
    gone.calls[1][-1] = replace(gone.calls[1][-1], state="issued", returned_s=0.0)
    long = _w("", {0: "send1:16^1", 1: "recv2:8^0"}, 2)
    return [
        Case("other tags", _w("", {0: "send6^1", 1: "recv9^0@1"}, 2).evidence(), "LK013", (0, 1),
             "rank 0 waits in send to rank 1 (cell 7, line 6), with tag 0, and rank 1's recv from rank 0 with tag 1 (cell 7, "
             "line 9) does not fit: the tags do not match.", "hang"),
        Case("tags in another order", _w("", {0: "send6^1 send7^1@1", 1: "recv8^0@1 recv9^0"}, 2).evidence(), "LK013", (0, 1)),
        Case("other tags beside a barrier", _w("bar9", {0: "send6^1@3 bar9", 1: "recv7^0@4 bar9"}).evidence(), "LK013", (0, 1),
             "rank 0 waits in send to rank 1 with tag 3 (cell 7, line 6), and rank 1's recv from rank 0 with tag 4 (cell 7, "
             "line 7) does not fit: the tags do not match."),
        Case("other groups", _w("", {0: "send6^1", 1: "recv9^0%low"}, 2, groups={"low": (0, 1)}).evidence(), "LK013", (0, 1)),
        Case("an isend nobody waited for", gone.evidence(), "LK013", (0, 1),
             "rank 1 waits in recv from rank 0 (cell 7, line 2), and nobody waited for the handle of rank 0's asynchronous "
             "send to rank 1 (cell 7, line 1)"),
        Case("all send first", _w("", {r: f"send7^{(r + 1) % 3} recv8^{(r + 2) % 3}" for r in range(3)}, 3).evidence(), "LK013",
             (0, 1, 2), "ranks 0-2 all wait in send (cell 7, line 7), and nobody receives", "hang"),
        Case("all receive first", _w("", {r: f"recv7^{(r + 2) % 3} send8^{(r + 1) % 3}" for r in range(3)}, 3).evidence(),
             "LK013", (0, 1, 2), "ranks 0-2 all wait in recv (cell 7, line 7), and nobody sends"),
        Case("a wrong peer", _w("", {0: "send1^1", 1: "recv2^2"}, 3).evidence(), "LK013", (0, 1, 2)),
        Case("more sends than receives", _w("", {0: "send1^1 send1^1", 1: "recv2^0"}, 2).evidence(), "LK013", (0, 1),
             "rank 0 waits in send to rank 1 (cell 7, line 1), but rank 1 has finished cell 7."),
        Case("a shorter message", _w("", {0: "send1:4^1", 1: "recv2:8^0"}, 2).evidence(), "LK022", (0, 1),
             "rank 0 sends a tensor of shape (4,), float32 to rank 1 (cell 7, line 1), which receives it as a tensor of "
             "shape (8,), float32 (cell 7, line 2)", "silent"),
        Case("a longer message", long.but(1, process="dead", exit_code=-6).evidence(), "LK022", (0, 1), ending="abort"),
    ]  # fmt: skip


@group
def splits() -> list[Case]:
    """All-to-alls whose splits do not match pair by pair."""
    fit = {0: "atoa9=3,2,1,3,1,2", 1: "atoa9=1,4,2,2,4,1", 2: "atoa9=2,1,5,1,2,5"}
    one = {**fit, 2: "atoa9=2,1,5,1,1,5"}
    many = {**fit, 2: "atoa9=2,1,5,2,1,5"}
    return [
        Case("splits of one pair", _w("", one, 3).evidence(), "LK023", (1, 2),
             "the splits of all_to_all_single #1 (cell 7, line 9) do not match: rank 1 gives rank 2 2 rows, and rank 2 takes 1 "
             "from rank 1.", "silent"),
        Case("splits of one rank", _w("", many, 3).evidence(), "LK023", (2,)),
        Case("splits, and a rank died", _w("", one, 3).but(2, process="dead", exit_code=-6).evidence(), "LK023", (1, 2),
             ending="abort"),
        Case("splits, and a segmentation fault", _w("", one, 3).but(2, process="dead", exit_code=-11).evidence(), "LK023", (1, 2),
             ending="abort"),
    ]  # fmt: skip


@group
def forgotten_group() -> list[Case]:
    """A call of a smaller group without its group=."""
    pairs = {"low": (0, 1), "high": (2, 3)}
    makes = "ng1%low ng1%high "
    source = "g = groups()\nx = ones()\ndist.all_reduce(x, group=g)\nif low:\n    {}\ndist.barrier()"
    bare, named = source.format("dist.all_reduce(x)"), source.format("dist.all_reduce(x, group=world)")

    def made(text: str) -> Evidence:
        low, high = makes + "ar3%low ar5 bar6", makes + "ar3%high bar6"
        return world(low, {2: high, 3: high}, groups=pairs, source=text).run().evidence()

    return [
        Case("a forgotten group", made(bare), "LK024", (0, 1),
             "ranks 0 and 1 wait in all_reduce #1 (cell 7, line 5), which is a call of all ranks, while ranks 2 and 3 wait in "
             "barrier #1 (cell 7, line 6).", "hang"),
        Case("one rank forgets the group", _w("ng1%all ar3%all", {2: "ng1%all ar3"}, groups={"all": (0, 1, 2, 3)}).evidence(),
             "LK024", (2,), "rank 2 waits in all_reduce #1 (cell 7, line 3), which is a call of all ranks, and ranks 0, 1 and 3"),
        Case("the group is named: a skipped call", made(named), "LK009", (0, 1, 2, 3)),
    ]  # fmt: skip


@group
def root_outside_group() -> list[Case]:
    error = CodeError(
        "ValueError", "Global rank 0 is not part of group <torch.ProcessGroup object at 0x7f>", CallSite("cell 7", 4)
    )
    beside = _w("bar5", {2: "raise4", 3: "raise4"}).but(2, error=error).but(3, error=error)
    alone = _w("raise4", {0: "", 1: ""}).but(2, error=error).but(3, error=error)
    return [
        Case("a root outside of the group", beside.evidence(), "LK025", (2, 3),
             "ranks 2 and 3 named rank 0 in a call on a group that rank 0 is not in (cell 7, line 4); ranks 0 and 1 wait in "
             "barrier #1 (cell 7, line 5).", "hang"),
        Case("a root outside of the group, nobody waits", alone.evidence(), "LK025", (2, 3), ending="error"),
    ]  # fmt: skip


@group
def threads() -> list[Case]:
    """Two threads of a rank on one group: they overlap, or each rank makes the other's call after its own."""
    overlap = _threaded("ar1 bc2", {1: "bc2 ar1"}, "issued", 2)
    crossed = _threaded("ar1 ar2", {2: "ar2 ar1"}, "done", 3)
    refused = _threaded("ar1:4 ar1:8", {1: "ar1:8 ar1:4"}, "refused", 2)
    main = _w("ar1 bc2", {1: "bc2"}, 3)
    for rank in (0, 2):
        main.calls[rank][:] = [_of_thread(call, "log") for call in main.calls[rank]]
    return [
        Case("threads at once", overlap, "LK027", (0, 1),
             "two threads of a rank call collectives of the world at the same time, and their order is not the same on every "
             "rank: rank 0 called all_reduce #1 (cell 7, line 1) first, rank 1 called broadcast #1 (cell 7, line 2) first.",
             "hang"),
        Case("threads swapped two that look alike", crossed, "LK027", (0, 1, 2), ending="silent"),
        Case("safe: a pool of threads", refused, "LK027", (0, 1), ending="error"),
        Case("a thread waits for one who went on", main.evidence(), "LK004", (1,)),
    ]  # fmt: skip


def _of_thread(call: Call, function: str) -> Call:
    return replace(call, chain=(CallSite("cell 7", call.site.line, function),))


def _threaded(script: str, differ: dict[int, str], state: str, ranks: int) -> Evidence:
    """Each call is of a thread of its own, made whatever became of the one before."""
    seen = world(script, differ, ranks)
    for rank in range(ranks):
        for _ in seen.programs[rank]:
            seen.issue(rank, state)
        seen.calls[rank][:] = [
            replace(_of_thread(call, f"thread_{call.site.line}"), returned_s=0.0 if state == "issued" else call.issued_s + 1e-4)
            for call in seen.calls[rank]
        ]
        if state == "refused":
            seen.mode = "safe"
            seen.but(rank, error=CodeError("ContractError", "the ranks do not agree"), activity="idle")
    return seen.evidence()


@group
def outside() -> list[Case]:
    """A rank makes its call on a group that it is not in, and goes on."""
    groups = {"low": (0, 1), "high": (2, 3)}
    wrong = _w("ar5%low bar6", {2: "bar6", 3: "ar5%high bar6"}, groups=groups)
    ended = _w("ar5%low", {2: "", 3: "ar5%high"}, groups=groups)
    message = _w("", {0: "raise5", 1: "recv6^0"}, 2)
    for seen in (wrong, ended):
        first = Call(
            9, 0, "all_reduce", OUTSIDE, site=CallSite("cell 7", 5), cell=7, state="invalid", issued_s=1.0, returned_s=1.0
        )
        seen.calls[2][:] = [replace(first, index=0), *seen.calls[2]]
    message.but(0, error=CodeError("ValueError", "Invalid process group specified", CallSite("cell 7", 5)))
    said = "rank 2 called all_reduce (cell 7, line 5) on a process group that it is not in, so torch only warned and did nothing"
    return [
        Case("a group that the rank is not in", wrong.evidence(), "LK028", (2,), said, "hang"),
        Case("a group that the rank is not in, and it has finished", ended.evidence(), "LK028", (2,), said, "hang"),
        Case("a send in a group that the rank is not in", message.evidence(), "LK028", (0,),
             "rank 0 called send (cell 7, line 5) on a process group that it is not in; rank 1 waits in recv from rank 0",
             "hang"),
    ]  # fmt: skip


@group
def joined() -> list[Case]:
    """Rank 2 has no more batches: it answers for DDP at the end of its Join context, and the others make a call of their own."""
    source = "with Join([net]):\n    for batch in batches:\n        net(batch)\n        dist.all_reduce(flag)\n"
    seen = _w("ar3 ar4 ar3:4 ar4", {2: "ar3 ar4 ar1"}, 3, source=source)
    for rank in range(3):
        seen.calls[rank][:] = [replace(c, part="" if c.site.line == 4 else "the Join context") for c in seen.calls[rank]]
    alike = _w("ar3 ar4", {2: "ar3 ar1"}, 3, source=source)  # all of one shape: safe mode has seen that the lines differ
    for rank in range(3):
        alike.calls[rank][:] = [
            replace(c, part="" if c.site.line == 4 else "the Join context", state="done" if c.seq == 1 else "refused")
            for c in alike.calls[rank]
        ]
        alike.but(rank, error=CodeError("ContractError", "the ranks do not agree"), activity="idle")
    return [
        Case("safe: a call of one's own in Join", alike.evidence(mode="safe"), "LK029", (2,), ending="error"),
        Case("a call of one's own in Join", seen.evidence(), "LK029", (2,),
             "rank 2 has no more batches and answers for DDP alone in the Join context (cell 7, line 1), while ranks 0 and 1 "
             "still called all_reduce (cell 7, line 4) inside of it", "hang"),
    ]  # fmt: skip
