"""Stacks: the learner's frames are never cut, and a crash's text is read back."""

from __future__ import annotations

import sysconfig

from labkit.frames import INNER, MOST_USERS, OUTER, function_name, package_of, parse_crash, trimmed, users_frame
from labkit.wire import Frame

LIBRARY = sysconfig.get_paths()["purelib"] + "/torch/nn/module.py"


def frames(*kinds: str) -> list[Frame]:
    """ "u" is a frame of the learner's, "l" a library's."""
    return [users_frame("cell 3" if kind == "u" else LIBRARY, at, "f") for at, kind in enumerate("".join(kinds))]


def test_the_learners_frames_stay_however_deep_a_library_is() -> None:
    found = trimmed(frames("u", "l" * 90, "u", "l" * 90))
    assert [frame.line for frame in found if frame.users] == [0, 91]
    assert sum(frame.skipped for frame in found) + len(found) == 182
    assert len(found) == 2 + OUTER + INNER


def test_a_short_stack_is_kept_whole() -> None:
    whole = frames("u", "l" * 5)
    assert list(trimmed(whole)) == whole


def test_of_a_deep_recursion_both_ends_are_kept() -> None:
    found = trimmed(frames("u" * 500))
    assert len(found) <= MOST_USERS + INNER
    assert (found[0].line, found[-1].line) == (0, 499)


def test_a_function_has_its_class_and_not_the_functions_around_it() -> None:
    class Net:
        def forward(self) -> None: ...

    assert function_name(Net.forward.__code__) == "Net.forward"


def test_the_package_of_a_file() -> None:
    assert package_of(LIBRARY) == "torch"
    assert package_of("/usr/lib/python3.11/json/decoder.py") == "json"


CRASH = """Fatal Python error: {what}

Thread 0x00007f1 (most recent call first):
  File "/lib/python3.11/threading.py", line 320 in wait

{current} 0x00007f2 (most recent call first):
  File "{library}", line 9 in read
  File "cell 3", line 5 in f
  File "cell 3", line 8 in <module>
  File "{library}", line 1 in run

Extension modules: numpy (total: 1)
"""


def test_the_line_of_a_crash() -> None:
    for current in ("Current thread", "Thread"):
        found = parse_crash(CRASH.format(what="Segmentation fault", current=current, library=LIBRARY))
        assert [frame.line for frame in found if frame.users] == [8, 5]
        assert found[-1].function == "read"


def test_a_crash_without_python_frames_has_no_line() -> None:
    assert parse_crash("Fatal Python error: Aborted\n\nCurrent thread 0x1 (most recent call first):\n  <no Python frame>\n") == ()
    assert parse_crash("") == ()
