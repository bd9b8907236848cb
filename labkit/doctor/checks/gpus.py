"""How many GPUs, and is there memory free on them?"""

from __future__ import annotations

import math

from ...units import format_bytes
from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, Gpu, GpuFacts, TorchFacts, gpu_facts, torch_facts

PER_RANK_BYTES = 2**30  # a CUDA context and NCCL's buffers, before the first tensor


def judge_gpus(machine: GpuFacts, torch: TorchFacts, ranks: int, visible: str | None = None) -> Finding:
    """`visible`: CUDA_VISIBLE_DEVICES."""
    gpus = machine.gpus
    facts = {"gpus": len(gpus), "torch_devices": torch.devices, "free_bytes": tuple(gpu.free_bytes for gpu in gpus)}
    if not gpus:
        return Finding("note", "none: backend gloo on the CPU, which is all the labs need", facts=facts)
    if visible is not None and visible.strip() in ("", "-1"):
        return Finding("note", f"{len(gpus)}, all hidden by CUDA_VISIBLE_DEVICES", facts=facts)
    if torch.cuda and torch.devices == 0:
        step = "see that the container has --gpus all, and CUDA_VISIBLE_DEVICES"
        return Finding("fail", f"nvidia-smi sees {len(gpus)}, torch sees none", step, facts)
    gpus = _chosen(gpus, visible)
    seen = torch.devices or len(gpus)
    names = " and ".join(dict.fromkeys(gpu.name for gpu in gpus))
    least = min(gpu.free_bytes for gpu in gpus)
    text = f"{len(gpus)} x {names}, at least {format_bytes(least)} free on each"
    sharing = math.ceil(ranks / seen)
    if all(gpu.total_bytes for gpu in gpus) and least < PER_RANK_BYTES * sharing:
        step = "end what else runs there (nvidia-smi shows it), or use fewer ranks"
        return Finding("warn", f"{text}; a rank takes about {format_bytes(PER_RANK_BYTES)}", step, facts)
    if ranks > seen:
        step = f"use {seen} rank{'s' * (seen != 1)}, or several ranks on one GPU, or backend gloo"
        return Finding("note", f"{text}; fewer than {ranks} ranks", step, facts)
    return Finding("ok", text, facts=facts)


def _chosen(gpus: tuple[Gpu, ...], visible: str | None) -> tuple[Gpu, ...]:
    """The GPUs that are named by number; all of them if that can't be told."""
    entries = [entry.strip() for entry in (visible or "").split(",")]
    if all(entry.isdigit() and int(entry) < len(gpus) for entry in entries):
        return tuple(gpus[int(entry)] for entry in entries)
    return gpus


@check("gpus", "GPUs", order=21, deadline_s=TORCH_DEADLINE_S)
def run(context: Context) -> Finding:
    machine = gpu_facts(context)
    torch = torch_facts(context) if machine.gpus else TorchFacts()
    return judge_gpus(machine, torch, context.ranks, context.env.get("CUDA_VISIBLE_DEVICES"))
