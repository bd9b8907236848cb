"""What an experiment ran with: the record to keep beside a result, so that it can be repeated.

Read from metadata and the system; nothing heavy is imported. The host's name is left out on purpose:
records are shared.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import shlex
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..units import format_bytes
from ..wire import record
from . import cgroup, versions
from .facts import ask_smi
from .system import available_memory_bytes, read_text

_PREFIXES = ("LABKIT_", "NCCL_", "GLOO_", "TORCH_", "CUDA_", "OMP_NUM_THREADS")
_LIBRARIES = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu13")


@record
class ExperimentRecord:
    """Versions, platform and launch command of this process."""

    labkit: str
    python: str
    packages: dict[str, str] = dataclasses.field(default_factory=dict)
    platform: str = ""
    machine: str = ""
    cpus: int = 0
    cpu_quota: float | None = None
    memory_free_bytes: int = 0
    gpus: tuple[str, ...] = ()
    driver: str = ""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    launch: str = ""


def experiment_record(env: Mapping[str, str] | None = None, argv: Sequence[str] | None = None) -> ExperimentRecord:
    """The record of this process; a missing tool or package is left out, never an error."""
    env = os.environ if env is None else env
    wanted = [pair[0] for pair in map(versions.parse_requirement, versions.wanted()) if pair is not None]
    packages = {name: version for name in (*wanted, *_LIBRARIES) if (version := versions.installed(name))}
    gpus, driver = _gpus(env)
    return ExperimentRecord(
        labkit=versions.labkit_version(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=packages,
        platform=platform.platform(),
        machine=platform.machine(),
        cpus=os.cpu_count() or 1,
        cpu_quota=cgroup.cpus(read_text),
        memory_free_bytes=available_memory_bytes(),
        gpus=gpus,
        driver=driver,
        environment={name: value for name, value in sorted(env.items()) if _telling(name)},
        launch=launch_command(sys.orig_argv if argv is None else argv),
    )


def _telling(name: str) -> bool:
    return name.startswith(_PREFIXES) and not any(word in name for word in ("KEY", "PASS", "SECRET", "TOKEN"))


def launch_command(argv: Sequence[str]) -> str:
    """How the process was started, with names instead of places on this machine for program and script.

    >>> launch_command(["/home/ada/.venv/bin/python", "/home/ada/train.py", "--name", "first try"])
    "python train.py --name 'first try'"
    """
    # The program, and the script it runs; an option's value is the user's own and stays as it is.
    return shlex.join([Path(word).name if place < 2 and word.startswith("/") else word for place, word in enumerate(argv)])


def _gpus(env: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    facts = ask_smi(env, threading.Event())
    return tuple(gpu.name for gpu in facts.gpus), facts.driver


def experiment_text(record: ExperimentRecord) -> str:
    """The record as a page of text."""
    quota = f" (the container may use {record.cpu_quota:g})" if record.cpu_quota is not None else ""
    rows = [
        ("labkit", record.labkit),
        ("Python", record.python),
        *record.packages.items(),
        ("platform", f"{record.platform}, {record.machine}"),
        ("CPUs", f"{record.cpus}{quota}"),
        ("free memory", format_bytes(record.memory_free_bytes)),
        ("GPUs", ", ".join(record.gpus) or "none"),
        *([("driver", record.driver)] if record.driver else []),
        *record.environment.items(),
        ("launched by", record.launch),
    ]
    width = max(len(name) for name, _ in rows)
    return "".join(f"{name:<{width}}  {value}\n" for name, value in rows)
