"""NCCL's own cost model for ring and tree: what its tuner believes when it chooses.

time = latency + bytes / bandwidth, with constants measured by its authors. Source of every number and rule here: NCCL
2.30, src/graph/tuning.cc (ncclTunerConstantsDefaults, ncclTopoTuneModel, ncclTopoGetAlgoTime). Left out: NVLS, CollNet
and PAT, which need hardware facts that no notebook knows, and the conditions under which LL128 is switched on.

Two things to see: inside one node the "tree" is a chain (its latency has no logarithm), and medium sizes are marked
down for the tree by a table of plain experience.
"""

from __future__ import annotations

from ..errors import UsageError
from ..plain import record
from ..registry import unknown
from .checks import check_int, check_number

PROTOCOLS = ("LL", "LL128", "Simple")
COLLECTIVES = ("all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce")
GPUS = ("volta", "ampere", "hopper", "blackwell")

# Microseconds, by protocol: LL, LL128, Simple.
BASE_US = {"tree": (6.8, 14.0, 8.4), "ring": (6.6, 14.0, 8.4)}
HOP_US = {
    "nvlink": {"tree": (0.6, 1.25, 4.0), "ring": (0.6, 1.9, 3.4)},
    "pci": {"tree": (1.0, 1.9, 4.0), "ring": (1.0, 2.5, 5.7)},
    "net": {"tree": (5.0, 8.5, 14.0), "ring": (2.7, 4.0, 14.0)},
}
# GB/s for 1 node, 2 nodes, more. On one node LL goes by the GPU, on several by the CPU's maker (Intel, then AMD).
LL_MAX = {
    "volta": (39.0, 39.0, 20.4),
    "ampere": (87.7, 22.5, 19.0),
    "hopper": (141.0, 45.0, 35.0),
    "blackwell": (282.0, 90.0, 70.0),
}
RING_LL128_MAX = {"volta": (20.0,) * 3, "ampere": (20.0,) * 3, "hopper": (36.7,) * 3, "blackwell": (40.0,) * 3}
TREE_LL128_MAX = {
    "volta": (20.0,) * 3,
    "ampere": (20.0,) * 3,
    "hopper": (36.7, 36.7, 29.0),
    "blackwell": (55.6, 31.67, 20.0),
}
TREE_MAX = {
    "volta": (26.5, 18.5, 10.0),
    "ampere": (24.0, 23.6, 17.8),
    "hopper": (38.7, 41.4, 36.0),
    "blackwell": (70.0, 42.8, 24.0),
}
# What is left of the tree's bandwidth at 64 B, 128 B, 256 B, ... by protocol; 23 sizes are used.
TREE_CORRECTION = (
    (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)


@record
class NcclMachine:
    """What the tuner must be told: bandwidths are GB/s of one channel, as NCCL's topology search found them."""

    num_ranks: int
    num_nodes: int = 1
    num_channels: int = 16
    channel_gb_per_s: float = 20.0
    gpu: str = "hopper"
    inside: str = "nvlink"
    cpu: str = "intel"
    net_latency_us: float = 0.0

    def __post_init__(self) -> None:
        for kind, value, known in (
            ("GPU", self.gpu, GPUS),
            ("link", self.inside, ("nvlink", "pci")),
            ("CPU", self.cpu, ("intel", "amd")),
        ):
            if value not in known:
                raise unknown(kind, value, known)
        check_int("num_ranks", self.num_ranks)
        check_int("num_nodes", self.num_nodes)
        check_int("num_channels", self.num_channels)
        check_number("channel_gb_per_s", self.channel_gb_per_s, above_zero=True)
        check_number("net_latency_us", self.net_latency_us)
        if self.num_ranks % self.num_nodes:
            raise UsageError(
                f"{self.num_ranks} ranks can't be divided among {self.num_nodes} nodes", hint="give every node the same number"
            )

    @property
    def ranks_per_node(self) -> int:
        return self.num_ranks // self.num_nodes

    @property
    def column(self) -> int:
        """The column of the tables: one node, two, or more."""
        return min(self.num_nodes, 3) - 1


@record
class Choice:
    """One of the tuner's options at one size."""

    algorithm: str
    protocol: str
    time_s: float


def time_s(machine: NcclMachine, collective: str, algorithm: str, protocol: str, num_bytes: int) -> float:
    """Seconds that NCCL's tuner expects; `num_bytes` is S, as for busbw.

    >>> eight = NcclMachine(num_ranks=8, num_channels=24)
    >>> [round(time_s(eight, "all_reduce", name, "LL", 64) * 1e6, 1) for name in ("ring", "tree")]
    [15.0, 15.2]
    """
    place = _check(collective, algorithm, protocol)
    bandwidth, latency = (
        algbw_gb_per_s(machine, collective, algorithm, protocol),
        latency_us(machine, collective, algorithm, protocol),
    )
    level = (int(check_number("num_bytes", num_bytes)) >> 6).bit_length() - 1
    if algorithm == "tree" and 0 <= level < len(TREE_CORRECTION[0]):
        bandwidth *= TREE_CORRECTION[place][level]
    plateau = algorithm == "ring" and protocol == "Simple" and machine.num_nodes > 1 and collective == "all_reduce"
    if plateau and num_bytes // (machine.num_channels * machine.num_ranks) >= 64:
        latency *= 1.9 if machine.gpu == "volta" else 1.4
    return latency / 1e6 + num_bytes / (bandwidth * 1e9)


def choices(machine: NcclMachine, collective: str, num_bytes: int) -> list[Choice]:
    """Every option that is modelled here, the one the tuner would take first.

    >>> eight = NcclMachine(num_ranks=8, num_channels=24)
    >>> best = choices(eight, "all_reduce", 1 << 30)[0]
    >>> best.algorithm, best.protocol
    ('ring', 'Simple')
    """
    algorithms = ("ring", "tree") if collective == "all_reduce" else ("ring",)
    options = [(algorithm, protocol) for algorithm in algorithms for protocol in PROTOCOLS]
    made = [Choice(*option, time_s(machine, collective, *option, num_bytes)) for option in options]
    return sorted(made, key=lambda each: each.time_s)


def num_steps(collective: str, num_ranks: int) -> int:
    """The steps the tuner counts for a ring."""
    return {"all_reduce": 2 * (num_ranks - 1), "reduce_scatter": num_ranks - 1, "all_gather": num_ranks - 1}.get(
        collective, num_ranks
    )


def latency_us(machine: NcclMachine, collective: str, algorithm: str, protocol: str) -> float:
    """The size-independent part, in microseconds."""
    place = _check(collective, algorithm, protocol)
    intra = HOP_US[machine.inside][algorithm][place]
    inter = HOP_US["net"]["tree" if machine.ranks_per_node == 1 else algorithm][place]
    inter += machine.net_latency_us * (2 if protocol == "Simple" else 1)
    base, nodes = BASE_US[algorithm][place], machine.num_nodes
    if algorithm == "tree":
        return base + 2 * ((machine.ranks_per_node - 1) * intra + (nodes.bit_length() - 1) * inter)
    steps = num_steps(collective, machine.num_ranks)
    if collective in ("broadcast", "reduce"):  # a ring whose channels are all alike pays one hop
        return base + HOP_US[machine.inside if nodes == 1 else "net"]["ring"][place]
    if nodes > 1:
        overhead = {"intel": 1.0, "amd": 2.0}[machine.cpu] * (3 if protocol == "Simple" else 1)
        intra = max(intra, overhead)
    inter_steps = (2 if collective == "all_reduce" else 1) * (nodes - 1)
    return base + (steps - inter_steps) * intra + inter_steps * inter


def algbw_gb_per_s(machine: NcclMachine, collective: str, algorithm: str, protocol: str) -> float:
    """The bandwidth the tuner expects, before the correction for the tree, in algbw."""
    _check(collective, algorithm, protocol)
    bus = machine.num_channels * machine.channel_gb_per_s
    bus = _tree_busbw(machine, protocol, bus) if algorithm == "tree" else _ring_busbw(machine, protocol, bus)
    return bus * 0.5 if algorithm == "tree" else bus * machine.num_ranks / max(1, num_steps(collective, machine.num_ranks))


def _ring_busbw(machine: NcclMachine, protocol: str, bus: float) -> float:
    if protocol == "LL":
        return min(_ll_max(machine), bus * 0.5)
    if protocol == "LL128":
        return min(bus * 0.92, machine.num_channels * RING_LL128_MAX[machine.gpu][machine.column])
    return bus


def _tree_busbw(machine: NcclMachine, protocol: str, bus: float) -> float:
    bus = min(bus * 0.92, machine.num_channels * TREE_MAX[machine.gpu][machine.column])
    if protocol == "LL":
        return min(bus / 3.8, _ll_max(machine))
    if protocol == "LL128":
        part = 7 / 9 if machine.num_nodes == 1 else 120 / 128
        return min(bus * part, machine.num_channels * TREE_LL128_MAX[machine.gpu][machine.column])
    return bus


def _ll_max(machine: NcclMachine) -> float:
    row = machine.gpu if machine.num_nodes == 1 else {"intel": "volta", "amd": "ampere"}[machine.cpu]
    return LL_MAX[row][machine.column]


def _check(collective: str, algorithm: str, protocol: str) -> int:
    """The protocol's place in the tables; UsageError for what NCCL does not have."""
    if collective not in COLLECTIVES:
        raise unknown("collective", collective, COLLECTIVES)
    if algorithm not in BASE_US:
        raise unknown("NCCL algorithm", algorithm, BASE_US)
    if protocol not in PROTOCOLS:
        raise unknown("NCCL protocol", protocol, PROTOCOLS)
    if algorithm == "tree" and collective != "all_reduce":
        raise UsageError(f"NCCL has no tree for {collective}", hint="its tree is for all_reduce; the others take the ring")
    return PROTOCOLS.index(protocol)
