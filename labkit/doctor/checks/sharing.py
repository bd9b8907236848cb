"""May several ranks share one GPU? NCCL refused that before 2.30."""

from __future__ import annotations

from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, GpuFacts, TorchFacts, gpu_facts, torch_facts

FIRST_NCCL = (2, 30)


def judge_sharing(torch: TorchFacts, machine: GpuFacts) -> Finding:
    version = ".".join(map(str, torch.nccl))
    exclusive = [gpu.index for gpu in machine.gpus if "exclusive" in gpu.compute_mode.lower()]
    facts = {"nccl": version, "exclusive_gpus": tuple(exclusive)}
    if torch.error or not torch.nccl:
        return Finding("note", "no NCCL, so not with NCCL", facts=facts)
    if torch.nccl < FIRST_NCCL:
        return Finding("note", f"not possible: NCCL {version}, needed is 2.30 or newer", facts=facts)
    if exclusive:
        step = "nvidia-smi -c DEFAULT, as administrator"
        return Finding("note", f"not possible: GPU {exclusive[0]} is in an exclusive compute mode", step, facts)
    if not machine.gpus:
        return Finding("note", f"NCCL {version} could do it, once there is a GPU", facts=facts)
    return Finding("note", f"possible: NCCL {version} with NCCL_MULTI_RANK_GPU_ENABLE=1", facts=facts)


@check("sharing", "Ranks on one GPU", order=22, deadline_s=TORCH_DEADLINE_S)
def run(context: Context) -> Finding:
    return judge_sharing(torch_facts(context), gpu_facts(context))
