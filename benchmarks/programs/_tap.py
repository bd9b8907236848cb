"""All-reduces in a world: as a learner's cell makes them, and without labkit's tap in the same ranks."""

from __future__ import annotations

import json
from typing import Any

CELL_S = 300.0

ALL_REDUCES = """
import json, time
_x = torch.zeros({numel})
dist.barrier()
_began = time.perf_counter()
for _ in range({count}):
    dist.all_reduce(_x)
print(json.dumps(time.perf_counter() - _began))
"""

# `__wrapped__` is torch's own function; a group it makes has no hook of ours on it. Both sides get a
# group of their own, so that nothing but the tap differs.
COMPARE = """
import json, time
if "_seen" not in globals():
    _seen, _unseen = dist.new_group(list(range(world_size))), dist.new_group.__wrapped__(list(range(world_size)))
_x = torch.zeros({numel})
_plain = dist.all_reduce.__wrapped__
def _block(call, group):
    began, cpu = time.perf_counter(), time.thread_time()
    for _ in range({count}):
        call(_x, group=group)
    return time.perf_counter() - began, time.thread_time() - cpu
_taken = {{"ours": [], "beside": [], "ours_cpu": [], "beside_cpu": []}}
for _round in range({rounds} + 1):
    _pair = [("ours", dist.all_reduce, _seen), ("beside", _plain, _unseen)]
    for _name, _call, _group in _pair if _round % 2 else _pair[::-1]:
        _plain(_x[:1], group=_unseen)
        _seconds, _cpu = _block(_call, _group)
        if _round:
            _taken[_name].append(_seconds / {count})
            _taken[_name + "_cpu"].append(_cpu / {count})
print(json.dumps(_taken))
"""


def printed(world: Any, source: str) -> Any:
    """Run a cell; what rank 0 has printed, read as JSON."""
    result = world.run_cell(source, deadline_s=CELL_S)
    assert result.ok, result
    text = "".join(stream.text for stream in result.outcomes[0].output if stream.name == "stdout")
    return json.loads(text)


def all_reduces(world: Any, numel: int, count: int) -> float:
    """Seconds on rank 0."""
    return float(printed(world, ALL_REDUCES.format(numel=numel, count=count)))


def compare(world: Any, numel: int, count: int, rounds: int) -> dict[str, list[float]]:
    """Seconds per call of each block, and CPU seconds of the calling thread; the first round is not counted."""
    taken: dict[str, list[float]] = printed(world, COMPARE.format(numel=numel, count=count, rounds=rounds))
    return taken
