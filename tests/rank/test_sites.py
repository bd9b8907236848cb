"""The learner's line of a call: the innermost frame that is neither Python's, nor a library's, nor labkit's."""

from __future__ import annotations

import json
import sysconfig
import threading
from pathlib import Path

import pytest

import labkit
from labkit.frames import is_users_file
from labkit.rank import sites
from labkit.rank.sites import find_chain
from labkit.wire import CallSite

LIBRARY = Path(sysconfig.get_paths()["purelib"])


@pytest.mark.parametrize(
    ("file", "users"),
    [
        ("cell 7", True),
        ("/home/ada/train.py", True),
        ("train.py", True),
        (json.__file__, False),
        (str(LIBRARY / "torch" / "distributed" / "distributed_c10d.py"), False),
        (labkit.__file__, False),
        (sites.__file__, False),
        ("<frozen importlib._bootstrap>", False),
        ("<string>", False),
    ],
)
def test_whose_file_it_is(file: str, users: bool) -> None:
    assert is_users_file(file) is users
    assert is_users_file(file) is users, "the same when it is remembered"


def run(source: str, name: str = "cell 7") -> dict[str, object]:
    names: dict[str, object] = {"find_chain": find_chain}
    as_a_cell(source, name, names)
    return names


def as_a_cell(source: str, name: str, names: dict[str, object]) -> None:
    """Run it under a frame of the file that runs cells, as in a rank."""
    runner = compile("exec(compile(source, name, 'exec'), names)", sites.CELL_RUNNER, "exec")
    exec(runner, {"source": source, "name": name, "names": names})


def test_the_line_of_a_cell() -> None:
    assert run("\nx = (\n  find_chain())")["x"] == (CallSite("cell 7", 3, "<module>"),)


def test_the_way_through_the_learners_functions_is_kept() -> None:
    step = "def step():\n    return find_chain()\n"
    assert run(step + "x = step()")["x"] == (CallSite("cell 7", 3, "<module>"), CallSite("cell 7", 2, "step"))


def test_the_same_way_is_the_same_tuple_and_another_line_is_another() -> None:
    names = run("def step():\n    return find_chain()\nx = [step() for _ in range(2)]\ny = step()")
    first, second = names["x"]  # type: ignore[misc]
    assert first is second
    assert names["y"] == (CallSite("cell 7", 4, "<module>"), CallSite("cell 7", 2, "step"))


def test_of_a_deep_recursion_both_ends_are_kept() -> None:
    chain = run("def down(n):\n    return down(n - 1) if n else find_chain()\nx = down(200)")["x"]
    assert isinstance(chain, tuple)
    assert len(chain) == sites._DEEPEST
    assert (chain[0].function, chain[-1].function) == ("<module>", "down")


def test_the_way_ends_where_the_cell_begins() -> None:
    """The process that runs the cells may itself have been started from a script of the learner's."""
    inner = run("def cell():\n    return find_chain()", sites.CELL_RUNNER)
    names = {"cell": inner["cell"]}
    exec(compile("x = cell()", "/home/ada/start.py", "exec"), names)
    assert names["x"] == ()


def test_a_librarys_frames_are_passed_over() -> None:
    """A collective that a library calls for the learner has the line of the learner's call."""
    names = run("def find():\n    return find_chain()", str(LIBRARY / "fsdp" / "wrapper.py"))
    as_a_cell("\n\nx = find()", "cell 8", names)
    assert names["x"] == (CallSite("cell 8", 3, "<module>"),)


def test_a_given_frame_is_where_the_search_begins() -> None:
    frame = run("import sys\nframe = sys._getframe()")["frame"]
    (found,) = find_chain(frame)  # type: ignore[arg-type]
    assert (found.file, found.function) == ("cell 7", "<module>")


def test_a_librarys_thread_has_no_line() -> None:
    """DDP's C++ threads and the like: nobody's line is better than a wrong one."""
    names = run("def work():\n    found.append(find_chain())", str(LIBRARY / "worker.py"))
    found: list[tuple[CallSite, ...]] = []
    names["found"] = found
    thread = threading.Thread(target=names["work"])  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert found == [()]
