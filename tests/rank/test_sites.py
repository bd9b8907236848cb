"""The learner's line of a call: the innermost frame that is neither Python's, nor a library's, nor labkit's."""

from __future__ import annotations

import json
import sysconfig
import threading
from pathlib import Path

import pytest

import labkit
from labkit.rank import sites
from labkit.rank.sites import find_site, is_users_file
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
    names: dict[str, object] = {"find_site": find_site}
    exec(compile(source, name, "exec"), names)
    return names


def test_the_line_of_a_cell() -> None:
    assert run("\nx = (\n  find_site())")["x"] == CallSite("cell 7", 3, "<module>")


def test_the_innermost_of_the_learners_frames_counts() -> None:
    assert run("def step():\n    return find_site()\nx = step()")["x"] == CallSite("cell 7", 2, "step")


def test_a_librarys_frames_are_passed_over() -> None:
    """A collective that a library calls for the learner has the line of the learner's call."""
    names = run("def find():\n    return find_site()", str(LIBRARY / "fsdp" / "wrapper.py"))
    exec(compile("\n\nx = find()", "cell 8", "exec"), names)
    assert names["x"] == CallSite("cell 8", 3, "<module>")


def test_a_given_frame_is_where_the_search_begins() -> None:
    frame = run("import sys\nframe = sys._getframe()")["frame"]
    found = find_site(frame)  # type: ignore[arg-type]
    assert found is not None
    assert (found.file, found.function) == ("cell 7", "<module>")


def test_a_librarys_thread_has_no_line() -> None:
    """DDP's C++ threads and the like: nobody's line is better than a wrong one."""
    names = run("def work():\n    found.append(find_site())", str(LIBRARY / "worker.py"))
    found: list[CallSite | None] = []
    names["found"] = found
    thread = threading.Thread(target=names["work"])  # type: ignore[arg-type]
    thread.start()
    thread.join()
    assert found == [None]
