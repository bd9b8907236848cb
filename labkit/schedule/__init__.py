"""Collective algorithms as data: one schedule that is simulated, priced, run on live ranks, and drawn."""

from .algorithm import ALGORITHMS, Algorithm, Path, Share, algorithms_for
from .collective import COLLECTIVES, Collective
from .layout import Layout
from .load import Load, Totals, count
from .model import Schedule, Step, Transfer, compose, from_steps, make_step
from .ops import OPS
from .program import Action, Move, Program, programs
from .rendezvous import check_programs, run_programs
from .simulate import Problem, Run, check_schedule, simulate
from .text import explain, from_text, to_text
from .trace import Trace, trace

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "OPS",
    "Action",
    "Algorithm",
    "Collective",
    "Layout",
    "Load",
    "Move",
    "Path",
    "Problem",
    "Program",
    "Run",
    "Schedule",
    "Share",
    "Step",
    "Totals",
    "Trace",
    "Transfer",
    "algorithms_for",
    "check_programs",
    "check_schedule",
    "compose",
    "count",
    "explain",
    "from_steps",
    "from_text",
    "make_step",
    "programs",
    "run_programs",
    "simulate",
    "to_text",
    "trace",
]
