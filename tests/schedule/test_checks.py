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
    "half a rank": (lambda: ALGORITHMS["ring"].schedule(1.5), "world_size can't be 1.5; give a whole number from 1"),
    "true ranks": (lambda: ALGORITHMS["ring"].schedule(True), "world_size can't be True"),
    "text for ranks": (lambda: ALGORITHMS["ring"].schedule("4"), "world_size can't be '4'"),
    "text for a rank": (lambda: ALGORITHMS["ring"].sent("0", 4), "rank can't be '0'; give a whole number from 0 to 3"),
    "steps of text": (lambda: RING.step("1"), "index can't be '1'; give a whole number from 0 to 5"),
    "no chunks": (lambda: from_steps("mine", "all_reduce", 2, 0, []), "num_chunks can't be 0"),
    "latency below 0": (lambda: Link.of(-1, 10), "latency_us can't be -1; give a number from 0"),
    "no bandwidth": (lambda: Link.of(5, 0), "gb_per_s can't be 0; give a number above 0"),
    "nan bandwidth": (lambda: Link.of(5, NAN), "gb_per_s can't be nan"),
    "no reducing": (lambda: Link.of(5, 10, 0), "reduce_gb_per_s can't be 0"),
    "seconds below 0": (lambda: Link(-1e-6, 1e-9), "alpha_s can't be -1e-06"),
    "bytes below 0": (lambda: predict("ring", 4, -1, LINK), "num_bytes can't be -1"),
    "nan bytes": (lambda: predict("ring", 4, NAN, LINK), "num_bytes can't be nan"),
    "endless bytes": (lambda: cheapest("all_reduce", 4, INF, LINK), "num_bytes can't be inf"),
    "an itemsize below 0": (lambda: price(RING, 8, LINK, itemsize=-4), "itemsize can't be -4"),
    "half an itemsize": (lambda: count(RING, 8, itemsize=0.5), "itemsize can't be 0.5"),
    "no itemsize": (lambda: traffic(RING, 8, itemsize=0), "itemsize can't be 0"),
    "no itemsize on hosts": (lambda: price_on(RING, 8, TWO, itemsize=0), "itemsize can't be 0"),
    "half an element": (lambda: price(RING, 1.5, LINK), "num_elements can't be 1.5"),
    "no hosts": (lambda: Topology(0, 4, LINK, LINK), "num_hosts can't be 0"),
    "no link": (lambda: Topology(2, 4, LINK, 5), "across can't be 5; give a Link"),
    "an endless time": (lambda: fit([Sample("ring", 4, 1e6, INF)]), "time_s can't be inf"),
    "text for a time": (lambda: fit([Sample("ring", 4, 1e6, "1")]), "time_s can't be '1'"),
    "a measured size of nan": (lambda: fit([Sample("ring", 4, NAN, 1.0)]), "num_bytes can't be nan"),
    "no chunks at most": (lambda: best_chunks("chain-broadcast", 8, 64, LINK, most=0), "most can't be 0"),
    "two collectives": (lambda: crossover("ring", "ring-all-gather", 4, LINK), "ring is for all_reduce, ring-all-gather for all"),
    "no time": (lambda: busbw_gb_per_s("all_reduce", 1e9, 0, 4), "give seconds above 0"),
    "no count": (lambda: total_bytes("all_gather", -1, 4), "count_bytes can't be -1"),
    "no channels": (lambda: NcclMachine(8, num_channels=0), "num_channels can't be 0"),
    "channels below 0": (lambda: NcclMachine(8, num_channels=-1), "num_channels can't be -1"),
    "no channel bandwidth": (lambda: NcclMachine(8, channel_gb_per_s=0.0), "channel_gb_per_s can't be 0.0"),
    "half a GPU": (lambda: NcclMachine(8.5), "num_ranks can't be 8.5"),
    "NCCL's bytes": (lambda: time_s(EIGHT, "all_reduce", "ring", "LL", -8), "num_bytes can't be -8"),
    "text to add up": (lambda: simulate(RING, [["a"]] * 4), "the tensor of rank 0 does not hold numbers"),
    "no tensors": (lambda: simulate(RING, 5), "the inputs are not tensors"),
    "ragged tensors": (lambda: simulate(RING, [[[1], [1, 2]]] * 4), "the inputs are not tensors"),
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
    with pytest.raises(UsageError, match=r"world_size can't be '\{x\}'"):
        ALGORITHMS["ring"].schedule("{x}")
