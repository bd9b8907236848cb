"""What NCCL writes about itself, fetched from the world's private folder: one file for each process of a rank."""

from __future__ import annotations

import os

from ..backends import find
from ..driver.core import WorldCore, instrument
from ..errors import UsageError
from ..schedule.nccl_lines import read_nccl_log
from ..schedule.nccl_log import NcclLog


@instrument
def nccl_log(world: WorldCore) -> NcclLog:
    """The rings, trees, transports and choices of this world, as NCCL has logged them until now.

    UsageError where there is no such log: on gloo, or if the user's own NCCL_DEBUG asks for another one.

    >>> world.nccl_log().of("all_reduce")                              # doctest: +SKIP
    """
    return read_nccl_log(*nccl_log_texts(world))


def nccl_log_texts(world: WorldCore) -> list[str]:
    """The log's text, of each rank's newest process."""
    if world.stopped:
        raise UsageError("this world is stopped", hint="start a new one with labkit.start()")
    pattern = find(world.backend).log_pattern
    if not pattern:
        raise UsageError(
            f"{world.backend} keeps no log of its choices, NCCL does",
            hint="see another machine's: from labkit.schedule.nccl_log import recorded; recorded()",
        )
    folder, texts = world.folder / "log", []
    for rank in range(world.world_size):
        files = sorted(folder.glob(pattern.format(rank=rank, pid="*")), key=lambda file: file.stat().st_mtime)
        texts += [file.read_text(errors="replace") for file in files[-1:]]
    if not any(texts):
        own = sorted(name for name in os.environ if name.startswith("NCCL_DEBUG"))
        hint = f"unset {' and '.join(own)}, and start the world anew" if own else "it comes with the first collective"
        raise UsageError("NCCL has written no log into this world's folder", hint=hint)
    return texts
