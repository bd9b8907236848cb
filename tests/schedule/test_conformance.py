"""Every registered algorithm: right results, right claims, nothing sent that is not there, and no wait without an end."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.schedule import ALGORITHMS, COLLECTIVES, OPS, Algorithm, algorithms_for, simulate

from .conformance import wrong_claims, wrong_contributions, wrong_results, wrong_waits
from .reference import FLOATS, INTEGERS, sense

WORLDS = [*range(1, 18), 64]
NAMES = list(ALGORITHMS)
each_algorithm = pytest.mark.parametrize("name", NAMES)
AT_ONCE = {*range(1, 9), 12, 16, 17}  # in `make quick`; the others take as long again
each_world = pytest.mark.parametrize(
    "world_size", [size if size in AT_ONCE else pytest.param(size, marks=pytest.mark.slow) for size in WORLDS]
)


def variants(algorithm: Algorithm, world_size: int) -> list[dict[str, Any]]:
    """The default parameters, and others at the edges."""
    found: list[dict[str, Any]] = [{}]
    if "root" in algorithm.params and world_size > 1:
        found.append({"root": world_size - 1})
    if "chunks" in algorithm.params:
        found += [{"chunks": 1}, {"chunks": 7}]
    if "ranks_per_host" in algorithm.params:
        found += [{"ranks_per_host": local} for local in range(1, world_size + 1) if world_size % local == 0]
    return found


def sizes(world_size: int) -> list[int]:
    """None, one, too few for all ranks, and sizes that don't divide."""
    return sorted({0, 1, max(world_size - 1, 2), 3 * world_size + 1})


def test_there_is_an_algorithm_for_every_collective() -> None:
    assert {each.collective for each in ALGORITHMS.values()} == set(COLLECTIVES)
    assert len(NAMES) >= 17


@each_world
@each_algorithm
def test_sums_are_exact_whatever_the_size(name: str, world_size: int) -> None:
    algorithm = ALGORITHMS[name]
    for params in variants(algorithm, world_size)[: 3 if world_size > 17 else None]:
        schedule = algorithm.schedule(world_size, **params)
        for num_elements in sizes(world_size) if world_size <= 17 else [world_size + 1]:
            assert wrong_results(schedule, num_elements) == []


def reduces(name: str) -> bool:
    return COLLECTIVES[ALGORITHMS[name].collective].reduces


@pytest.mark.parametrize(("name", "op"), [(name, op) for name in NAMES for op in OPS if reduces(name) or op == "SUM"])
def test_every_op_and_dtype(name: str, op: str) -> None:
    algorithm = ALGORITHMS[name]
    for dtype in ("bool", *INTEGERS, *FLOATS):
        if sense(op, dtype) or not reduces(name):
            for world_size in (2, 3, 6, 8):
                assert wrong_results(algorithm.schedule(world_size), 2 * world_size + 1, op, dtype) == []


@each_world
@each_algorithm
def test_steps_messages_and_bytes_are_as_declared(name: str, world_size: int) -> None:
    algorithm = ALGORITHMS[name]
    for params in variants(algorithm, world_size):
        chunks = algorithm.schedule(world_size, **params).num_chunks
        for num_elements in (0, 1, chunks, 5 * chunks, 5 * chunks + 3):
            assert wrong_claims(algorithm, world_size, num_elements, **params) == []


@each_world
@each_algorithm
def test_nobody_sends_what_is_not_there_and_nothing_counts_twice(name: str, world_size: int) -> None:
    for params in variants(ALGORITHMS[name], world_size):
        assert wrong_contributions(ALGORITHMS[name].schedule(world_size, **params)) == []


@each_world
@each_algorithm
def test_nobody_waits_for_good_under_rendezvous(name: str, world_size: int) -> None:
    for params in variants(ALGORITHMS[name], world_size):
        assert wrong_waits(ALGORITHMS[name].schedule(world_size, **params)) == []


@pytest.mark.parametrize("name", [each.name for each in algorithms_for("all_reduce")])
def test_ranks_agree_to_the_last_bit_exactly_where_that_is_declared(name: str) -> None:
    algorithm = ALGORITHMS[name]
    random = np.random.default_rng(5)
    agree = []
    for world_size in range(2, 18):
        inputs = list((random.standard_normal((world_size, 64)) * 1e3).astype(np.float32))
        outputs = simulate(algorithm.schedule(world_size), inputs).outputs
        agree.append(len({output.tobytes() for output in outputs}) == 1)
    assert all(agree) is algorithm.identical


@given(st.data())
@settings(max_examples=2 * settings().max_examples)
def test_any_algorithm_world_size_op_and_dtype(data: st.DataObject) -> None:
    algorithm = ALGORITHMS[data.draw(st.sampled_from(NAMES))]
    world_size = data.draw(st.integers(1, 20))
    params = data.draw(st.sampled_from(variants(algorithm, world_size)))
    op = data.draw(st.sampled_from(list(OPS)))
    dtype = data.draw(st.sampled_from([each for each in ("bool", *INTEGERS, *FLOATS) if sense(op, each)]))
    num_elements = data.draw(st.integers(0, 70))
    schedule = algorithm.schedule(world_size, **params)
    assert wrong_results(schedule, num_elements, op, dtype, data.draw(st.integers(0, 9))) == []
    assert wrong_claims(algorithm, world_size, num_elements, **params) == []
    assert wrong_waits(schedule) == []


@each_algorithm
def test_an_algorithm_teaches_in_a_few_plain_sentences(name: str) -> None:
    algorithm = ALGORITHMS[name]
    assert algorithm.name == name
    assert re.fullmatch(r"[a-z-]+", name)
    assert len(re.findall(r"[.!?:](?: |$)", algorithm.teaches)) >= 2
    assert 100 < len(algorithm.teaches) < 700
    assert algorithm.title[0].isupper()
    assert all(vars(algorithm.formulas).values())
    assert all(param.help for param in algorithm.params.values())


@each_algorithm
def test_the_module_names_the_source_of_its_formulas(name: str) -> None:
    build = ALGORITHMS[name].build
    module = __import__(build.__module__, fromlist=["__doc__"])
    assert "Source of the formulas:" in module.__doc__
    assert module.__name__.rsplit(".", 1)[-1] == name.replace("-", "_")


@each_algorithm
def test_a_schedule_is_the_same_each_time_its_steps_are_made(name: str) -> None:
    schedule = ALGORITHMS[name].schedule(6)
    assert list(schedule.steps()) == list(schedule.steps())
    assert schedule.step(0) == next(schedule.steps())
