"""The proof: two real ranks, one real all-reduce on loopback, the result checked.

Two processes meet through a file in a private folder. Whatever happens they are ended by pid and the
folder is removed.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from collections.abc import Mapping

from ...machine import interfaces
from ...units import format_seconds
from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, Answer, Probe, python
from .network import loopback
from .software import RANK_VARIABLES

EXPECTED = 5.0  # 2 from rank 0, 3 from rank 1

_RANK_SOURCE = """
import datetime, json, sys, time
began = time.perf_counter()
import torch
import torch.distributed as dist
imported = time.perf_counter()
rank, path = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2, timeout=datetime.timedelta(seconds=20))
joined = time.perf_counter()
x = torch.full((8,), [2.0, 3.0][rank])
dist.all_reduce(x)
done = time.perf_counter()
same = bool((x == x[0]).all())
print(json.dumps({"value": x[0].item() if same else x.tolist(), "import_s": imported - began,
                  "join_s": joined - imported, "all_reduce_s": done - joined}), flush=True)
dist.destroy_process_group()
"""


@dataclasses.dataclass(frozen=True)
class RankAnswer:
    """What one of the two ranks answered; `error` if it did not."""

    value: object = None
    import_s: float = 0.0
    join_s: float = 0.0
    all_reduce_s: float = 0.0
    error: str = ""


def judge_collective(answers: tuple[RankAnswer, ...], elapsed_s: float, interface: str | None) -> Finding:
    facts = {
        "values": tuple(answer.value for answer in answers),
        "expected": EXPECTED,
        "interface": interface or "",
        "elapsed_s": round(elapsed_s, 3),
        "all_reduce_s": max((answer.all_reduce_s for answer in answers), default=0.0),
        "errors": tuple(answer.error for answer in answers),
    }
    broken = [(rank, answer.error) for rank, answer in enumerate(answers) if answer.error]
    if broken:
        # The rank that was waited for says why; the one that waited only says that it did.
        rank, error = min(broken, key=lambda pair: ("not done within" in pair[1], pair[0]))
        return Finding("fail", f"rank {rank}: {error}", "see the lines on torch, the network and the environment above", facts)
    if any(answer.value != EXPECTED for answer in answers):
        said = " and ".join(str(answer.value) for answer in answers)
        return Finding("fail", f"2 + 3 came out as {said} on the two ranks", "install torch again, and please report this", facts)
    text = f"two ranks over {interface or 'the default interface'}: 2 + 3 = 5 on both"
    return Finding("ok", f"{text}, in {format_seconds(elapsed_s)} with the imports", facts=facts)


def rank_environment(env: Mapping[str, str], interface: str | None) -> dict[str, str]:
    """The environment without what other checks complain about, so that this one is about gloo alone."""
    without = (*RANK_VARIABLES, "TORCH_DISTRIBUTED_DEBUG", "GLOO_SOCKET_IFNAME")
    kept = {name: value for name, value in env.items() if name not in without}
    kept |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    return kept | ({"GLOO_SOCKET_IFNAME": interface} if interface else {})


def _read(answer: Answer) -> RankAnswer:
    facts = answer.json()
    if answer.late and facts is None:
        return RankAnswer(error=f"not done within {answer.elapsed_s:.0f} s")
    if facts is None or (answer.code and not answer.late):
        return RankAnswer(error=f"ended by signal {-answer.code}" if answer.code < 0 else answer.complaint())
    import_s, join_s, all_reduce_s = (round(float(facts[name]), 5) for name in ("import_s", "join_s", "all_reduce_s"))
    return RankAnswer(facts["value"], import_s, join_s, all_reduce_s)


@check("collective", "Two ranks, for real", order=60, deadline_s=TORCH_DEADLINE_S)
def run(context: Context) -> Finding:
    interface = loopback(interfaces())
    env = rank_environment(context.env, interface)
    folder = tempfile.mkdtemp(prefix="labkit-doctor-")
    began = time.monotonic()
    probes: list[Probe] = []
    try:
        for rank in range(2):
            probes.append(Probe(python(_RANK_SOURCE, str(rank), f"{folder}/store"), env))
        # Leave room before the check's own deadline, so that the finding says which rank it was.
        answers = tuple(_read(probe.answer(TORCH_DEADLINE_S - 4, context.stop)) for probe in probes)
    finally:
        for probe in probes:
            probe.end()
        shutil.rmtree(folder, ignore_errors=True)
    return judge_collective(answers, time.monotonic() - began, interface)
