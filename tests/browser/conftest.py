"""JupyterLab in a real browser: one server and one browser for all tests, in folders of their own."""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PICTURES = ROOT / "build" / "screenshots"
SIZE = {"width": 1280, "height": 900}
START_S = 60.0
SETTINGS = {
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    "notebook-extension/tracker": {"windowingMode": "none"},  # every output is in the page, also one out of sight
}


def chromium() -> str | None:
    """Debian's browser, or the one that CHROMIUM names."""
    return os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = "" if chromium() else "no chromium on this machine; `apt-get install chromium`, or name one in CHROMIUM"
    for item in items:
        if missing and item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason=missing))


@dataclass
class Server:
    """A running JupyterLab: where it is, and where its notebooks lie."""

    url: str
    token: str
    folder: Path

    def put(self, name: str, notebook: dict[str, Any]) -> Path:
        path = self.folder / name
        path.write_text(json.dumps(notebook))
        return path


def write_setting(folder: Path, name: str, value: dict[str, Any]) -> None:
    extension, _, part = name.partition("/")
    place = folder / "@jupyterlab" / extension
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{part}.jupyterlab-settings").write_text(json.dumps(value))


@pytest.fixture(scope="session")
def cells() -> Callable[..., dict[str, Any]]:
    """cells(source, ...): a notebook of code cells."""

    def make(*sources: str) -> dict[str, Any]:
        made = [
            {"cell_type": "code", "id": f"cell-{n}", "metadata": {}, "source": source, "outputs": [], "execution_count": None}
            for n, source in enumerate(sources)
        ]
        kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
        return {"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}

    return make


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    home = tmp_path_factory.mktemp("jupyter")
    places = {f"JUPYTER_{kind}_DIR": home / kind.lower() for kind in ("CONFIG", "DATA", "RUNTIME")}
    settings, folder, worlds = home / "settings", home / "notebooks", home / "worlds"
    for place in (*places.values(), settings, folder, worlds):
        place.mkdir(mode=0o700)
    for name, value in SETTINGS.items():
        write_setting(settings, name, value)
    labconfig = places["JUPYTER_CONFIG_DIR"] / "labconfig"
    labconfig.mkdir()
    (labconfig / "page_config.json").write_text(json.dumps({"disabledExtensions": {"ipyparallel-labextension": True}}))
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "JUPYTER", "LABKIT_LIVE"))},
        **{name: str(place) for name, place in places.items()},
        "JUPYTERLAB_SETTINGS_DIR": str(settings), "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"), "JUPYTER_PREFER_ENV_PATH": "1", "LABKIT_RUN_ROOT": str(worlds),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
    }  # fmt: skip
    token = secrets.token_hex(16)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", "--port=0", f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}", "--LabApp.news_url=", "--ServerApp.jpserver_extensions=ipyparallel=False",
        "--allow-root",
    ]  # fmt: skip
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield Server(_address(process, log, token), token, folder)
    finally:
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _address(process: subprocess.Popen[bytes], log: Path, token: str) -> str:
    """Where the server answers, once it does."""
    ends = time.monotonic() + START_S
    while time.monotonic() < ends and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\d+/", log.read_text(errors="replace"))
        if found:
            with contextlib.suppress(OSError):  # not up yet: asked again until the deadline, which fails
                urllib.request.urlopen(f"{found[0]}api/status?token={token}", timeout=5).close()
                return found[0]
        time.sleep(0.1)
    raise AssertionError(f"no server; its last words: {log.read_text(errors='replace')[-2000:]}")


