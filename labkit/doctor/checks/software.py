"""Python, the packages labkit needs, torch and its byte code, and environment variables: those that do harm, and labkit's own."""

from __future__ import annotations

import dataclasses
import difflib
import importlib.machinery
import importlib.util
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from ...backends import backend_names
from ...machine import MAX_RANKS
from ...units import format_seconds
from ..base import Context, Finding, check, worst
from ..experiment import installed, labkit_version, requirements
from ..facts import TORCH_DEADLINE_S, TorchFacts, torch_facts

# ---- python
OLDEST = (3, 11)


def judge_python(version: tuple[int, ...], implementation: str, in_environment: bool) -> Finding:
    text = ".".join(map(str, version[:3]))
    facts = {"version": text, "implementation": implementation, "virtual_environment": in_environment}
    if version[:2] < OLDEST:
        return Finding("fail", f"{text} is too old", "install Python 3.11 or newer and labkit into it", facts)
    if implementation != "CPython":
        return Finding("warn", f"{implementation} {text}: torch is built for CPython", "use CPython", facts)
    return Finding("ok", f"{implementation} {text}", facts=facts)


@check("python", "Python", order=10)
def check_python(context: Context) -> Finding:
    return judge_python(sys.version_info[:3], platform.python_implementation(), sys.prefix != sys.base_prefix)


# ---- packages
def judge_packages(labkit: str, wanted: Sequence[Requirement], have: Mapping[str, str | None]) -> Finding:
    """`have` maps a distribution's name to its version, None if it is not installed."""
    facts = {"labkit": labkit, **{name: version or "" for name, version in have.items()}}
    wrong, install = [], []
    for one in wanted:
        version = have.get(one.name)
        if version is None:
            wrong.append(f"{one.name} is missing")
        elif not one.specifier.contains(version, prereleases=True):
            wrong.append(f"{one.name} is {version}, needed is {one.specifier}")
        else:
            continue
        install.append(f"'{one.name}{one.specifier}'")
    if wrong:
        return Finding("fail", "; ".join(wrong), f"uv pip install {' '.join(install)} (or python -m pip install ...)", facts)
    if not wanted:
        return Finding("warn", f"labkit {labkit} does not say what it needs", "install labkit again", facts)
    return Finding("ok", f"labkit {labkit} and the {len(wanted)} packages it needs", facts=facts)


@check("packages", "Packages", order=11)
def check_packages(context: Context) -> Finding:
    wanted = requirements()
    return judge_packages(labkit_version(), wanted, {one.name: installed(one.name) for one in wanted})


# ---- torch
SLOW_S = 20.0


def judge_torch(torch: TorchFacts) -> Finding:
    facts = {**dataclasses.asdict(torch), "nccl": ".".join(map(str, torch.nccl))}
    if torch.error:
        step = 'try python -c "import torch", and install torch again'
        return Finding("fail", f"torch does not import: {torch.error}", step, facts)
    if not torch.has_gloo:
        step = "install the torch that PyPI offers for your system"
        return Finding("fail", f"torch {torch.version} is built without gloo", step, facts)
    cuda = f"CUDA {torch.cuda}" if torch.cuda else "no CUDA"
    nccl = f"NCCL {facts['nccl']}" if torch.has_nccl and torch.nccl else "no NCCL"
    text = f"{torch.version} with gloo, {cuda}, {nccl}; imported in {format_seconds(torch.import_s)}"
    if torch.import_s > SLOW_S:
        return Finding("warn", f"{text}, which is slow", "put the environment on a local disk", facts)
    return Finding("ok", text, facts=facts)


@check("torch", "torch", order=12, deadline_s=TORCH_DEADLINE_S)
def check_torch(context: Context) -> Finding:
    return judge_torch(torch_facts(context))


# ---- bytecode
def judge_bytecode(env: Mapping[str, str], compiled: bool | None) -> Finding:
    """`compiled`: torch has byte code for this Python on disk; None if torch was not found."""
    never = bool(env.get("PYTHONDONTWRITEBYTECODE"))
    facts = {"compiled": compiled, "never_written": never}
    if compiled is None:
        return Finding("note", "torch was not found, nothing to look at", facts=facts)
    if compiled:
        return Finding("ok", "torch is compiled", facts=facts)
    if never:
        text = "torch is not compiled and PYTHONDONTWRITEBYTECODE keeps it so: imports take twice as long"
        return Finding("note", text, "python -m compileall -q -j0 <environment>/lib, once", facts)
    return Finding("note", "torch is not compiled yet: the first import is slow", facts=facts)


