"""Environment variables that will bite."""

from __future__ import annotations

from collections.abc import Mapping

from ..base import Context, Finding, check, worst

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
def run(context: Context) -> Finding:
    return judge_environment(context.env)
