"""A rank's variables through one file: what was shared stays shared, and one bad variable costs no other."""

from __future__ import annotations

import random
import textwrap
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from labkit.rank.saving import VALUES_ONLY, Saved, load, save

IMPORTS = """
import torch, numpy as np, random, io, enum, dataclasses, threading
import torch.nn as nn
from torch.nn import functional as F
"""


def fresh() -> dict[str, Any]:
    return {"__name__": "__main__", "__builtins__": __builtins__}


def through(code: str, tmp_path: Path) -> tuple[dict[str, Any], dict[str, Any], Saved]:
    """The namespace after `code`, the same in another process's place, and what the reader says."""
    before, after = fresh(), fresh()
    exec(compile(IMPORTS + textwrap.dedent(code), "cell 1", "exec"), before)
    save(before, [name for name in before if not name.startswith("__")], tmp_path / "rank-0.kept")
    return before, after, load(tmp_path / "rank-0.kept", after)


def test_an_optimizer_still_owns_the_parameters_of_its_model(tmp_path: Path) -> None:
    before, after, saved = through(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x):
                return F.relu(self.a(x))
        net = Net()
        opt = torch.optim.Adam(net.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(opt, 2)
        net(torch.ones(3, 4)).sum().backward()
        opt.step(); schedule.step()
        again = net
        """,
        tmp_path,
    )
    assert saved.lost == {}
    net, opt = after["net"], after["opt"]
    assert opt.param_groups[0]["params"][0] is net.a.weight
    assert after["again"] is net
    assert isinstance(net, after["Net"])
    assert torch.equal(net.a.weight.grad, before["net"].a.weight.grad)
    for namespace in (before, after):  # and both go on alike
        namespace["net"](torch.ones(1, 4)).sum().backward()
        namespace["opt"].step()
    assert torch.equal(net.a.weight, before["net"].a.weight)


def test_views_share_their_memory(tmp_path: Path) -> None:
    _, after, _ = through("big = torch.arange(100.)\nview = big[10:20]\nodd = torch.ones(3, dtype=torch.bfloat16)", tmp_path)
    after["big"][10] = -1
    assert after["view"][0] == -1
    assert after["odd"].dtype == torch.bfloat16


def test_functions_use_the_new_namespace(tmp_path: Path) -> None:
    _, after, _ = through("k = 4\ndef use(): return helper() + k\ndef helper(): return 7\nshow = lambda x: x + k", tmp_path)
    assert after["use"].__globals__ is after
    after["k"] = 5
    assert (after["use"](), after["show"](1)) == (12, 6)


def test_closures_classes_and_cycles(tmp_path: Path) -> None:
    _, after, saved = through(
        """
        def counter():
            n = 0
            def step():
                nonlocal n; n += 1
                return n
            return step
        step = counter(); step(); step()
        @dataclasses.dataclass
        class Point:
            x: int = 3
        class Colour(enum.Enum):
            RED = 1
        point, red, names = Point(5), Colour.RED, globals()
        ring = []; ring.append(ring)
        """,
        tmp_path,
    )
    assert saved.lost == {}
    assert after["step"]() == 3
    assert after["point"] == after["Point"](5)
    assert after["red"] is after["Colour"].RED
    assert after["names"] is after
    assert after["ring"][0] is after["ring"]


BAD = {
    "an open file": "bad = open('/dev/null')",
    "a lock": "bad = threading.Lock()",
    "it holds a lock": "bad = {'lock': threading.Lock(), 'x': torch.ones(2)}",
    "a generator": "bad = (i for i in range(3))",
    "RuntimeError: no way": "class Bad:\n    def __reduce__(self): raise RuntimeError('no way')\nbad = Bad()",
    "KeyError: 'x'": "class Bad:\n    def __setstate__(self, state): raise KeyError('x')\nbad = Bad(); bad.x = torch.ones(2)",
}


@pytest.mark.parametrize("why", BAD)
def test_one_bad_variable_costs_no_other(tmp_path: Path, why: str) -> None:
    code = f"x = torch.ones(3)\n{BAD[why]}\ny = [x, 'text']\nz = y\ndef use(): return bad"
    before, after, saved = through(code, tmp_path)
    getattr(before["bad"], "close", lambda: None)()
    assert saved.lost == {"bad": why}
    assert "bad" not in after
    assert after["z"] is after["y"]
    assert after["y"][0] is after["x"]


def test_what_holds_something_that_could_not_be_read_is_lost_with_it(tmp_path: Path) -> None:
    code = """
    class Bad:
        def __init__(self, part): self.part = part
        def __reduce__(self): return broken, (self.part,)
    def broken(part): raise ValueError("gone")
    bad = Bad([1, 2]); holder = [bad]; part = bad.part; free = [3]; after = free
    """
    _, after, saved = through(code, tmp_path)
    assert set(saved.lost) == {"bad", "holder"}
    assert saved.lost["bad"] == "ValueError: gone"
    assert (after["part"], after["after"]) == ([1, 2], [3])
    assert after["after"] is after["free"]


def test_a_result_keeps_its_values_and_says_that_its_graph_is_gone(tmp_path: Path) -> None:
    _, after, saved = through("w = torch.ones(2, requires_grad=True)\nloss = (w * 3).sum()", tmp_path)
    assert saved.remarks == {"loss": VALUES_ONLY}
    assert (float(after["loss"]), after["loss"].requires_grad, after["w"].requires_grad) == (6.0, False, True)


def test_random_numbers_go_on_where_they_were(tmp_path: Path) -> None:
    torch.manual_seed(7), random.seed(7), numpy.random.seed(7)
    namespace = fresh()
    save(namespace, [], tmp_path / "rank-0.kept")
    expected = float(torch.rand(1)), random.random(), float(numpy.random.rand())
    load(tmp_path / "rank-0.kept", fresh())
    assert (float(torch.rand(1)), random.random(), float(numpy.random.rand())) == expected


def test_a_file_in_memory_is_no_open_file(tmp_path: Path) -> None:
    assert through("buffer = io.BytesIO(b'abc')", tmp_path)[1]["buffer"].getvalue() == b"abc"