@dataclass
class Page:
    """An open notebook: what a person does with it, and what it asked the network for."""

    page: Any
    path: Path
    strangers: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def menu(self, top: str, entry: str) -> None:
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{top}$")).click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^{entry}$")).click()

    def theme(self, name: str) -> None:
        """Change to the "Light" or the "Dark" theme, as a person does."""
        self.page.locator(".lm-MenuBar-itemLabel", has_text="Settings").click()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile("^Theme$")).hover()
        self.page.locator(".lm-Menu-itemLabel", has_text=re.compile(f"^JupyterLab {name}$")).click()
        self.page.locator(f"body[data-jp-theme-light='{'true' if name == 'Light' else 'false'}']").wait_for(
            state="attached", timeout=15_000
        )
        self.page.wait_for_timeout(300)

    def wait_idle(self, timeout_s: float = 60.0) -> None:
        """Until the kernel is there and has nothing to do."""
        self.page.locator(".jp-StatusBar-TextItem", has_text="| Idle").wait_for(timeout=timeout_s * 1000)

    def run_all(self, timeout_s: float = 120.0) -> None:
        """Run every cell and wait until the last one has a number."""
        self.menu("Run", "Run All Cells")
        count = self.page.locator(".jp-CodeCell").count()
        last = self.page.locator(".jp-CodeCell").nth(count - 1).locator(".jp-InputPrompt")
        expect_text(last, re.compile(r"^\[\d+\]:$"), timeout_s)
        self.wait_idle(timeout_s)

    def run_cell(self, number: int, *, wait: bool = True, timeout_s: float = 60.0) -> None:
        """Run one code cell; wait until it has ended unless told not to."""
        cell = self.page.locator(".jp-CodeCell").nth(number)
        cell.locator(".jp-InputPrompt").click()
        self.page.keyboard.press("Control+Enter")
        if wait:
            expect_text(cell.locator(".jp-InputPrompt"), re.compile(r"^\[\d+\]:$"), timeout_s)
            self.wait_idle(timeout_s)

    def output(self, number: int) -> Any:
        return self.page.locator(".jp-CodeCell").nth(number).locator(".jp-OutputArea-output")

    def save(self) -> int:
        """Save the notebook; the size of its file."""
        before = self.path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        ends = time.monotonic() + 15
        while self.path.stat().st_mtime_ns == before and time.monotonic() < ends:
            self.page.wait_for_timeout(100)
        return self.path.stat().st_size

    def picture(self, name: str, number: int | None = None) -> Path:
        """A screenshot of the window, or of one code cell."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        path = PICTURES / f"{name}.png"
        if number is None:
            self.page.screenshot(path=path)
        else:
            self.page.locator(".jp-CodeCell").nth(number).screenshot(path=path)
        return path


def expect_text(locator: Any, pattern: re.Pattern[str], timeout_s: float) -> None:
    from playwright.sync_api import expect

    expect(locator).to_have_text(pattern, timeout=timeout_s * 1000)


@pytest.fixture
def open_notebook(server: Server, browser: Any) -> Iterator[Callable[..., Page]]:
    """open_notebook(name, notebook): the page, with a kernel that is idle."""
    contexts: list[Any] = []
    pages: list[Page] = []

    def opened(name: str, notebook: dict[str, Any]) -> Page:
        path = server.put(name, notebook)
        contexts.append(browser.new_context(viewport=SIZE))
        page = contexts[-1].new_page()
        shown = Page(page, path)
        pages.append(shown)
        local = re.compile(r"^(https?|wss?)://127\.0\.0\.1[:/]|^(data|blob|about):")

        def ask(route: Any) -> None:
            if local.match(route.request.url):
                route.continue_()
            else:
                shown.strangers.append(route.request.url)
                route.abort()

        page.route("**/*", ask)
        page.on("pageerror", lambda error: shown.errors.append(str(error)))
        page.goto(f"{server.url}lab/tree/{name}?token={server.token}&reset")
        page.locator(".jp-Notebook").wait_for(timeout=60_000)
        shown.wait_idle()
        return shown

    yield opened
    for shown in pages:  # what a failed test saw last
        shown.picture(f"last-{shown.path.stem}")
    for context in contexts:
        context.close()
    for kernel in _call(server, "GET", "kernels"):
        _call(server, "DELETE", f"kernels/{kernel['id']}")


def _call(server: Server, method: str, what: str) -> Any:
    request = urllib.request.Request(f"{server.url}api/{what}", method=method, headers={"Authorization": f"token {server.token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read()
    return json.loads(text) if text else None
