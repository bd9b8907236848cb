"""GPUs: the driver, free memory, CUDA_VISIBLE_DEVICES, several ranks on one GPU."""

from __future__ import annotations

import math
import re

from ...backends.nccl import SHARED_GPU_NCCL
from ...devices import GpuListing, named_gpu, visible_gpus
from ...units import format_bytes
from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, TorchFacts, gpu_listing, numbers, torch_facts

# ---- driver
# Oldest Linux driver for each CUDA major: within a major, older drivers run newer minors.
OLDEST_DRIVER = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}


def judge_driver(machine: GpuListing, torch: TorchFacts) -> Finding:
    facts = {"driver": machine.driver, "cuda": torch.cuda, "gpus": len(machine.gpus), "torch_devices": torch.devices}
    if machine.error:
        return Finding("fail", machine.error, "mend or reload the NVIDIA driver, or use backend gloo on the CPU", facts)
    if not machine.gpus:
        seen = "nvidia-smi sees no GPU" if machine.has_tool else "no NVIDIA driver here"
        return Finding("note", f"{seen}: ranks run on the CPU with gloo", facts=facts)
    if torch.error:
        return Finding("note", f"driver {machine.driver}; what torch needs is not known", facts=facts)
    if not torch.cuda:
        return Finding("warn", "torch is built without CUDA, the GPUs stay unused", "install torch's CUDA build", facts)
    oldest = OLDEST_DRIVER.get(numbers(torch.cuda)[0])
    if oldest and machine.driver and numbers(machine.driver) < oldest:
        need = ".".join(map(str, oldest))
        step = f"update the driver to {need} or newer, or install a torch built for an older CUDA"
        return Finding("fail", f"driver {machine.driver} is too old for CUDA {torch.cuda}", step, facts)
    return Finding("ok", f"driver {machine.driver} fits CUDA {torch.cuda}", facts=facts)


@check("driver", "GPU driver", order=20, deadline_s=TORCH_DEADLINE_S)
def check_driver(context: Context) -> Finding:
    machine = gpu_listing(context)
    needs_torch = bool(machine.gpus) and not machine.error
    return judge_driver(machine, torch_facts(context) if needs_torch else TorchFacts())


# ---- gpus
PER_RANK_BYTES = 2**30  # a CUDA context and NCCL's buffers, before the first tensor


def judge_gpus(machine: GpuListing, torch: TorchFacts, ranks: int, visible: str | None = None) -> Finding:
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
    gpus = tuple(visible_gpus(gpus, visible)) or gpus
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


@check("gpus", "GPUs", order=21, deadline_s=TORCH_DEADLINE_S)
def check_gpus(context: Context) -> Finding:
    machine = gpu_listing(context)
    torch = torch_facts(context) if machine.gpus else TorchFacts()
    return judge_gpus(machine, torch, context.ranks, context.env.get("CUDA_VISIBLE_DEVICES"))


# ---- sharing
def judge_sharing(torch: TorchFacts, machine: GpuListing) -> Finding:
    version = ".".join(map(str, torch.nccl))
    exclusive = [gpu.visible for gpu in machine.gpus if "exclusive" in gpu.compute_mode.lower()]
    facts = {"nccl": version, "exclusive_gpus": tuple(exclusive)}
    if torch.error or not torch.nccl:
        return Finding("note", "no NCCL, so not with NCCL", facts=facts)
    if torch.nccl < SHARED_GPU_NCCL:
        return Finding("note", f"not possible: NCCL {version}, needed is 2.30 or newer", facts=facts)
    if exclusive:
        step = "nvidia-smi -c DEFAULT, as administrator"
        return Finding("note", f"not possible: GPU {exclusive[0]} is in an exclusive compute mode", step, facts)
    if not machine.gpus:
        return Finding("note", f"NCCL {version} could do it, once there is a GPU", facts=facts)
    return Finding("note", f"possible: NCCL {version} with NCCL_MULTI_RANK_GPU_ENABLE=1", facts=facts)


@check("sharing", "Ranks on one GPU", order=22, deadline_s=TORCH_DEADLINE_S)
def check_sharing(context: Context) -> Finding:
    return judge_sharing(torch_facts(context), gpu_listing(context))


# ---- visible_devices
_NAME = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")


def judge_visible_devices(value: str | None, machine: GpuListing) -> Finding:
    facts = {"value": value, "gpus": len(machine.gpus)}
    if value is None:
        return Finding("ok", "not set: every GPU is visible" if machine.gpus else "not set", facts=facts)
    step = "unset it, or list the numbers that nvidia-smi shows, as in 0,1"
    entries = [entry.strip() for entry in value.split(",")]
    if not value.strip() or entries == ["-1"]:
        if not machine.gpus:
            return Finding("ok", f"{value!r} hides all GPUs; there are none", facts=facts)
        return Finding("note", f"{value!r} hides all GPUs: ranks run on the CPU", "unset it to use them", facts)
    for entry in entries:
        if not entry.isdigit() and not _NAME.fullmatch(entry):
            return Finding("fail", f"{entry!r} in {value!r} is no GPU; it and what follows would be ignored", step, facts)
    if len(set(entries)) < len(entries):
        return Finding("fail", f"{value!r} names a GPU twice; CUDA then shows none", step, facts)
    if machine.error or not machine.gpus:
        text = "the GPUs could not be listed" if machine.error else "there is no GPU, so it changes nothing"
        return Finding("note", f"{value!r}; {text}", facts=facts)
    absent = [entry for entry in entries if named_gpu(entry, machine.gpus) is None]
    if absent:
        count = len(machine.gpus)
        have = f"there are {count}, from 0 to {count - 1}" if count > 1 else "there is only GPU 0"
        return Finding("fail", f"{value!r} names {', '.join(absent)}, but {have}", step, facts)
    return Finding("ok", f"{value}", facts=facts)


@check("visible_devices", "CUDA_VISIBLE_DEVICES", order=23, deadline_s=15)
def check_visible_devices(context: Context) -> Finding:
    return judge_visible_devices(context.env.get("CUDA_VISIBLE_DEVICES"), gpu_listing(context))
