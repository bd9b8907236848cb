"""Starts, cold and warm, of both sides in turn: the experiment that the measures of cold and of warm starts both read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .bench import Bench
from .program import Program

Phases = list[dict[str, float]]


@dataclass(frozen=True)
class Starts:
    """Seconds to the first all-reduce: of each kind one a round, so that values of a round are neighbours in time.

    `cold`, `torchrun` and `stock` are new processes; `first` and `second` are worlds in a kernel whose fork server is up.
    The phases are labkit's own.
    """

    cold: list[float] = field(default_factory=list)
    torchrun: list[float] = field(default_factory=list)
    stock: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)
    cold_phases: Phases = field(default_factory=list)
    first_phases: Phases = field(default_factory=list)
    second_phases: Phases = field(default_factory=list)


def experiment(bench: Bench) -> Starts:
    """All of it, made once in a run; ipyparallel as it comes is left out when quick."""
    return bench.once("starts", lambda: _experiment(bench))


def _experiment(bench: Bench) -> Starts:
    found = Starts()
    age(bench.labkit())  # not counted: files come into memory
    for number in range(bench.repeat):
        bench.say(f"round {number + 1}, cold")
        seconds, told = age(bench.labkit())
        found.cold.append(seconds)
        found.cold_phases.append(told["phases"])
        bench.say(f"round {number + 1}, torchrun")
        found.torchrun.append(age(bench.torchrun())[0])
        bench.say(f"round {number + 1}, warm")
        warm(bench.labkit("--later"), found)
        if not bench.quick:
            bench.say(f"round {number + 1}, stock ipyparallel")
            found.stock.append(age(bench.stock())[0])
    return found


def age(program: Program) -> tuple[float, dict[str, Any]]:
    """Seconds from the request for a process to its first message, which comes after the first all-reduce; the message."""
    with program:
        told = program.hear()
        return program.age_s, told


def warm(kernel: Program, found: Starts) -> None:
    """Two worlds, one after the other, in a kernel whose fork server has torch."""
    with kernel:
        kernel.hear()
        kernel.ask("warm")
        for taken, phases in ((found.first, found.first_phases), (found.second, found.second_phases)):
            answer = kernel.ask("start")
            kernel.ask("end")
            taken.append(answer["elapsed_s"])
            phases.append({name: s for name, s in answer["phases"].items() if not name.startswith(("import", "fork"))})
