"""Does CUDA_VISIBLE_DEVICES name GPUs that are there? CUDA itself drops the rest without a word."""

from __future__ import annotations

import re

from ..base import Context, Finding, check
from ..facts import GpuFacts, gpu_facts

_NAME = re.compile(r"(GPU|MIG)-[0-9A-Za-z/-]+")


def judge_visible_devices(value: str | None, machine: GpuFacts) -> Finding:
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
    absent = [entry for entry in entries if not entry.startswith("MIG-") and not _there(entry, machine)]
    if absent:
        count = len(machine.gpus)
        have = f"there are {count}, from 0 to {count - 1}" if count > 1 else "there is only GPU 0"
        return Finding("fail", f"{value!r} names {', '.join(absent)}, but {have}", step, facts)
    return Finding("ok", f"{value}", facts=facts)


def _there(entry: str, machine: GpuFacts) -> bool:
    if entry.isdigit():
        return int(entry) < len(machine.gpus)
    return any(gpu.uuid.startswith(entry) for gpu in machine.gpus)  # CUDA takes a prefix


@check("visible_devices", "CUDA_VISIBLE_DEVICES", order=23, deadline_s=15)
def run(context: Context) -> Finding:
    return judge_visible_devices(context.env.get("CUDA_VISIBLE_DEVICES"), gpu_facts(context))
