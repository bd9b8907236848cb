"""Does torch import, in a process of its own, and what was it built with?"""

from __future__ import annotations

import dataclasses

from ...units import format_seconds
from ..base import Context, Finding, check
from ..facts import TORCH_DEADLINE_S, TorchFacts, torch_facts

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
def run(context: Context) -> Finding:
    return judge_torch(torch_facts(context))
