"""Environment variables: those that do harm, and labkit's own."""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from ...backends import backend_names
from ...machine import MAX_RANKS
from ..base import Context, Finding, check, worst

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
