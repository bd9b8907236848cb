"""NCCL's log: every kind of line, mixed ranks, several communicators, cut files; and the recordings that ship."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import UnknownName, UsageError
from labkit.schedule.nccl_lines import read_nccl_log
from labkit.schedule.nccl_log import RECORDINGS, NcclCost, NcclLink, NcclLog, NcclRing, NcclTree, recorded
from labkit.schedule.nccl_model import NcclMachine, choices, latency_us
from labkit.schedule.recording import load_record, save_record
from labkit.views import to_html

# Written for these tests after the formats in NCCL's source; no run has printed it.
HEADER = "  Algorithm   |                            Tree                  |                            Ring                  |"
FOUR = [
    "{p} ncclCommInitRank comm 0x5 rank {r} nranks 4 cudaDev 0 nvmlDev {r} busId 1000 commId 0xabc - Init START",
    "{p} comm 0x5 rank {r} nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0",
    "{p} Ring 00 : {before} -> {r} -> {after}",
    "{p} Trees [0] {tree}",
    "{p} Channel 00/0 : {r}[0] -> {after}[1] {via}",
    "{p} 2 coll channels, 2 collnet channels, 0 nvls channels, 4 p2p channels, 2 p2p channels per peer",
    "{p} ncclCommInitRank comm 0x5 rank {r} nranks 4 cudaDev 0 nvmlDev {r} busId 1000 commId 0xabc - Init COMPLETE",
]
PLACES = {0: "1/2/-1->0->-1", 1: "-1/-1/-1->1->0", 2: "3/-1/-1->2->0", 3: "-1/-1/-1->3->2"}
VIA = {0: "via P2P/CUMEM/read", 1: "[send] via NET/IB/0/GDRDMA", 2: "via SHM/direct", 3: "[receive] via NET/Socket/0/Shared"}
TABLE = [
    HEADER,
    "  Protocol    |             LL |          LL128 |         Simple |             LL |          LL128 |         Simple |",
    " Max NThreads |            512 |            640 |            512 |            512 |            640 |            512 |",
    "    AllReduce |    12.0/   8.5 |    24.0/   0.0 |    60.0/  90.0 |    14.0/   9.5 |    30.0/   0.0 |    70.0/ 120.0 |",
]


def of_rank(rank: int, host: str = "", tid: int = 7) -> list[str]:
    prefix = f"{host or f'machine-{rank // 2}'}:{100 + rank}:{tid} [0] NCCL INFO"
    facts = {"p": prefix, "r": rank, "before": (rank - 1) % 4, "after": (rank + 1) % 4, "tree": PLACES[rank], "via": VIA[rank]}
    lines = [line.format(**facts) for line in FOUR]
    if rank == 0:
        lines += [f"{prefix} Channel 00/02 :  0  1  2  3", *(f"{prefix} {line}" for line in TABLE)]
        lines += [f"{prefix} AllReduce: {size} Bytes -> Algo RING proto LL channel{{Lo..Hi}}={{0..1}}" for size in (64, 64, 1024)]
    return lines


def whole() -> list[str]:
    return ["NCCL version 2.30.7+cuda13.0", *(line for rank in range(4) for line in of_rank(rank))]


def message(text: str) -> str:
    return f"n:1:2 [0] NCCL INFO {text}"


# ---- what is read
def test_a_whole_log() -> None:
    log = read_nccl_log("\n".join(whole()))
    assert (log.version, log.world_size, log.num_channels, log.hosts) == ("2.30.7", 4, 2, ((0, 1), (2, 3)))
    assert log.rings == (NcclRing(0, (0, 1, 2, 3)),)
    assert log.tree(0)[0] == NcclTree(0, 0, None, (1, 2))
    assert (log.root(0), log.tree(0)[3].parent, log.tree(0)[3].children) == (0, 2, ())
    assert [link.transport for link in log.links] == ["P2P/CUMEM/read", "NET/IB/0/GDRDMA", "SHM/direct", "NET/Socket/0/Shared"]
    assert log.links[3] == NcclLink(0, 3, 0, "NET/Socket/0/Shared")
    assert log.cost("all_reduce", "ring", "Simple") == NcclCost("all_reduce", "ring", "Simple", 70.0, 120.0)
    assert "LL128" not in {each.protocol for each in log.costs}  # switched off
    assert [(each.num_bytes, each.num_channels, each.num_calls) for each in log.of("all_reduce")] == [(64, 2, 2), (1024, 2, 1)]
    assert log.missing == ()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("AllGather: 8 Bytes -> Algo NVLS_TREE proto SIMPLE channel{Lo..Hi}={3..7}", ("all_gather", 8, "nvls-tree", "Simple", 5)),
        ("ReduceScatter: 8 Bytes -> Algo PAT proto LL128 channel{Lo..Hi}={0..0}", ("reduce_scatter", 8, "pat", "LL128", 1)),
        ("AllReduce: 8 Bytes -> Algo 1 proto 2 time 4.5", ("all_reduce", 8, "ring", "Simple", None)),
        ("8 Bytes -> Algo 5 proto 0 time 4.5", ("", 8, "nvls-tree", "LL", None)),
        ("8 Bytes -> Algo 9 proto 0 time 4.5", ("", 8, "9", "LL", None)),
        ("AllReduce [Symmetric]: 8 Bytes -> Kernel AllReduce_X nchannels 4 nthreads 1 nWorks 1",
         ("all_reduce", 8, "symmetric", "AllReduce_X", 4)),
    ],
)  # fmt: skip
def test_choices_of_all_versions(text: str, found: tuple[object, ...]) -> None:
    (choice,) = read_nccl_log(message(text)).choices
    assert (choice.op, choice.num_bytes, choice.algorithm, choice.protocol, choice.num_channels) == found
    assert choice.expected_us == (4.5 if "time" in text else None)


def test_a_ring_that_the_log_cuts_is_marked_or_made_whole_from_neighbours() -> None:
    start = message("x rank 0 nranks 24 - Init START")
    shown = message("Channel 03/04 : " + " ".join(f"{rank:3}" for rank in range(20)))
    (ring,) = read_nccl_log(f"{start}\n{shown}").rings
    assert (ring.channel, len(ring.ranks), ring.cut) == (3, 20, True)
    (dots,) = read_nccl_log(f"{start}\n{message('Channel 03/04 :  0 10 2...')}").rings
    assert (dots.ranks, dots.cut) == ((0, 10), True)  # 2... may have been 20
    told = [message(f"Ring 03 : {(rank - 5) % 24} -> {rank} -> {(rank + 5) % 24}") for rank in range(24)]
    (made,) = read_nccl_log("\n".join([start, shown, *told])).rings
    assert (made.ranks[:3], len(made.ranks), made.cut) == ((0, 5, 10), 24, False)


def test_old_connections_have_a_bus_id_and_no_number() -> None:
    (link,) = read_nccl_log(message("Channel 01 : 6[a2000] -> 5[6a000] via P2P/IPC/read")).links
    assert link == NcclLink(1, 6, 5, "P2P/IPC/read")


def test_trees_of_before_2_8_are_passed_over() -> None:
    assert read_nccl_log(message("Trees [0] 34->33->-1/-1/-1")).trees == ()


# ---- mixed, several, cut
def test_ranks_may_be_mixed_or_in_files_of_their_own() -> None:
    lines = whole()
    log = read_nccl_log("\n".join(lines))
    mixed = [line for rest in zip(*(of_rank(rank)[: len(FOUR)] for rank in range(4)), strict=True) for line in rest]
    assert read_nccl_log("\n".join([lines[0], *mixed, *of_rank(0)[len(FOUR) :]])) == log
    assert read_nccl_log(lines[0], *("\n".join(of_rank(rank)) for rank in range(4))) == log


def test_two_messages_on_one_line_and_words_in_front_of_them() -> None:
    one, two = message("AllReduce: 8 Bytes -> Algo 1 proto 2 time 4.5"), message("3 coll channels, 3 collnet channels")
    log = read_nccl_log(f"[1,0]<stdout>: 62.0 {one} {two}")
    assert (len(log.choices), log.num_channels) == (1, 3)


def test_the_largest_communicator_is_told_and_of_those_as_large_the_newest() -> None:
    second = [line.replace("0xabc", "0xdef").replace("1/2/-1->0->-1", "2/1/-1->0->-1") for line in of_rank(0, tid=8)]
    small = message("x rank 0 nranks 2 - Init START") + "\n" + message("Trees [0] -1/-1/-1->0->1")
    texts = ["\n".join([*of_rank(0), *second, small]), *("\n".join(of_rank(rank)) for rank in range(1, 4))]
    assert read_nccl_log(*texts).tree(0)[0].children == (2, 1)
    # rank 0 was replaced and knows the second alone
    assert read_nccl_log("\n".join(second), *texts[1:], "\n".join([*of_rank(1), *of_rank(1)])).tree(0)[0].children == (2, 1)


def test_a_split_communicator_is_told_apart_by_its_parents_count() -> None:
    line = "x comm 0x6 rank 0 nranks {size} cudaDev 0 busId 1 parent 0x5 childCount {n} color 0 key 0- Init START"
    log = read_nccl_log("\n".join(message(line.format(size=size, n=n)) for size, n in ((2, 1), (3, 2))))
    assert log.world_size == 3


@given(st.integers(min_value=0), st.integers(min_value=0, max_value=80), st.randoms(use_true_random=False))
def test_a_cut_or_shuffled_log_is_read_as_far_as_it_goes(cut: int, line: int, random: object) -> None:
    lines = whole()
    lines = [*lines[:line], lines[line % len(lines)][: cut % 90]]
    random.shuffle(lines)  # type: ignore[attr-defined]
    try:
        log = read_nccl_log("\n".join(lines))
    except UsageError:
        return
    assert str(log)
    assert all(len(set(ring.ranks)) == len(ring.ranks) for ring in log.rings)


@given(st.text())
def test_any_text_is_a_log_or_a_usage_error(text: str) -> None:
    with contextlib.suppress(UsageError):
        assert read_nccl_log(text).missing


@pytest.mark.parametrize(
    "text",
    [
        "a" * 1_000_000,
        "a:1:" * 100_000,
        message("rank 1 nranks 4 " * 20_000),
        message("Channel 00/02 : 1" + " " * 100_000 + "x"),
        "\n".join(message(f"Channel {channel}/02 : 0 1") for channel in (0, 1, 10**18)),
        message("x rank 0 nranks 4 - Init START") + "".join(f"\n{message(f'Ring 00 : 0 -> {r} -> 7')}" for r in range(4)),
        message("Broadcast: 96 Bytes -> Algo 1 proto 0 time 9.3.1"),
        message(f"Broadcast: {'9' * 5000} Bytes -> Algo 1 proto 0 time 9"),
    ],
    ids=range(8),
)
def test_damaged_lines_take_no_time_and_are_passed_over(text: str) -> None:
    with contextlib.suppress(UsageError):
        log = read_nccl_log(text)
        assert str(log)
        assert log.choices == ()


def test_what_is_no_ring_is_left_out_and_counted() -> None:
    lines = [
        message("x rank 0 nranks 4 - Init START"),
        message("Channel 00/02 :  0  0  0  0"),
        message("Channel 01/02 :  0  2  1  3"),
    ]
    log = read_nccl_log("\n".join(lines))
    assert [ring.ranks for ring in log.rings] == [(0, 2, 1, 3)]
    assert log.num_odd == 1
    for drawn in (str(log), to_html(log)):
        assert "1 line of this log is not as NCCL prints it and is left out" in drawn
    assert "left out" not in str(read_nccl_log("\n".join(whole())))


@pytest.mark.parametrize(
    "text",
    [
        message("Channel 00/02 : " + "0 " * 2_000_000),
        message("Channel 00/02 : " + " ".join(map(str, range(600_000)))),
        message("rank 1 nranks 4 " * 250_000 + "Init START"),
    ],
    ids=["zeros", "ranks", "starts"],
)
def test_one_line_of_megabytes_takes_no_time(text: str) -> None:
    started_s = time.thread_time()
    log = read_nccl_log(text)
    assert (log.rings, log.num_odd) == ((), 1)
    assert to_html(log)
    assert time.thread_time() - started_s < 1.5


@pytest.mark.parametrize("text", ["", "rank 0: hello\nNCCL version 2.30.7", "NCCL WARN not INFO"])
def test_a_text_without_nccls_lines_is_an_error_with_a_next_step(text: str) -> None:
    with pytest.raises(UsageError, match=r"no line of NCCL's log .*; NCCL_DEBUG=INFO"):
        read_nccl_log(text)


# ---- the record
def test_what_is_not_there_is_said() -> None:
    log = read_nccl_log(message("AllReduce: 8 Bytes -> Algo 1 proto 2 time 4.5"))
    assert log.missing == ("rings", "trees", "transports", "the tuning table")
    assert "not in this log: rings, trees" in str(log)
    with pytest.raises(UnknownName, match="broadcast"):
        log.of("broadcast")
    with pytest.raises(UsageError, match="NCCL_DEBUG_SUBSYS=TUNING prints the table"):
        log.cost("all_reduce", "ring", "LL")
    with pytest.raises(UsageError, match="it has tree LL, tree Simple, ring LL"):
        read_nccl_log("\n".join(whole())).cost("all_reduce", "nvls", "Simple")


def test_channels_of_one_shape_are_told_once() -> None:
    rings = tuple(NcclRing(channel, (0, 2, 1) if channel == 1 else (0, 1, 2)) for channel in range(4))
    text = str(NcclLog(world_size=3, num_channels=4, rings=rings))
    assert "ring, channels 0, 2, 3: 0 -> 1 -> 2 -> 0" in text
    assert "ring, channel 1: 0 -> 2 -> 1 -> 0" in text


def test_a_log_can_be_kept_and_says_so(tmp_path: object) -> None:
    log = read_nccl_log("\n".join(whole()))
    again = load_record(save_record(tmp_path / "log.json", log, "a test", backend="nccl"))  # type: ignore[operator]
    assert (again.rings, again.costs, again.choices) == (log.rings, log.costs, log.choices)
    assert "not run here" in str(again)


# ---- the recordings
@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_names_its_source_and_no_machine(name: str) -> None:
    log = recorded(name)
    assert log.source is not None
    assert log.source.about.startswith("a public report, not run by us: facts of ")
    assert "github.com/" in log.source.about
    assert log.missing
    assert all(sorted(ring.ranks) == list(range(log.world_size)) for ring in log.rings if not ring.cut)
    assert sorted(rank for host in log.hosts for rank in host) == list(range(log.world_size))


def test_a_tree_of_a_recording_is_one() -> None:
    log = recorded("two-hosts")
    for channel in (0, 1):
        places = log.tree(channel)
        edges = {(rank, child) for rank, place in places.items() for child in place.children}
        assert edges == {(place.parent, rank) for rank, place in places.items() if place.parent is not None}
        assert len(edges) == log.world_size - 1
    assert {log.host_of(root) for root in (log.root(0), log.root(1)) if root is not None} == {0, 1}


def test_our_model_has_the_latencies_that_the_logs_print() -> None:
    log = recorded("two-sockets")
    two = NcclMachine(num_ranks=2, num_nodes=2, num_channels=4, channel_gb_per_s=0.6, gpu="blackwell")
    for op, algorithm in (("broadcast", "ring"), ("all_gather", "ring"), ("all_reduce", "ring"), ("all_reduce", "tree")):
        for protocol in ("LL", "Simple"):
            printed = log.cost(op, algorithm, protocol).latency_us
            assert latency_us(two, op, algorithm, protocol) == pytest.approx(printed, abs=0.1), (op, algorithm, protocol)
    many = NcclMachine(num_ranks=24, num_nodes=3)
    assert latency_us(many, "all_reduce", "tree", "LL") == pytest.approx(recorded("three-hosts").choices[0].expected_us, abs=0.1)


def test_our_model_changes_where_the_log_does() -> None:
    two = NcclMachine(num_ranks=2, num_nodes=2, num_channels=4, channel_gb_per_s=0.6, gpu="blackwell")
    for op in ("broadcast", "all_reduce"):
        for logged in recorded("two-sockets").of(op):
            best = next(each for each in choices(two, op, logged.num_bytes) if each.protocol != "LL128")  # off on this machine
            assert (best.algorithm, best.protocol) == (logged.algorithm, logged.protocol), logged


def test_a_recording_that_is_not_there() -> None:
    with pytest.raises(UnknownName, match="did you mean 'two-hosts'"):
        recorded("two-host")
