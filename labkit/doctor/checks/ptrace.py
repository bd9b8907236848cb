"""May py-spy read the stack of a rank? Tried on a real child, the way a stuck rank is looked at."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from ...machine import read_text
from ..base import Context, Finding, check
from ..facts import Probe, ask, python

_SLEEPER = "import time; time.sleep(20)"
_TRY_S = 4.0


def judge_ptrace(found: bool, worked: bool, said: str, scope: str, platform: str = "linux") -> Finding:
    """`worked`: py-spy printed a stack; `scope`: the kernel's ptrace_scope, "" where there is none."""
    facts = {"found": found, "worked": worked, "ptrace_scope": scope}
    without = "stacks then come from the rank's own helper thread only"
    if not found:
        return Finding("note", f"py-spy is not installed; {without}", "uv pip install py-spy", facts)
    if worked:
        return Finding("ok", "py-spy can read the stack of a stuck rank", facts=facts)
    if platform == "darwin":
        return Finding("note", f"py-spy needs sudo on this system; {without}", facts=facts)
    if scope not in ("", "0"):
        step = "sysctl kernel.yama.ptrace_scope=0, or start the container with --cap-add SYS_PTRACE"
        return Finding("note", f"the kernel forbids py-spy (ptrace_scope {scope}); {without}", step, facts)
    step = "start the container with --cap-add SYS_PTRACE"
    return Finding("note", f"py-spy could not read a stack ({said}); {without}", step, facts)


def _find() -> str | None:
    beside = Path(sys.executable).parent / "py-spy"
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("py-spy")


@check("ptrace", "Stacks from outside", order=51, deadline_s=12)
def run(context: Context) -> Finding:
    tool, scope = _find(), (read_text("/proc/sys/kernel/yama/ptrace_scope") or "").strip()
    if tool is None:
        return judge_ptrace(False, False, "", scope, sys.platform)
    child = Probe(python(_SLEEPER), context.env)
    try:
        until, said = time.monotonic() + _TRY_S, ""
        while True:  # py-spy can make nothing of an interpreter that is just starting: once more
            answer = ask([tool, "dump", "--pid", str(child.pid)], context.env, _TRY_S, context.stop)
            said = answer.complaint()
            if answer.code == 0 and "\nThread " in answer.out:
                return judge_ptrace(True, True, "", scope, sys.platform)
            if time.monotonic() > until or context.stop.is_set() or "ermission" in answer.err:
                return judge_ptrace(True, False, said, scope, sys.platform)
            time.sleep(0.2)
    finally:
        child.end()
