"""The parameters that DDP was given, where it refuses a model: its own message counts them and does not name them."""

from __future__ import annotations

from types import TracebackType
from typing import Any

MOST = 400
_SPEAKS_OF_MODELS = ("DDP expects same model", "appears not to match sizes of the same param", "appears not to match strides")


def parameters_of(error: BaseException, message: str) -> tuple[str, ...]:
    """Name and shape of each trainable parameter of the model that DDP refused; () for any other error.

    For instance ("lora.0.weight (2, 8)", "norm.bias (8)").
    """
    if not any(text in message for text in _SPEAKS_OF_MODELS):
        return ()
    module = _refused(error.__traceback__)
    if module is None:
        return ()
    named = [(name, each) for name, each in module.named_parameters() if each.requires_grad]
    return tuple(f"{name} ({', '.join(map(str, each.shape))})" for name, each in named[:MOST])


def _refused(at: TracebackType | None) -> Any:
    """The module that DDP's `__init__` was called with."""
    while at is not None:
        code = at.tb_frame.f_code
        if code.co_name == "__init__" and code.co_filename.endswith("parallel/distributed.py"):
            return at.tb_frame.f_locals.get("module")
        at = at.tb_next
    return None
