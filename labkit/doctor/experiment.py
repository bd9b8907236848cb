"""What an experiment ran with: the record to keep beside a result, so that it can be repeated.

Read from metadata and the system; nothing heavy is imported. The host's name is left out on purpose:
records are shared.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import platform
import shlex
import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

from packaging.requirements import Requirement

from ..devices import list_gpus
from ..machine import available_memory_bytes, cpu_quota, read_text
from ..units import format_bytes
from ..wire import record

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
    names = [requirement.name for requirement in requirements()]
    packages = {name: version for name in (*names, *_LIBRARIES) if (version := installed(name))}
    listing = list_gpus(env)
    return ExperimentRecord(
        labkit=labkit_version(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        packages=packages,
        platform=platform.platform(),
        machine=platform.machine(),
        cpus=os.cpu_count() or 1,
        cpu_quota=cpu_quota(read_text),
        memory_free_bytes=available_memory_bytes(),
        gpus=tuple(gpu.name for gpu in listing.gpus),
        driver=listing.driver,
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


# ---- what is installed, read without importing any of it
def installed(name: str) -> str | None:
    """The installed version of a distribution, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def labkit_version() -> str:
    """labkit's own version; in a checkout that is not installed, the one in pyproject."""
    return installed("labkit") or str(_project().get("version", "unknown"))


def requirements() -> list[Requirement]:
    """What labkit needs here: by the checkout this code runs from if it is one, else by the installed distribution."""
    lines = _project().get("dependencies")
    if not isinstance(lines, list):
        try:
            lines = importlib.metadata.requires("labkit") or []
        except importlib.metadata.PackageNotFoundError:
            lines = []
    return applying(lines)


def applying(lines: Sequence[str]) -> list[Requirement]:
    """The requirement lines that apply to every installation on this system: no extras.

    >>> [str(one) for one in applying(["torch>=2.15,<2.16", 'pytest>=9; extra == "dev"'])]
    ['torch<2.16,>=2.15']
    """
    parsed = [Requirement(str(line)) for line in lines]
    return [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": ""})]


def _project() -> dict[str, object]:
    path = Path(__file__).resolve().parents[2] / "pyproject.toml"
    try:
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
    except (OSError, tomllib.TOMLDecodeError):
        return {}
    return project if isinstance(project, dict) and project.get("name") == "labkit" else {}
