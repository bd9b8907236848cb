"""Is this Python one that labkit is made for?"""

from __future__ import annotations

import platform
import sys

from ..base import Context, Finding, check

OLDEST = (3, 11)


def judge_python(version: tuple[int, ...], implementation: str, in_environment: bool) -> Finding:
    text = ".".join(map(str, version[:3]))
    facts = {"version": text, "implementation": implementation, "virtual_environment": in_environment}
    if version[:2] < OLDEST:
        return Finding("fail", f"{text} is too old", "install Python 3.11 or newer and labkit into it", facts)
    if implementation != "CPython":
        return Finding("warn", f"{implementation} {text}: torch is built for CPython", "use CPython", facts)
    return Finding("ok", f"{implementation} {text}", facts=facts)


@check("python", "Python", order=10)
def run(context: Context) -> Finding:
    return judge_python(sys.version_info[:3], platform.python_implementation(), sys.prefix != sys.base_prefix)
