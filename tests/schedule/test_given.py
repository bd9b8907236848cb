"""What makes no sense is refused where it comes in, in one line that says what to give instead."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from labkit.errors import UnknownName, UsageError
from labkit.schedule import (
    ALGORITHMS,
    Link,
    Sample,
    Topology,
    algorithms_for,
    best_chunks,
    busbw_gb_per_s,
    cheapest,
    count,
    crossover,
    fit,
    from_steps,
    predict,
    price,
    price_on,
    simulate,
    total_bytes,
    traffic,
)
from labkit.schedule.nccl_model import NcclMachine, choices, time_s

LINK = Link.of(latency_us=5, gb_per_s=10)
RING = ALGORITHMS["ring"].schedule(4)
TWO = Topology(2, 2, LINK, LINK)
EIGHT = NcclMachine(8)
NAN, INF = math.nan, math.inf

NONSENSE: dict[str, tuple[Callable[[], Any], str]] = {
    "half a rank": (lambda: ALGORITHMS["ring"].schedule(1.5), "no world has 1.5 ranks; world_size is a whole number"),
    "true ranks": (lambda: ALGORITHMS["ring"].schedule(True), "no world has True ranks"),
    "text for ranks": (lambda: ALGORITHMS["ring"].schedule("4"), "no world has '4' ranks"),
    "text for a rank": (lambda: ALGORITHMS["ring"].sent("0", 4), "no rank '0' in a world of 4"),
    "steps of text": (lambda: RING.step("1"), "ring has no step '1'; steps are 0 to 5"),
    "no chunks": (lambda: from_steps("mine", "all_reduce", 2, 0, []), "no schedule has 0 chunks"),
    "latency below 0": (lambda: Link.of(-1, 10), "no link has a latency of -1 µs"),
    "no bandwidth": (lambda: Link.of(5, 0), "no link has a bandwidth of 0 GB/s; give GB/s above 0"),
    "nan bandwidth": (lambda: Link.of(5, NAN), "bandwidth of nan GB/s"),
    "no reducing": (lambda: Link.of(5, 10, 0), "no rank reduces 0 GB/s"),
    "seconds below 0": (lambda: Link(-1e-6, 1e-9), "no link takes -1e-06 s a message"),
    "bytes below 0": (lambda: predict("ring", 4, -1, LINK), "no tensor has -1 bytes"),
    "nan bytes": (lambda: predict("ring", 4, NAN, LINK), "no tensor has nan bytes"),
    "endless bytes": (lambda: cheapest("all_reduce", 4, INF, LINK), "no tensor has inf bytes"),
    "an itemsize below 0": (lambda: price(RING, 8, LINK, itemsize=-4), "no element has -4 bytes"),
    "half an itemsize": (lambda: count(RING, 8, itemsize=0.5), "no element has 0.5 bytes"),
    "no itemsize": (lambda: traffic(RING, 8, itemsize=0), "no element has 0 bytes"),
    "no itemsize on hosts": (lambda: price_on(RING, 8, TWO, itemsize=0), "no element has 0 bytes"),
    "half an element": (lambda: price(RING, 1.5, LINK), "no layout of 1.5 elements"),
    "no hosts": (lambda: Topology(0, 4, LINK, LINK), "no topology has 0 hosts"),
    "no link": (lambda: Topology(2, 4, LINK, 5), "across=5 is no link"),
    "an endless time": (lambda: fit([Sample("ring", 4, 1e6, INF)]), "a measured time of inf s"),
    "text for a time": (lambda: fit([Sample("ring", 4, 1e6, "1")]), "a measured time of '1' s"),
    "a measured size of nan": (lambda: fit([Sample("ring", 4, NAN, 1.0)]), "no tensor has nan bytes"),
    "no chunks at most": (lambda: best_chunks("chain-broadcast", 8, 64, LINK, most=0), "most is a whole number from 1"),
    "two collectives": (lambda: crossover("ring", "ring-all-gather", 4, LINK), "ring is for all_reduce, ring-all-gather for all"),
    "no time": (lambda: busbw_gb_per_s("all_reduce", 1e9, 0, 4), "give seconds above 0"),
    "no count": (lambda: total_bytes("all_gather", -1, 4), "no tensor has -1 bytes"),
    "no channels": (lambda: NcclMachine(8, num_channels=0), "NCCL has no 0 channels"),
    "channels below 0": (lambda: NcclMachine(8, num_channels=-1), "NCCL has no -1 channels"),
    "no channel bandwidth": (lambda: NcclMachine(8, channel_gb_per_s=0.0), "no channel has 0.0 GB/s"),
    "half a GPU": (lambda: NcclMachine(8.5), "no world has 8.5 ranks"),
    "NCCL's bytes": (lambda: time_s(EIGHT, "all_reduce", "ring", "LL", -8), "no tensor has -8 bytes"),
    "text to add up": (lambda: simulate(RING, [["a"]] * 4), "the tensor of rank 0 has no numbers in it"),
    "no tensors": (lambda: simulate(RING, 5), "the inputs are no tensors"),
    "ragged tensors": (lambda: simulate(RING, [[[1], [1, 2]]] * 4), "the inputs are no tensors"),
}  # fmt: skip


@pytest.mark.parametrize("name", NONSENSE)
def test_nonsense_is_refused_in_one_line(name: str) -> None:
    call, says = NONSENSE[name]
    with pytest.raises(UsageError) as caught:
        call()
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.hint


def test_an_unknown_collective_has_no_cheapest_algorithm() -> None:
    for call in (lambda: cheapest("all_reduc", 4, 64, LINK), lambda: algorithms_for("all_reduc")):
        with pytest.raises(UnknownName, match="did you mean 'all_reduce'"):
            call()


def test_numbers_of_numpy_are_numbers() -> None:
    for name in ALGORITHMS:
        assert ALGORITHMS[name].schedule(np.int64(4)).num_steps == ALGORITHMS[name].num_steps(np.int32(4))
    assert predict("ring", np.int64(4), np.float32(64), LINK) == predict("ring", 4, 64, LINK)
    assert choices(EIGHT, "all_reduce", 1e6) == choices(EIGHT, "all_reduce", 1_000_000)


def test_a_link_may_have_no_limit_of_bandwidth() -> None:
    assert Link.of(5, INF).beta_s_per_byte == 0


def test_what_a_learner_gave_may_have_braces_in_it() -> None:
    with pytest.raises(UsageError, match=r"no world has '\{x\}' ranks"):
        ALGORITHMS["ring"].schedule("{x}")
