"""Does the NVIDIA driver fit the CUDA that torch was built with?"""

from __future__ import annotations

from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, GpuFacts, TorchFacts, gpu_facts, numbers, torch_facts

# Oldest Linux driver for each CUDA major: within a major, older drivers run newer minors.
OLDEST_DRIVER = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580,)}


def judge_driver(machine: GpuFacts, torch: TorchFacts) -> Finding:
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
def run(context: Context) -> Finding:
    machine = gpu_facts(context)
    needs_torch = bool(machine.gpus) and not machine.error
    return judge_driver(machine, torch_facts(context) if needs_torch else TorchFacts())
