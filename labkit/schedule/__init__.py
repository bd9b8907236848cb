"""Collective algorithms as data: one schedule that is simulated, priced, run on live ranks, and drawn."""

from .algorithm import ALGORITHMS, Algorithm, Path, Share, algorithms_for
from .collective import COLLECTIVES, FACTORS, OPS, Collective, Layout, busbw_factor, busbw_gb_per_s, total_bytes
from .cost import Link, Price, best_chunks, cheapest, crossover, predict, price
from .fit import Fit, HeldOut, Sample, fit, hold_out
from .hosts import Topology, host_traffic, price_on, traffic
from .model import Load, Schedule, Step, Totals, Transfer, compose, count, from_steps, make_step
from .program import Move, Program, programs
from .rendezvous import check_programs, run_programs
from .simulate import Problem, Run, check_schedule, simulate
from .text import explain, from_text, to_text
from .trace import Trace, trace

__all__ = [
    "ALGORITHMS",
    "COLLECTIVES",
    "FACTORS",
    "OPS",
    "Algorithm",
    "Collective",
    "Fit",
    "HeldOut",
    "Layout",
    "Link",
    "Load",
    "Move",
    "Path",
    "Price",
    "Problem",
    "Program",
    "Run",
    "Sample",
    "Schedule",
    "Share",
    "Step",
    "Topology",
    "Totals",
    "Trace",
    "Transfer",
    "algorithms_for",
    "best_chunks",
    "busbw_factor",
    "busbw_gb_per_s",
    "cheapest",
    "check_programs",
    "check_schedule",
    "compose",
    "count",
    "crossover",
    "explain",
    "fit",
    "from_steps",
    "from_text",
    "hold_out",
    "host_traffic",
    "make_step",
    "predict",
    "price",
    "price_on",
    "programs",
    "run_programs",
    "simulate",
    "to_text",
    "total_bytes",
    "trace",
    "traffic",
]
