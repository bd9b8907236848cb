"""Hosts, bandwidth factors, the fit, and NCCL's own model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UnknownName, UsageError
from labkit.plain import dumps, loads
from labkit.schedule import (
    ALGORITHMS,
    FACTORS,
    Link,
    Sample,
    Topology,
    busbw_factor,
    busbw_gb_per_s,
    fit,
    hold_out,
    host_traffic,
    predict,
    price,
    price_on,
    total_bytes,
    traffic,
)
from labkit.schedule.nccl_model import NcclMachine, algbw_gb_per_s, choices, latency_us, time_s

INSIDE, ACROSS = Link.of(2, 50, 100), Link.of(20, 5)
HOSTS = Topology(2, 4, INSIDE, ACROSS)


# ---- hosts
@pytest.mark.parametrize("name", ALGORITHMS)
def test_on_one_host_or_with_equal_links_a_topology_changes_nothing(name: str) -> None:
    schedule = ALGORITHMS[name].schedule(8)
    flat = price(schedule, 8 * 64, INSIDE).seconds
    # `price` lets every step end everywhere; a rank's own messages may be through a little earlier
    assert price_on(schedule, 8 * 64, Topology(1, 8, INSIDE, ACROSS)).seconds == pytest.approx(flat, rel=1e-3)
    own_cards = Topology(2, 4, INSIDE, INSIDE, shared=False)
    assert price_on(schedule, 8 * 64, own_cards).seconds == pytest.approx(flat, rel=1e-3)


@pytest.mark.parametrize(("hosts", "local"), [(2, 2), (2, 8), (4, 4), (8, 2)])
def test_a_flat_ring_waits_for_the_slow_wire_once_a_host(hosts: int, local: int) -> None:
    inside, across = Link(1.0, 0.0), Link(100.0, 0.0)
    rack, steps = Topology(hosts, local, inside, across), 2 * (hosts * local - 1)
    flat = price_on(ALGORITHMS["ring"].schedule(hosts * local), 1024, rack).latency_s
    slow = -(-steps // local)  # of so many hops in a row, at most
    assert flat == pytest.approx(steps + 99 * slow)
    levels = price_on(ALGORITHMS["hierarchical"].schedule(hosts * local, ranks_per_host=local), 1024, rack).latency_s
    assert levels == pytest.approx(2 * (local - 1) + 2 * (hosts - 1) * 100)


def test_two_levels_beat_the_flat_ring_across_hosts() -> None:
    flat, levels = ALGORITHMS["ring"].schedule(8), ALGORITHMS["hierarchical"].schedule(8, ranks_per_host=4)
    for num_elements in (8, 1 << 20):
        assert price_on(levels, num_elements, HOSTS).seconds < price_on(flat, num_elements, HOSTS).seconds


def test_a_card_of_its_own_for_each_rank_helps_two_levels_and_not_the_ring() -> None:
    own = Topology(2, 4, INSIDE, ACROSS, shared=False)
    flat, levels = ALGORITHMS["ring"].schedule(8), ALGORITHMS["hierarchical"].schedule(8, ranks_per_host=4)
    assert price_on(flat, 1 << 20, own).seconds == pytest.approx(price_on(flat, 1 << 20, HOSTS).seconds)
    assert price_on(levels, 1 << 20, own).seconds < 0.6 * price_on(levels, 1 << 20, HOSTS).seconds


def test_traffic_adds_up() -> None:
    schedule = ALGORITHMS["hierarchical"].schedule(8, ranks_per_host=4)
    matrix = traffic(schedule, 8 * 10)
    assert matrix.sum() == 8 * 2 * 80 * 4 * 7 // 8
    assert np.diagonal(matrix).sum() == 0
    hosts = host_traffic(schedule, 8 * 10, HOSTS)
    assert hosts.sum() == matrix.sum()
    assert hosts[0, 1] == hosts[1, 0] == 80 * 4  # 2n(h - 1)/h for each host
    flat = host_traffic(ALGORITHMS["ring"].schedule(8), 8 * 10, HOSTS)
    assert flat[0, 1] == 2 * 80 * 4 * 7 // 8  # 2n(p - 1)/p over the one edge that leaves the host


def test_a_schedule_for_another_world_is_refused() -> None:
    with pytest.raises(UsageError, match="a schedule for 4 ranks on hosts for 8"):
        price_on(ALGORITHMS["ring"].schedule(4), 8, HOSTS)


# ---- bandwidth
@pytest.mark.parametrize(
    ("collective", "factor", "total"),
    [
        ("all_reduce", 2 * 7 / 8, 100),
        ("reduce_scatter", 7 / 8, 800),
        ("all_gather", 7 / 8, 800),
        ("all_to_all", 7 / 8, 800),
        ("gather", 7 / 8, 800),
        ("scatter", 7 / 8, 800),
        ("all_to_all_v", 7 / 8, 100),
        ("broadcast", 1, 100),
        ("reduce", 1, 100),
        ("send_recv", 1, 100),
        ("hypercube", 1, 700),
    ],
)
def test_factors_are_the_fields(collective: str, factor: float, total: float) -> None:
    assert busbw_factor(collective, 8) == factor
    assert total_bytes(collective, 100, 8) == total
    assert busbw_gb_per_s(collective, 1e9, 1, 8) == factor


def test_every_factor_is_tested_and_one_rank_moves_nothing() -> None:
    assert len(FACTORS) == 11
    assert busbw_factor("all_reduce", 1) == 0
    with pytest.raises(UnknownName, match="did you mean 'all_reduce'"):
        busbw_factor("allreduce", 4)
    with pytest.raises(UsageError, match="world_size can't be 0"):
        busbw_factor("all_reduce", 0)


def test_busbw_of_a_perfect_ring_is_the_links_bandwidth() -> None:
    for name in ("ring", "ring-all-gather", "ring-reduce-scatter"):
        for world_size in (2, 5, 64):
            assert predict(name, world_size, 1e6, Link(0, 1e-10)).busbw_gb_per_s == pytest.approx(10)


# ---- the fit
SIZES = [2.0**k for k in range(10, 25, 2)]


def samples(link: Link, names: tuple[str, ...] = ("ring",), noise: float = 0.0) -> list[Sample]:
    random = np.random.default_rng(1)
    made = [Sample(name, 4, size, predict(name, 4, size, link).seconds) for name in names for size in SIZES]
    return [Sample(s.algorithm, 4, s.num_bytes, s.time_s * (1 + noise * random.standard_normal())) for s in made]


@given(st.floats(1e-7, 1e-3), st.floats(1e-12, 1e-8))
def test_the_fit_finds_what_made_the_samples(alpha_s: float, beta_s_per_byte: float) -> None:
    found = fit(samples(Link(alpha_s, beta_s_per_byte)))
    assert found.link.alpha_s == pytest.approx(alpha_s, rel=1e-6)
    assert found.link.beta_s_per_byte == pytest.approx(beta_s_per_byte, rel=1e-6)
    assert found.typical < 1e-6


def test_gamma_is_found_from_algorithms_that_reduce_different_parts() -> None:
    true = Link.of(10, 4, 8)
    found = fit(samples(true, ("ring", "everyone", "recursive-doubling")), gamma=True).link
    assert found.gamma_s_per_byte == pytest.approx(true.gamma_s_per_byte, rel=1e-6)


def test_gamma_from_one_algorithm_is_refused() -> None:
    with pytest.raises(UsageError, match=r"16 samples do not determine 3 coefficients; .*reduce different parts"):
        fit(samples(Link.of(10, 4)) * 2, gamma=True)


def test_noise_leaves_residuals_of_its_size_and_a_held_out_size_is_predicted() -> None:
    noisy = samples(Link.of(10, 4), noise=0.05)
    found = fit(noisy)
    assert 0.01 < found.typical < 0.08
    assert abs(found.worst.relative) == max(abs(each.relative) for each in found.residuals)
    held = hold_out(noisy, [SIZES[3]])
    assert [each.sample.num_bytes for each in held.residuals] == [SIZES[3]]
    assert held.typical < 0.2
    assert len(held.fit.residuals) == len(noisy) - 1
    assert loads(dumps(held)) == held


def test_no_coefficient_is_negative() -> None:
    odd = [Sample("ring", 4, size, 1e-9 * size**1.2) for size in SIZES]
    link = fit(odd).link
    assert link.alpha_s >= 0
    assert link.beta_s_per_byte > 0


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "0 samples do not determine 2 coefficients; measure several sizes, small and large"),
        ([Sample("ring", 4, 1e6, 1.0)] * 3, "3 samples do not determine 2"),
        ([Sample("ring", 4, 1e6, 0.0)], "time_s can't be 0.0; give a number above 0"),
        ([Sample("ring", 4, 1e6, float("nan"))], "time_s can't be nan"),
        ([Sample("ring", 1, 1e6, 1.0), Sample("ring", 1, 1e3, 1.0)], "do not determine 2 coefficients"),
    ],
)
def test_points_that_say_nothing_are_refused(points: list[Sample], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        fit(points)
    assert message in str(caught.value)


def test_holding_out_what_was_not_measured_is_refused() -> None:
    with pytest.raises(UsageError, match="hold out sizes that were measured"):
        hold_out(samples(Link.of(10, 4)), [3.0])


# ---- NCCL's model
EIGHT = NcclMachine(num_ranks=8, num_channels=24, channel_gb_per_s=20)


def test_inside_one_node_the_tree_is_a_chain() -> None:
    """Its latency grows with the ranks and not with their logarithm, so the ring is hardly slower."""
    for protocol, hop in (("LL", 0.6), ("LL128", 1.25), ("Simple", 4.0)):
        tree = [latency_us(NcclMachine(ranks), "all_reduce", "tree", protocol) for ranks in (2, 3, 8)]
        assert tree[1] - tree[0] == pytest.approx(2 * hop)
        assert tree[2] - tree[0] == pytest.approx(12 * hop)


def test_across_nodes_the_tree_has_a_logarithm() -> None:
    tree = [latency_us(NcclMachine(8 * nodes, nodes), "all_reduce", "tree", "LL") for nodes in (2, 4, 8, 64)]
    assert np.diff(tree).tolist() == pytest.approx([10, 10, 30])
    ring = [latency_us(NcclMachine(8 * nodes, nodes), "all_reduce", "ring", "LL") for nodes in (2, 4)]
    assert ring[0] == pytest.approx(6.6 + (30 - 2) * 1.0 + 2 * 2.7)  # hops inside cost the network's overhead at least
    assert ring[1] == pytest.approx(6.6 + (62 - 6) * 1.0 + 6 * 2.7)


def test_a_node_of_one_rank_pays_the_trees_network_latency() -> None:
    assert latency_us(NcclMachine(2, 2), "all_gather", "ring", "LL") == pytest.approx(6.6 + 5.0)


def test_bandwidths_by_hand() -> None:
    bus = 24 * 20
    assert algbw_gb_per_s(EIGHT, "all_reduce", "ring", "Simple") == pytest.approx(bus * 8 / 14)
    assert algbw_gb_per_s(EIGHT, "all_gather", "ring", "Simple") == pytest.approx(bus * 8 / 7)
    assert algbw_gb_per_s(EIGHT, "broadcast", "ring", "Simple") == pytest.approx(bus)
    assert algbw_gb_per_s(EIGHT, "all_reduce", "ring", "LL") == pytest.approx(141 * 8 / 14)
    assert algbw_gb_per_s(EIGHT, "all_reduce", "ring", "LL128") == pytest.approx(bus * 0.92 * 8 / 14)
    assert algbw_gb_per_s(EIGHT, "all_reduce", "tree", "Simple") == pytest.approx(bus * 0.92 / 2)
    assert algbw_gb_per_s(EIGHT, "all_reduce", "tree", "LL") == pytest.approx(bus * 0.92 / 3.8 / 2)
    assert algbw_gb_per_s(EIGHT, "all_reduce", "tree", "LL128") == pytest.approx(bus * 0.92 * 7 / 9 / 2)


def test_medium_sizes_are_marked_down_for_the_tree() -> None:
    size = 64 << 12
    latency = latency_us(EIGHT, "all_reduce", "tree", "LL") / 1e6
    bandwidth = algbw_gb_per_s(EIGHT, "all_reduce", "tree", "LL") * 1e9
    assert time_s(EIGHT, "all_reduce", "tree", "LL", size) == pytest.approx(latency + size / (0.4 * bandwidth))
    assert time_s(EIGHT, "all_reduce", "tree", "LL", 8) == pytest.approx(latency + 8 / bandwidth)


def test_the_ring_has_a_plateau_across_nodes() -> None:
    two = NcclMachine(16, 2)
    latency = latency_us(two, "all_reduce", "ring", "Simple") / 1e6
    bandwidth = algbw_gb_per_s(two, "all_reduce", "ring", "Simple") * 1e9
    for size, factor in ((64 * 16 * 16 - 1, 1.0), (64 * 16 * 16, 1.4)):
        assert time_s(two, "all_reduce", "ring", "Simple", size) == pytest.approx(factor * latency + size / bandwidth)


def test_choices_go_from_ll_to_simple_as_sizes_grow() -> None:
    assert choices(EIGHT, "all_reduce", 64)[0].protocol == "LL"
    assert (choices(EIGHT, "all_reduce", 1 << 30)[0].algorithm, choices(EIGHT, "all_reduce", 1 << 30)[0].protocol) == (
        "ring",
        "Simple",
    )
    many = NcclMachine(8 * 64, 64)
    assert choices(many, "all_reduce", 1 << 10)[0].algorithm == "tree"
    assert {each.algorithm for each in choices(EIGHT, "all_gather", 1 << 20)} == {"ring"}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: time_s(EIGHT, "all_gather", "tree", "LL", 8), "NCCL has no tree for all_gather"),
        (lambda: time_s(EIGHT, "all_reduce", "trees", "LL", 8), "did you mean 'tree'?"),
        (lambda: time_s(EIGHT, "all_reduce", "ring", "simple", 8), "did you mean 'Simple'?"),
        (lambda: time_s(EIGHT, "allreduce", "ring", "LL", 8), "did you mean 'all_reduce'?"),
        (lambda: NcclMachine(8, gpu="hoper"), "did you mean 'hopper'?"),
        (lambda: NcclMachine(8, 3), "8 ranks can't be divided among 3 nodes"),
    ],
)
def test_what_nccl_does_not_have_is_refused(call: object, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        call()  # type: ignore[operator]
    assert message in str(caught.value)
