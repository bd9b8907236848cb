"""The catalogue of faults as pages of text, for those who read it in a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..faults import Fault

_WIDTH = 96


def list_faults(faults: Sequence[Fault]) -> str:
    """One line for each fault: its name and what goes wrong."""
    width = max((len(fault.name) for fault in faults), default=0)
    lines = [f"{fault.name:<{width}}  {fault.title}" for fault in faults]
    return "\n".join([*lines, "", "labkit faults NAME explains one."]) + "\n"


def explain_fault(fault: Fault) -> str:
    """All there is to know of one: what it is, a cell that shows it, how it ends, how to mend it."""
    ends = [f"{mode:<6}{seen.ending}{_codes(seen.codes)}" for mode, seen in fault.expect.items()]
    params = [f"{name}={param.default!r}: {param.text}" for name, param in fault.params.items()]
    parts = [
        f"{fault.name}: {fault.title}",
        _fill(fault.teaches),
        "A rank cell that shows it:\n" + textwrap.indent(fault.demo.rstrip(), "    "),
        "Try it:\n" + f'    with world.inject("{fault.name}", rank=1): ...',
        *(["Parameters:\n" + textwrap.indent("\n".join(params), "    ")] if params else []),
        "How it ends, by mode:\n" + textwrap.indent("\n".join(ends), "    "),
        _fill("Cure: " + fault.cure),
    ]
    return "\n\n".join(parts) + "\n"


def _codes(codes: Sequence[str]) -> str:
    return f" (verdict {' or '.join(codes)})" if codes else ""


def _fill(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH)
