"""Importing labkit costs next to nothing, and the kernel never loads torch: each seen from a fresh process."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time

import pytest

HEAVY = ("torch", "ipyparallel", "plotly", "IPython", "numpy", "ipywidgets", "anywidget", "psutil", "zmq")
ALLOWED_S = 0.2


def loaded_by(code: str, heavy: tuple[str, ...] = HEAVY) -> set[str]:
    """Which of the heavy packages a fresh process has loaded after running `code`."""
    probe = f"import sys\n{code}\nprint(*[name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def extra_s(code: str, rounds: int = 5) -> float:
    """How much longer than a bare interpreter a process takes that runs `code`: the best of some rounds."""

    def took_s(what: str) -> float:
        started_s = time.perf_counter()
        subprocess.run([sys.executable, "-c", what], timeout=60, check=True)
        return time.perf_counter() - started_s

    times = [(took_s(code), took_s("pass")) for _ in range(rounds)]
    return min(ours for ours, _ in times) - min(bare for _, bare in times)


def test_importing_labkit_loads_nothing_heavy() -> None:
    assert loaded_by("import labkit; labkit.errors; dir(labkit)") == set()


def test_importing_labkit_is_quick() -> None:
    assert extra_s("import labkit") < ALLOWED_S


@pytest.mark.parametrize("module", ["errors", "registry", "units", "wire", "ring", "recovery", "diagnosis", "faults", "cli"])
def test_what_is_pure_loads_no_torch_and_no_notebook(module: str) -> None:
    if importlib.util.find_spec(f"labkit.{module}") is None:
        pytest.skip(f"labkit.{module} is not there yet")
    assert loaded_by(f"import labkit.{module}") <= {"numpy"}


@pytest.mark.parametrize("module", ["driver.world", "views", "notebook", "doctor", "testing"])
def test_the_kernel_side_never_loads_torch(module: str) -> None:
    if importlib.util.find_spec(f"labkit.{module}") is None:
        pytest.skip(f"labkit.{module} is not there yet")
    assert "torch" not in loaded_by(f"import labkit.{module}")


def test_the_probes_can_fail() -> None:
    assert loaded_by("import decimal, numpy", ("decimal", "numpy", "torch")) == {"decimal", "numpy"}
    assert extra_s(f"import time; time.sleep({2 * ALLOWED_S})", rounds=1) > ALLOWED_S
