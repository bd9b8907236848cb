"""A real notebook kernel: the magic, the interrupt button, a restart - what a learner does, without a browser."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import pytest
from jupyter_client.manager import KernelManager

from labkit.processes import state_of_pid

pytestmark = pytest.mark.gloo

START = "import labkit; world = labkit.start(ranks=3); [card.pid for card in world.status().cards]"


class Notebook:
    """One kernel and what comes back from it."""

    def __init__(self, run_root: Path) -> None:
        self.manager = KernelManager(kernel_name="python3")
        self.manager.start_kernel(extra_arguments=["--InteractiveShell.colors=NoColor"], env=_environment(run_root))
        self.client = self.manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def send(self, code: str) -> str:
        return str(self.client.execute(code))

    def collect(self, number: str, timeout_s: float = 60) -> tuple[str, str]:
        """(text of all outputs, error) of a cell."""
        texts, error, end = [], "", time.monotonic() + timeout_s
        while time.monotonic() < end:
            try:
                message = self.client.get_iopub_msg(timeout=1)
            except Empty:
                continue
            if message["parent_header"].get("msg_id") != number:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind in ("execute_result", "display_data"):
                texts.append(content["data"].get("text/plain", ""))
            elif kind == "stream":
                texts.append(content["text"])
            elif kind == "error":
                error = "\n".join(content["traceback"])
            elif kind == "status" and content["execution_state"] == "idle":
                return "\n".join(texts), error
        raise AssertionError(f"the cell did not end in {timeout_s} s")

    def run(self, code: str, timeout_s: float = 60) -> tuple[str, str]:
        return self.collect(self.send(code), timeout_s)

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def _environment(run_root: Path) -> dict[str, str]:
    return {**os.environ, "LABKIT_RUN_ROOT": str(run_root)}


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    made = Notebook(tmp_path / "runs")
    yield made
    with contextlib.suppress(RuntimeError):
        made.close()


def gone(pids: list[int], within_s: float = 3.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if all(state_of_pid(pid) == "dead" for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_a_learners_first_minutes(notebook: Notebook) -> None:
    text, error = notebook.run(START)
    assert not error
    assert len(set(eval(text.splitlines()[-1]))) == 3
    text, error = notebook.run("%%ranks\nx = torch.full((2,), rank + 1.0)\ndist.all_reduce(x)\nx")
    assert (text, error) == ("all 3 ranks\n  tensor([6., 6.])", "")
    text, error = notebook.run("%%ranks 1\n1/0")
    assert "ZeroDivisionError" in error
    assert "rank 1 (cell 3, line 2)" in error, error
    assert "Traceback" not in error
    text, error = notebook.run("%%ranks\nif rank != 1:\n    dist.all_reduce(x)")
    assert "rank 1 has finished cell 4 without all_reduce #2, in which ranks 0 and 2 wait (cell 4, line 3)" in text + error
    text, error = notebook.run("world.recover()")
    assert "every process and variable kept" in " ".join(text.split())
    text, error = notebook.run("%%ranks\ndist.all_reduce(x)\nx.tolist()")
    assert (text, error) == ("all 3 ranks\n  [18.0, 18.0]", "")
    text, error = notebook.run("%%ranks 7\n1")
    assert "no rank 7; this world has ranks 0-2" in error
    text, error = notebook.run("%%ranks\nx = = 1")
    assert error.count("invalid syntax") == 1
    text, error = notebook.run("world.inject('swaped-order', rank=1)")
    assert "did you mean 'swapped-order'" in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    "body",
    ["if rank != 1: dist.all_reduce(torch.ones(2))\nelse:\n    import time; time.sleep(60)", "while True: pass"],
    ids=["in a collective", "in Python"],
)
def test_the_interrupt_button_frees_the_ranks(notebook: Notebook, body: str) -> None:
    notebook.run(START)
    notebook.run("%%ranks\nkept = rank * 10")
    number = notebook.send(f"%%ranks --deadline 60\n{body}")
    time.sleep(1.5)
    began = time.monotonic()
    notebook.manager.interrupt_kernel()
    text, error = notebook.collect(number, timeout_s=10)
    assert time.monotonic() - began < 2.0
    assert "KeyboardInterrupt" in error
    text, error = notebook.run("%%ranks\nx = torch.ones(1); dist.all_reduce(x); (kept, x.item())")
    assert not error
    assert "(10, 3.0)" in text


def test_restart_and_shutdown_leave_nothing(notebook: Notebook) -> None:
    text, _ = notebook.run(START)
    pids: list[int] = eval(text.splitlines()[-1])
    notebook.run("world.try_fault('swapped-order', 1)")
    notebook.manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=60)
    assert gone(pids)
    text, error = notebook.run(START)
    assert not error
    pids = eval(text.splitlines()[-1])
    notebook.client.stop_channels()
    notebook.manager.shutdown_kernel()
    assert gone(pids)


def test_nothing_a_rank_sends_is_unpickled(notebook: Notebook) -> None:
    _, error = notebook.run(
        "import pickle, ipyparallel.serialize.serialize as s, labkit\n"
        "def refuse(*a, **k): raise AssertionError('unpickled')\n"
        "pickle.loads = pickle.load = pickle._loads = s.pickle.loads = refuse\n"
        "world = labkit.start(ranks=2)\n"
        "world.run_cell('x = torch.ones(3); dist.all_reduce(x); print(1); x')\n"
        "world.tensors('x'), world.pull('x'), world.push(y=[1]), world.status()\n"
        "world.try_fault('rank-raises', 1), world.recover(), world.stop()"
    )
    assert not error
    # even if a rank tries: ipyparallel's own channel for published data is a pickle
    _, error = notebook.run(
        "world = labkit.start(ranks=2)\n"
        "r = world.run_cell('from ipyparallel.datapub import publish_data; publish_data(dict(a=1)); print(7)')\n"
        "assert r.ok and '7' in r.outcomes[0].output[0].text"
    )
    assert not error


def test_a_cell_has_the_number_of_the_prompt(notebook: Notebook) -> None:
    """Also where one prompt ran many texts, and the prompts before it ran none."""
    notebook.run(START)  # In[1]
    for _ in range(3):
        notebook.run("1 + 1")
    source = "if rank == 2:\n    {}\n"
    found, _ = notebook.run(f"for what in ('1 / 0', '[][1]'): print(world.run_cell({source!r}.format(what)))")  # In[5]
    assert "cell 5, line 2" in found
    assert "cell 5.2, line 2" in found
    assert "[][1]" in found
    _, error = notebook.run("%%ranks\nif rank == 1:\n    {}['a']")  # In[6]
    assert "cell 6, line 3" in error
    found, _ = notebook.run("world.run_cell('x = torch.ones(1)\\nif rank != 1: dist.all_reduce(x)')")  # In[7]
    assert "(cell 7, line 2)" in found
    assert "if rank != 1: dist.all_reduce(x)" in found
    assert "since cell 7" in notebook.run("world.broken")[0]
