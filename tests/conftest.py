"""What holds for every test: no process is left behind, hypothesis is repeatable, and GPUs are asked for by name."""

from __future__ import annotations

import logging
import os
import shutil
import signal
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
LONG_FILE = 300
BROWSER_OPTIONS = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
).split()
RUN_MARK = "LABKIT_TEST_RUN"  # in the environment of all that this run starts, orphans included

settings.register_profile("labkit", deadline=None, derandomize=True, print_blob=True, database=None)
settings.register_profile("quick", settings.get_profile("labkit"), max_examples=20)  # of `make quick`
settings.load_profile("labkit")


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return ROOT


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The one browser of the session: Playwright's synchronous half can't be started twice in a process."""
    from playwright.sync_api import sync_playwright

    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as play:
        made = play.chromium.launch(executable_path=path, args=BROWSER_OPTIONS)
        yield made
        made.close()


def pytest_configure() -> None:
    os.environ[RUN_MARK] = uuid.uuid4().hex
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # inherited by what a shell starts in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> list[str]:
    """Files that grow long, so that a reviewer sees them before they break the limit."""
    lengths = {path: len(path.read_text().splitlines()) for path in sorted((ROOT / "labkit").rglob("*.py"))}
    return [f"long file: {path.relative_to(ROOT)}, {lines} lines" for path, lines in lengths.items() if lines > LONG_FILE]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if Path("/dev/nvidiactl").exists():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device on this machine"))


def pytest_collection_finish() -> None:
    """Torch's 45 loggers pass their messages on: pytest would else hang a handler to each of them, six times a test."""
    for name, logger in logging.root.manager.loggerDict.items():
        if name.startswith("torch") and isinstance(logger, logging.Logger):
            logger.propagate = True


def left_behind(mark: str) -> Iterator[psutil.Process]:
    """Processes that carry this run's mark in their environment; their parent may be long gone."""
    own = os.getpid()
    for process in psutil.process_iter():
        try:
            if process.pid != own and process.environ().get(RUN_MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                yield process
        except psutil.Error:
            continue


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    mark, patience_s = os.environ[RUN_MARK], 5.0
    ends_s = time.monotonic() + patience_s
    while (left := list(left_behind(mark))) and time.monotonic() < ends_s:
        time.sleep(0.1)
    if left:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        names = [f"{process.pid} {' '.join(process.cmdline())[:100]}" for process in left if process.is_running()]
        print("\nERROR: processes left behind:", *names, sep="\n  ")
