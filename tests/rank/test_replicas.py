"""What a rank says of its models, optimizers and tensors: parts in their order, with checksums, and no values."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import torch

from labkit.errors import UnknownName
from labkit.rank.context import RankContext
from labkit.rank.ops.replicas import replica_values, replicas


def held(context: RankContext, name: str = "") -> dict[str, Any]:
    return {each["name"]: each for each in replicas(context, name=name)["held"]}


@pytest.fixture
def filled(rank_context: RankContext) -> RankContext:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
    opt = torch.optim.Adam(net.parameters(), lr=0.1)
    net(torch.ones(4, 2)).sum().backward()
    opt.step()
    rank_context.namespace.update(net=net, opt=opt, x=torch.arange(3.0), number=5, text="x", table=torch.ones(2, 3).t())
    return rank_context


def test_models_optimizers_and_tensors_are_described(filled: RankContext) -> None:
    found = held(filled)
    assert {name: each["kind"] for name, each in found.items()} == {
        "net": "model", "opt": "optimizer", "x": "tensor", "table": "tensor",
    }  # fmt: skip
    assert [part[:2] for part in found["net"]["parts"]][:2] == [["0.weight", "parameter"], ["0.bias", "parameter"]]
    assert ["1.running_mean", "buffer"] in [part[:2] for part in found["net"]["parts"]]
    assert ["exp_avg of 0.weight", "state"] in [part[:2] for part in found["opt"]["parts"]]
    assert ["lr of group 0", "setting", "float", [], "0.1"] in found["opt"]["parts"]


def test_the_same_values_have_the_same_checksum_however_they_lie(filled: RankContext) -> None:
    before = held(filled, "table")["table"]["parts"][0]
    filled.namespace["table"] = torch.ones(3, 2)
    assert held(filled, "table")["table"]["parts"][0] == before
    filled.namespace["table"][0, 0] = 2
    assert held(filled, "table")["table"]["parts"][0] != before


def test_what_has_no_numbers_is_left_out_and_counted(rank_context: RankContext) -> None:
    rank_context.namespace["net"] = torch.nn.Linear(2, 2, device="meta")
    assert held(rank_context)["net"]["left_out"] == 2


def test_one_by_name_or_by_its_path(filled: RankContext) -> None:
    assert list(held(filled, "net[0]")) == ["net[0]"]
    assert replicas(filled, name="nte")["missing"]


def test_values_are_sent_of_one_part(filled: RankContext) -> None:
    sent = replica_values(filled, name="opt", part="exp_avg of 0.bias")
    values = numpy.frombuffer(sent.parts[0], numpy.float64)
    assert values.tolist() == pytest.approx(filled.namespace["opt"].state[filled.namespace["net"][0].bias]["exp_avg"].tolist())
    assert not sent.plain["sampled"]
    with pytest.raises(UnknownName, match="no part 'bias'"):
        replica_values(filled, name="net", part="bias")


def test_of_a_large_part_evenly_spaced_values_are_sent(rank_context: RankContext) -> None:
    rank_context.namespace["x"] = torch.zeros(3 << 20)
    sent = replica_values(rank_context, name="x", part="")
    assert sent.plain["sampled"]
    assert len(sent.parts[0]) == 8 << 20
