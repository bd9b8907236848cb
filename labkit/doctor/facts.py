"""Facts that several checks rest on, asked of other processes, each with a deadline.

torch may take seconds to import, crash, or hang; none of that may happen in the process that asks, which can be the
notebook's kernel. A process is ended by its own handle, so by pid and never by name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..devices import GpuListing, list_gpus
from .base import Context

_LOOK_S = 0.05  # how often a waiting probe looks whether the visit is over


@dataclasses.dataclass(frozen=True)
class Answer:
    """What came back; `late` if the process had to be ended, `code` its exit code (-6 for signal 6)."""

    code: int
    out: str
    err: str
    late: bool
    elapsed_s: float

    def json(self) -> dict[str, Any] | None:
        """The last line of output that is a JSON object, if there is one."""
        for line in reversed(self.out.splitlines()):
            with contextlib.suppress(ValueError):
                value = json.loads(line)
                if isinstance(value, dict):
                    return value
        return None

    def complaint(self) -> str:
        """The last line of its standard error, which in Python names the exception."""
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        return lines[-1][:200] if lines else f"exit code {self.code}, and not a word"


class Probe:
    """A running process; `answer` waits for it, and ends it at the deadline or when `stop` is set."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            list(command),
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def answer(self, deadline_s: float, stop: threading.Event) -> Answer:
        """Wait until `deadline_s` after the start."""
        late = False
        while True:
            try:
                out, err = self.process.communicate(timeout=_LOOK_S)
                break
            except subprocess.TimeoutExpired:
                if stop.is_set() or time.monotonic() > self.began + deadline_s:
                    late = True
                    out, err = self._end()
                    break
        return Answer(self.process.returncode or 0, out or "", err or "", late, time.monotonic() - self.began)

    def _end(self) -> tuple[str, str]:
        self.process.kill()
        try:
            out, err = self.process.communicate(timeout=2)
        except subprocess.TimeoutExpired:  # a grandchild holds the pipes; the process itself is gone
            self.process.wait(timeout=2)
            return "", ""
        return out, err

    def end(self) -> None:
        """Make sure the process is gone and its pipes are closed; harmless if it ended by itself."""
        if self.process.poll() is None:
            self._end()
        for pipe in (self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()


def ask(command: Sequence[str], env: Mapping[str, str], deadline_s: float, stop: threading.Event) -> Answer:
    """Run a command to its end or to the deadline."""
    probe = Probe(command, env)
    try:
        return probe.answer(deadline_s, stop)
    finally:
        probe.end()


def python(source: str, *arguments: str) -> list[str]:
    """The command that runs `source` in this Python; -P keeps the current folder out of its path."""
    return [sys.executable, "-P", "-c", source, *arguments]


# ---- torch and the GPUs
TORCH_DEADLINE_S = 45.0  # a first import from a cold disk takes long; it is not a defect

_TORCH_SOURCE = """
import json, time
began = time.perf_counter()
import torch
took = time.perf_counter() - began
import torch.distributed as dist
here = dist.is_available()
facts = {
    "version": str(torch.__version__), "cuda": torch.version.cuda or "", "import_s": round(took, 3),
    "gloo": here and dist.is_gloo_available(), "nccl": here and dist.is_nccl_available(), "nccl_version": [], "devices": 0,
}
try:
    facts["nccl_version"] = list(torch.cuda.nccl.version())
except Exception:
    pass
try:
    facts["devices"] = torch.cuda.device_count()
except Exception as error:
    facts["devices_error"] = f"{type(error).__name__}: {error}"[:200]
print(json.dumps(facts))
"""


@dataclasses.dataclass(frozen=True)
class TorchFacts:
    """What a process that imported torch reported; `error` if none did."""

    version: str = ""
    cuda: str = ""
    nccl: tuple[int, ...] = ()
    has_gloo: bool = False
    has_nccl: bool = False
    devices: int = 0
    import_s: float = 0.0
    error: str = ""


def torch_facts(context: Context) -> TorchFacts:
    """Asked once per visit, of a process of its own."""
    return context.shared("torch", lambda: _ask_torch(context))


def _ask_torch(context: Context) -> TorchFacts:
    answer = ask(python(_TORCH_SOURCE), context.env, TORCH_DEADLINE_S - 2, context.stop)
    facts = answer.json()
    if answer.late:
        return TorchFacts(error=f"import torch did not finish within {answer.elapsed_s:.0f} s")
    if facts is None or answer.code:
        return TorchFacts(error=answer.complaint())
    return TorchFacts(
        facts["version"],
        facts["cuda"],
        tuple(facts["nccl_version"]),
        bool(facts["gloo"]),
        bool(facts["nccl"]),
        int(facts["devices"]),
        float(facts["import_s"]),
    )


def gpu_listing(context: Context) -> GpuListing:
    """Asked once per visit, of nvidia-smi; the machine's GPUs whatever CUDA_VISIBLE_DEVICES says."""
    return context.shared("gpus", lambda: list_gpus(context.env))


def numbers(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> numbers("2.15.0+cu132"), numbers("13.2"), numbers("9.2.0rc1")
    ((2, 15, 0), (13, 2), (9, 2, 0))
    """
    found = re.match(r"\d+(?:\.\d+)*", version.strip())
    return tuple(int(part) for part in found[0].split(".")) if found else ()
