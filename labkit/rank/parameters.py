"""The parameters that DDP was given, where it refuses a model: its own message counts them and does not name them."""

from __future__ import annotations

import re
from types import TracebackType
from typing import Any

from ..phrases import few

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


_UNFINISHED = "Expected to have finished reduction in the prior iteration"
_FLAG, _WITH_FLAG = "`find_unused_parameters=True` is enabled", " (find_unused_parameters=True is set)"
_NUMBERS = re.compile(r"(?:did not receive grad for rank \d+:|params\[)\s*([\d ]+)")


def with_names(error: BaseException, message: str) -> str:
    """DDP's message with the names of the parameters that it gives by number.

    "... did not receive grad for rank 1: 0 1 (0: lora.0.weight, 1: lora.1.weight)". Of a step that DDP could not finish, they
    are all that is kept: "Expected to have finished reduction in the prior iteration: no gradient came to lora.0.weight"
    """
    found = _NUMBERS.search(message)
    module = _refused(error.__traceback__) if found is not None else None
    if found is None or module is None:
        return message
    names = [name for name, each in module.named_parameters() if each.requires_grad]
    said = [f"{number}: {names[int(number)]}" for number in found[1].split() if int(number) < len(names)]
    if message.startswith(_UNFINISHED):  # torch's advice would leave no room for them; the traceback has it
        without = few([each.partition(": ")[2] for each in said], 8)
        return f"{_UNFINISHED}: no gradient came to {without}{_WITH_FLAG if _FLAG in message else ''}"
    first, end, rest = message.strip().partition("\n")  # most is shown of the first line
    return f"{first} ({', '.join(said[:8])}{', ...' * (len(said) > 8)}){end}{rest}" if said else message


def _refused(at: TracebackType | None) -> Any:
    """The module that DDP wraps, or was about to: of the innermost frame that has one."""
    found = None
    while at is not None:
        if at.tb_frame.f_code.co_filename.endswith("parallel/distributed.py"):
            names = at.tb_frame.f_locals
            wrapped = vars(names["self"]).get("_modules", {}).get("module") if hasattr(names.get("self"), "__dict__") else None
            found = names.get("module") if at.tb_frame.f_code.co_name == "__init__" else wrapped or found
        at = at.tb_next
    return found