def torch_is_compiled() -> bool | None:
    """Looks for the file, imports nothing."""
    # The path finder alone: find_spec would answer from sys.modules, or run a parent package.
    spec = importlib.machinery.PathFinder.find_spec("torch", [p for p in sys.path if p])
    if spec is None or not spec.origin:
        return None
    return Path(importlib.util.cache_from_source(spec.origin)).exists()


@check("bytecode", "Byte code", order=13)
def check_bytecode(context: Context) -> Finding:
    return judge_bytecode(context.env, torch_is_compiled())


# ---- environment
RANK_VARIABLES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR", "MASTER_PORT")


def judge_environment(env: Mapping[str, str]) -> Finding:
    found = []
    by_hand = [name for name in RANK_VARIABLES if name in env]
    if by_hand:
        said = ", ".join(f"{name}={env[name]}" for name in by_hand)
        found.append(Finding("warn", f"{said} set by hand; labkit gives each rank its own", f"unset {' '.join(by_hand)}"))
    debug = env.get("TORCH_DISTRIBUTED_DEBUG", "")
    if debug.upper() == "DETAIL":
        text = "TORCH_DISTRIBUTED_DEBUG=DETAIL crashes DDP on gloo (torch 2.15)"
        found.append(Finding("fail", text, "unset TORCH_DISTRIBUTED_DEBUG, or use INFO"))
    elif debug and debug.upper() not in ("OFF", "INFO"):
        text = f"TORCH_DISTRIBUTED_DEBUG={debug} is not one of OFF, INFO, DETAIL"
        found.append(Finding("fail", text, "unset TORCH_DISTRIBUTED_DEBUG"))
    if env.get("CUDA_LAUNCH_BLOCKING", "0") not in ("", "0"):
        text = "CUDA_LAUNCH_BLOCKING makes every kernel wait: no overlap will be seen"
        found.append(Finding("note", text, "unset CUDA_LAUNCH_BLOCKING"))
    if env.get("TORCH_DIST_USE_NCCL2", "1") == "0":
        text = "TORCH_DIST_USE_NCCL2=0 selects the old NCCL backend"
        found.append(Finding("note", text, "unset TORCH_DIST_USE_NCCL2"))
    looked = (*RANK_VARIABLES, "TORCH_DISTRIBUTED_DEBUG", "CUDA_LAUNCH_BLOCKING", "TORCH_DIST_USE_NCCL2")
    return worst(found, Finding("ok", "nothing that bites", facts={name: env[name] for name in looked if name in env}))


@check("environment", "Environment", order=42)
def check_environment(context: Context) -> Finding:
    return judge_environment(context.env)


# ---- settings
def judge_settings(env: Mapping[str, str]) -> Finding:
    mine = {name: value for name, value in sorted(env.items()) if name in ("LABKIT_RANKS", "LABKIT_BACKEND")}
    found = []
    ranks = env.get("LABKIT_RANKS")
    if ranks is not None:
        text = ranks.strip()
        if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MAX_RANKS):
            step = "set it to a number from 1 up, as in 4"
            found.append(Finding("fail", f"LABKIT_RANKS={ranks!r} is not a number of ranks", step))
    backend = env.get("LABKIT_BACKEND")
    if backend is not None and backend.strip().lower() not in backend_names():
        near = difflib.get_close_matches(backend.lower(), backend_names(), n=1)
        step = f"did you mean {near[0]}?" if near else f"set it to one of: {', '.join(backend_names())}"
        found.append(Finding("fail", f"LABKIT_BACKEND={backend!r} is no backend", step))
    text = ", ".join(f"{name}={value}" for name, value in mine.items()) or "LABKIT_RANKS and LABKIT_BACKEND are not set"
    return worst(found, Finding("ok", text, facts=mine))


@check("settings", "labkit settings", order=43)
def check_settings(context: Context) -> Finding:
    return judge_settings(context.env)
