"""The first code that runs in an engine: it makes the process a rank. The same for every launcher.

LABKIT_RANK, LABKIT_WORLD_SIZE   its number and how many ranks there are
LABKIT_RUN_DIR                   the world's private folder
LABKIT_STORE_KEY                 what all of its keys in the store begin with (read by groups.py)
LABKIT_BACKEND, LABKIT_DEVICE    the backend of its process groups, and where its tensors are
LABKIT_HOST_PID                  the process that holds the host it is on, if that is not the kernel's
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from ..vocabulary import OWN_NAMES
from . import dispatch
from .backends import make_backend
from .context import RankContext
from .crashes import Stacks
from .groups import Groups
from .tap import Tap
from .twin import COLLECT_S, REST_S, TwinMaker


def install() -> None:
    """Read the environment, add both kinds of request to the engine's kernel, and fill the learner's namespace."""
    from IPython.core.getipython import get_ipython

    shell: Any = get_ipython()
    context = make_context(shell.user_ns)
    _after_fork()
    kernel = shell.kernel
    twins = TwinMaker(context)

    def on_request(stream: Any, ident: Any, parent: Any) -> None:
        buffers = [bytes(part) for part in parent.get("buffers", ())]
        twins.refresh()  # if this request came before the rank was at rest
        content, parts = dispatch.serve(context, shell, parent["content"], buffers)
        _flush()
        kernel.session.send(stream, "labkit_reply", content, parent=parent, ident=ident, buffers=parts or None)
        twins.changed(parent["content"]["op"])
        asyncio.get_running_loop().call_later(REST_S, at_rest)

    def at_rest() -> None:
        twins.refresh()
        if twins.collect():
            asyncio.get_running_loop().call_later(COLLECT_S, at_rest)

    def on_control(stream: Any, ident: Any, parent: Any) -> None:
        content = dispatch.serve_control(context, parent["content"])
        kernel.session.send(stream, "labkit_control_reply", content, parent=parent, ident=ident)

    def on_signal(stream: Any, ident: Any, parent: Any) -> None:
        # ipyparallel's own interrupt of a %%px cell waits for this reply; its nanny, which we do not
        # start, would give it
        number = parent["content"]["sig"]
        number = getattr(signal, number) if isinstance(number, str) else number
        kernel.session.send(stream, "signal_reply", {"status": "ok"}, parent=parent, ident=ident)
        os.kill(os.getpid(), number)

    dispatch.OPS.load()
    dispatch.CONTROL_OPS.load()
    kernel.shell_handlers["labkit_request"] = on_request
    kernel.control_handlers.update(labkit_control=on_control, signal_request=on_signal)


def make_context(namespace: dict[str, Any]) -> RankContext:
    """The context of this process, from its environment."""
    env = os.environ
    context = RankContext(
        rank=int(env["LABKIT_RANK"]),
        world_size=int(env["LABKIT_WORLD_SIZE"]),
        run_dir=Path(env["LABKIT_RUN_DIR"]),
        namespace=namespace,
        backend=make_backend(env.get("LABKIT_BACKEND", "gloo")),
        device=env.get("LABKIT_DEVICE", "cpu"),
        mode=env.get("LABKIT_MODE", "raw"),
    )
    context.threads.install()
    context.backend.start(context.run_dir, context.rank)
    context.tap = Tap(context)
    context.tap.install()
    context.groups = Groups(context, context.tap)
    device = torch.device(context.device)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.set_default_device(device)  # the same cell runs on a GPU and on a CPU
    values = {"rank": context.rank, "world_size": context.world_size, "device": device, "torch": torch, "dist": dist}
    context.own = {name: values[name] for name in OWN_NAMES}
    context.restore_names()
    Stacks(context.run_dir, context.rank).install()
    context.leave()
    return context


def _after_fork() -> None:
    """Give a fork its own random numbers, and what torch read from the environment of the fork server."""
    import numpy

    random.seed()
    numpy.random.seed()
    torch.seed()
    dist.set_debug_level_from_env()
    if os.environ.get("OMP_NUM_THREADS"):
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _flush() -> None:
    sys.stdout.flush()
    sys.stderr.flush()
