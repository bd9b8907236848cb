"""`world.replicas()`: what is compared, what differs first, on which ranks, and by how much."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from labkit.driver.acts import Act
from labkit.errors import UnknownName
from labkit.tensors.replicas import Part, Replica, sentence, who
from labkit.testing import Script, ok
from labkit.views import to_html

Parts = list[list[Any]]
SAME: Parts = [["fc.weight", "parameter", "float32", [2, 3], "aa"], ["fc.bias", "parameter", "float32", [2], "bb"]]
ODD: Parts = [["fc.weight", "parameter", "float32", [2, 3], "cc"], ["fc.bias", "parameter", "float32", [2], "dd"]]


def holds(name: str, parts: Parts, kind: str = "model", of: str = "Net") -> dict[str, Any]:
    return {"name": name, "kind": kind, "type": of, "parts": parts, "left_out": 0}


def world_with(*held: list[dict[str, Any]], values: list[list[float]] | None = None, sampled: bool = False) -> Any:
    script = Script(ranks=len(held))
    script.on("replicas", {rank: ok({"held": each}) for rank, each in enumerate(held)}, always=True)
    script.on(
        "replica_values",
        {
            rank: Act(value={"sampled": sampled}, buffers=(numpy.array(each, numpy.float64).tobytes(),))
            for rank, each in enumerate(values or [])
        },
        always=True,
    )
    return script.world()


def test_the_first_parameter_that_differs_is_named_with_its_rank_and_its_size() -> None:
    values = [[1.0, 2.0], [1.0, 2.0], [1.0, 2.12]]
    with world_with([holds("net", SAME)], [holds("net", SAME)], [holds("net", ODD)], values=values) as world:
        found = world.replicas()
    assert not found.same
    assert [part.name for part in found["net"].differing] == ["fc.weight", "fc.bias"]
    assert found["net"].differing[0].difference == pytest.approx(0.12)
    assert "net, Net: fc.weight differs on rank 2; ranks 0 and 1 agree" in str(found)
    assert "0.12" in str(found)
    assert "fc.bias" in str(found)
    assert "fc.weight" in to_html(found)


def test_what_is_the_same_is_said_in_one_line() -> None:
    both = [holds("net", SAME), holds("x", [["", "tensor", "float32", [2], "xx"]], "tensor", "Tensor")]
    with world_with(both, both) as world:
        found = world.replicas()
        assert found.same
        assert str(found) == "the same on all 2 ranks: net (Net), x"
        assert "fc.bias" in str(world.replicas("net")), "one that is asked for is shown part by part"


def test_models_come_before_optimizers_and_tensors() -> None:
    def held(mark: str) -> list[dict[str, Any]]:
        return [
            holds("a", [["", "tensor", "float32", [1], mark]], "tensor", "Tensor"),
            holds("opt", [["lr of group 0", "setting", "float", [], mark]], "optimizer", "SGD"),
            holds("net", [["w", "parameter", "float32", [1], mark]]),
        ]

    with world_with(held("0.1"), held("0.2"), values=[[1.0], [2.0]]) as world:
        found = world.replicas()
    assert [each.name for each in found.compared] == ["net", "opt", "a"]
    assert "lr of group 0 differs between rank 0 and rank 1 (0.1 on rank 0, 0.2 on rank 1)" in " ".join(str(found).split())


@pytest.mark.parametrize(
    ("odd", "what", "said"),
    [
        ([["fc.weight", "parameter", "float64", [2, 3], "cc"]], "dtype", "the dtype of fc.weight differs"),
        ([["fc.weight", "parameter", "float32", [3, 3], "cc"]], "shape", "[2, 3] on rank 0, [3, 3] on rank 1"),
        ([], "presence", "the presence of fc.weight differs"),
    ],
)
def test_types_shapes_and_names_are_compared_too(odd: Parts, what: str, said: str) -> None:
    with world_with([holds("net", SAME[:1])], [holds("net", odd)]) as world:
        found = world.replicas("net")
    assert found["net"].differing[0].what == what
    assert said in " ".join(str(found).split())


def test_what_only_some_ranks_hold_is_listed() -> None:
    with world_with([holds("net", SAME)], []) as world:
        found = world.replicas()
    assert found.partly == (("net", (0,)),)
    assert "net: only on rank 0" in str(found)


def test_parameters_are_told_before_buffers() -> None:
    parts = (
        Part("norm.mean", "buffer", what="values", sides=((0,), (1,))),
        Part("fc.weight", what="values", sides=((0,), (1,)), difference=0.5, of_sample=True),
    )
    replica = Replica("net", "model", "Net", parts)
    assert sentence(replica) == "fc.weight differs between rank 0 and rank 1: max |difference| at least 0.5"


@pytest.mark.parametrize(
    ("sides", "said"),
    [
        (((0, 1, 3), (2,)), "on rank 2; ranks 0, 1 and 3 agree"),
        (((0, 1), (2, 3)), "between ranks 0 and 1 on one side, ranks 2 and 3 on the other"),
        (((0, 1), (2,), (3,)), "on ranks 2 and 3; ranks 0 and 1 agree"),
        (((0,), (1,), (2,)), "between all ranks"),
    ],
)
def test_the_sides_in_words(sides: tuple[tuple[int, ...], ...], said: str) -> None:
    assert who(sides) == said


def test_equal_nan_is_no_difference_and_one_nan_is() -> None:
    nan = float("nan")
    for values, size in (([[nan, 1.0], [nan, 3.0]], 2.0), ([[nan, 1.0], [0.0, 1.0]], None)):
        with world_with([holds("net", SAME)], [holds("net", ODD)], values=values) as world:
            found = world.replicas("net")["net"].differing[0].difference
        assert found == size if size is not None else found != found


def test_a_name_that_is_not_there_is_answered_with_the_nearest() -> None:
    script = Script(ranks=2)
    script.on("replicas", ok({"missing": ["net"]}))
    with script.world() as world, pytest.raises(UnknownName, match="did you mean 'net'"):
        world.replicas("nte")


def test_the_tensors_of_a_module_are_its_parameters() -> None:
    with world_with([holds("net", SAME)], [holds("net", SAME)]) as world:
        script = world.core.cluster
        script.on("sample", ok({"module": "net"}))
        assert "fc.bias" in str(world.tensors("net"))
