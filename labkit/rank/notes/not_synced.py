"""An optimizer's step on a DDP model whose last gradients are this rank's own.

DDP averages gradients in the backward of a forward that it was called for outside of `no_sync()`. Here each DDP model is followed
from forward to backward to the optimizer's step. Gradients or parameters that the learner's code moves itself, in half as many
elements as the model has, count as averaged by hand. What is left goes to the kernel with a checksum of the parameters: only
where ranks really differ is it told.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ...wire import CallSite
from ..samples import checksum
from ..sites import find_chain
from . import CHECKS, Check

_MOST_BYTES = 64 * 2**20  # of parameters that are compared


@dataclass
class _Followed:
    """One DDP model: what its gradients are, and the step that took local ones."""

    synced: bool = False  # a backward has averaged since the last step
    local: bool = False  # the last backward was this rank's alone
    moved: int = 0  # elements that the learner's code has moved since then
    step: CallSite | None = None


@CHECKS.register("not-synced")
class NotSynced(Check):
    """Follows DDP models from their making on."""

    kind = "not-synced"

    def __init__(self, notes: Any) -> None:
        super().__init__(notes)
        self._followed: weakref.WeakKeyDictionary[torch.nn.Module, _Followed] = weakref.WeakKeyDictionary()
        make, forward, known = DistributedDataParallel.__init__, DistributedDataParallel.forward, weakref.ref(self)

        @functools.wraps(make)
        def made(model: Any, *args: Any, **kwargs: Any) -> None:
            make(model, *args, **kwargs)
            if (check := known()) is not None:
                check.state_of(model)

        @functools.wraps(forward)
        def followed(model: Any, *args: Any, **kwargs: Any) -> Any:
            output = forward(model, *args, **kwargs)
            if (check := known()) is not None and torch.is_grad_enabled():
                _listen(check.state_of(model), bool(model.require_backward_grad_sync), output)
            return output

        def before_step(optimizer: Any, args: Any, kwargs: Any) -> None:
            if (check := known()) is not None:
                check.at_step(optimizer)

        if "torch._dynamo" in sys.modules:  # the compiler is to look at the model, and not at what is around it
            followed = torch.compiler.disable(followed, recursive=False)
        DistributedDataParallel.__init__, DistributedDataParallel.forward = made, followed
        register_optimizer_step_pre_hook(before_step)

    def state_of(self, model: torch.nn.Module) -> _Followed:
        """What is known of a DDP model."""
        return self._followed.setdefault(model, _Followed())

    def after(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """What the learner's code moves may be gradients or parameters."""
        if self._followed:
            states = [state for state in self._followed.values() if state.local or state.step is not None or not state.synced]
            if states:
                size = sum(tensor.numel() for value in (*args, *kwargs.values()) for tensor in _tensors(value))
                for state in states:
                    state.moved += size

    def at_step(self, optimizer: torch.optim.Optimizer) -> None:
        """An optimizer is about to change its parameters."""
        if not self._followed:
            return
        taken = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for model, state in self._followed.items():
            own = [parameter for parameter in model.parameters() if id(parameter) in taken and parameter.grad is not None]
            if not own:
                continue
            if (state.local or not state.synced) and not _by_hand(model, state):
                chain = find_chain()
                state.step = state.step or (chain[-1] if chain else None)
            state.synced, state.local, state.moved = False, False, 0

    def close(self, ok: bool) -> None:
        """Tell of steps that took local gradients, unless the parameters were averaged since."""
        for model, state in self._followed.items():
            if state.step is not None and ok and not _by_hand(model, state):
                inner = type(getattr(model, "module", model)).__name__
                self.notes.say(self.kind, "step", state.step, model=inner, checksum=_of_parameters(model))
            state.step = None

    def forget(self) -> None:
        """The process groups are gone, and these models with them."""
        self._followed.clear()


def _listen(state: _Followed, synced: bool, output: Any) -> None:
    """Take note when the backward of an output begins."""

    def in_backward(grad: Any) -> None:
        state.synced, state.local, state.moved = state.synced or synced, not synced, 0

    tensor = next((tensor for tensor in _tensors(output) if tensor.requires_grad), None)
    if tensor is not None:
        tensor.register_hook(in_backward)


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _by_hand(model: torch.nn.Module, state: _Followed) -> bool:
    """Whether as much was moved as gradients or parameters take, if only half of them."""
    total: int = sum([parameter.numel() for parameter in model.parameters() if parameter.requires_grad])
    return state.moved * 2 >= total


def _of_parameters(model: torch.nn.Module) -> str:
    """A checksum of the parameters, of the first ones if there are many."""
    digest, left = hashlib.blake2b(digest_size=12), _MOST_BYTES
    for parameter in model.parameters():
        if left > 0:
            digest.update(checksum(parameter.detach().reshape(-1)[: left // parameter.element_size()]).encode())
            left -= parameter.numel() * parameter.element_size()
    return digest.hexdigest()
