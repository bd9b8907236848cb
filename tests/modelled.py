"""Answers to the requests of schedules, for scripted ranks: every run is right and takes what the cost model says."""

from __future__ import annotations

from typing import Any

from labkit.plain import loads
from labkit.schedule import ALGORITHMS, Link, predict
from labkit.schedule.records import ITEM_BYTES
from labkit.schedule.sweeps import LIBRARY_MODELS
from labkit.testing import Act, Script, ok

LINK = Link.of(latency_us=20, gb_per_s=2)


def modelled(ranks: int, link: Link = LINK, **options: Any) -> Script:
    """A script whose ranks answer `run_schedule`, `compare` and `sweep`."""
    script = Script(ranks, **options)

    def seconds(name: str, world_size: int, num_bytes: int) -> float:
        name = LIBRARY_MODELS.get(name, name)
        return float(predict(name if name in ALGORITHMS else "ring", world_size, num_bytes, link).seconds)

    def schedule(rank: int, asked: dict[str, Any]) -> Act:
        program = loads(asked["program"])
        numel, item_bytes = asked["numel"] or 6, ITEM_BYTES[asked["dtype"]]
        moves = program.moves(numel)
        sent = [move.num_out * item_bytes for move in moves if move.kind != "recv"]
        received = [move.num_into * item_bytes for move in moves if move.kind != "send"]
        took_s = seconds(program.name, ranks, numel * item_bytes)
        steps = sorted({move.step for move in moves})
        return ok({
            "sent_messages": len(sent), "received_messages": len(received), "sent_bytes": sum(sent),
            "received_bytes": sum(received), "step_s": [[step, took_s / len(steps)] for step in steps], "numel": numel,
            "dtype": asked["dtype"], "began_s": 1.0, "ended_s": 1.0 + took_s, "agrees": True, "worst": 0.0, "digest": "0",
        })  # fmt: skip

    def compare(rank: int, asked: dict[str, Any]) -> Act:
        names = [*(loads(text).name for text in asked["programs"]), "all_reduce"]
        num_bytes = asked["numel"] * ITEM_BYTES[asked["dtype"]]
        return ok({"times": [[[0.0, seconds(name, ranks, num_bytes)]] * asked["rounds"] for name in names]})

    def sweep(rank: int, asked: dict[str, Any]) -> Act:
        if rank not in asked["members"]:
            return ok([])
        took_s = asked["calls"] * seconds(asked["name"], len(asked["members"]), asked["numel"] * ITEM_BYTES[asked["dtype"]])
        return ok([[0.0, took_s]] * asked["rounds"])

    script.on("schedule", schedule, always=True)
    script.on("compare_schedules", compare, always=True)
    script.on("sweep_point", sweep, always=True)
    return script
