"""Builds the image and runs it as compose would, with buildah and podman; all they keep lies under build/container.

`make test-container` runs this lane. It needs root, Debian's packages and some 25 GB of disk for the first
build; elsewhere its tests say why they are skipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import json
import os
import re
import resource
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent.parent
COMPOSE = ROOT / "docker" / "compose.yaml"
STORE = ROOT / "build" / "container"
# What a base image must have: Python with the module venv, certificates, and what Debian calls minimal.
SUITE = os.environ.get("LABKIT_TEST_SUITE", "bookworm")
PACKAGES = "ca-certificates,python3,python3-venv"
NEEDED_BYTES = 25e9  # both stages, and each of them once more while it is committed
TOOLS = {"buildah": "buildah", "podman": "podman", "mmdebstrap": "mmdebstrap", "runc": "runc", "iptables": "iptables"}
HELPERS = {
    "netavark": ("/usr/lib/podman/netavark", "/usr/libexec/podman/netavark"),
    "catatonit": ("/usr/bin/catatonit", "/usr/libexec/podman/catatonit"),
}
RUN_MARK = "LABKIT_TEST_RUN"  # given to the container as well, so that a process that outlives it is found


def missing() -> str:
    """Why the lane can't run here, or nothing."""
    packages = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    packages += [package for package, places in HELPERS.items() if not any(map(os.path.exists, places))]
    if packages:
        return f"the container lane needs {', '.join(packages)}; on Debian: apt-get install {' '.join(packages)}"
    if os.geteuid() != 0:
        return "the container lane makes a base image and a network, so it runs as root only"
    return ""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = re.search(r"(?<!not )\bcontainer\b", config.getoption("markexpr") or "")
    reason = missing() if asked else "it takes minutes and many GB: `make test-container` runs it"
    for item in items:
        if reason and item.get_closest_marker("container"):
            item.add_marker(pytest.mark.skip(reason=reason))


def resolve(text: str, given: Mapping[str, str]) -> str:
    """Fill in ${NAME}, ${NAME:-default} and ${NAME:?message} as compose does; KeyError if a required one is missing."""

    def fill(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if given.get(name):
            return given[name]
        if kind == ":-":
            return str(rest)
        raise KeyError(f"{name}: {rest}")

    return re.sub(r"\$\{(\w+)(?:(:[-?])([^}]*))?\}", fill, text)


def podman_options(service: Mapping[str, Any], volume: str) -> list[str]:
    """compose's settings as podman's options: what is tested is what is shipped. A setting unknown here is an error."""
    options = []
    for key, value in service.items():
        match key:
            case "image" | "build":
                continue
            case "environment":
                options += [f"--env={name}={text}" for name, text in value.items()]
            case "ports":
                options += [f"--publish={port}" for port in value]
            case "volumes":
                options += [f"--volume={entry.replace('home:', f'{volume}:', 1)}" for entry in value]
            case "tmpfs" | "cap_drop" | "security_opt":
                options += [f"--{key.replace('_', '-')}={entry}" for entry in value]
            case "init" | "read_only":
                options += [f"--{key.replace('_', '-')}={str(value).lower()}"]
            case "user" | "shm_size":
                options += [f"--{key.replace('_', '-')}={value}"]
            case "mem_limit" | "pids_limit":
                options += [f"--{key.replace('_', '-').replace('mem-limit', 'memory')}={value}"]
            case "stop_grace_period":
                options += [f"--stop-timeout={value.removesuffix('s')}"]
            case _:
                raise AssertionError(f"compose.yaml sets {key}, which this lane does not know")
    return options


@dataclass
class Engine:
    """buildah and podman with a storage of their own, so that nothing of the machine's is touched."""

    store: Path

    def __post_init__(self) -> None:
        self.store.mkdir(parents=True, exist_ok=True)
        files, processes = resource.getrlimit(resource.RLIMIT_NOFILE)[1], resource.getrlimit(resource.RLIMIT_NPROC)[1]
        limits = [
            f"{name}={most}:{most}" for name, most in [("nofile", _at_most(files, 20000)), ("nproc", _at_most(processes, 32768))]
        ]
        (self.store / "containers.conf").write_text(
            f"[containers]\ndefault_ulimits = {json.dumps(limits)}\n"
            '[network]\nnetwork_backend = "netavark"\n'
            f'network_config_dir = "{self.store}/networks"\n'
            '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\nlock_type = "file"\n'
            f'tmp_dir = "{self.store}/run/libpod"\n'
        )
        # A build takes the machine's certificates as they are mounted; uv looks at them only if it is told to.
        (self.store / "uv.toml").write_text("system-certs = true\n")

    def call(self, tool: str, *words: str, timeout_s: float = 120.0, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run buildah or podman; at the deadline everything that it started ends with it."""
        storage = ["--root", str(self.store / "storage"), "--runroot", str(self.store / "run"), "--storage-driver", "overlay"]
        command = ["nice", tool, *storage, *words]
        environment = {**os.environ, "CONTAINERS_CONF": str(self.store / "containers.conf"), "BUILDAH_ISOLATION": "chroot"}
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, start_new_session=True, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            out, err = process.communicate(timeout=timeout_s)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        done = subprocess.CompletedProcess(command, process.returncode, out, err)
        assert not check or done.returncode == 0, (
            f"{tool} {' '.join(words[:3])} ended with {done.returncode}:\n{out[-3000:]}\n{err[-3000:]}"
        )
        return done

    def podman(self, *words: str, timeout_s: float = 120.0) -> str:
        """What podman answers."""
        return self.call("podman", *words, timeout_s=timeout_s).stdout.strip()

    def has(self, image: str) -> bool:
        return self.call("podman", "image", "exists", image, check=False).returncode == 0

    def identity(self, image: str) -> str:
        return self.call("podman", "image", "inspect", "--format={{.Id}}", image, check=False).stdout.strip()

    def base(self) -> str:
        """An image of Debian's Python, made once from Debian's packages."""
        name = f"localhost/labkit-base:{SUITE}-{hashlib.sha256(PACKAGES.encode()).hexdigest()[:8]}"
        if self.has(name):
            return name
        archive = self.store / "base.tar"
        made = subprocess.run(
            ["nice", "mmdebstrap", "--quiet", "--variant=minbase", f"--include={PACKAGES}", SUITE, archive],
            check=False, capture_output=True, text=True, timeout=900,
        )  # fmt: skip
        assert made.returncode == 0, made.stderr[-3000:]
        container = self.call("buildah", "from", "scratch").stdout.strip()
        self.call("buildah", "add", "--quiet", container, str(archive), "/")
        self.call("buildah", "config", "--cmd", '["python3"]', container)
        self.call("buildah", "commit", "--quiet", "--rm", container, name)
        archive.unlink()
        return name

    def build(self, base: str) -> str:
        """The image, from the Dockerfile as it is. What lies around the build is mounted, and stays out of the image."""
        name, install = "localhost/labkit:test", "localhost/labkit-install:test"
        if not self.has(install):
            free = shutil.disk_usage(self.store).free
            if free < NEEDED_BYTES:
                pytest.skip(f"the first build needs {NEEDED_BYTES / 1e9:.0f} GB of disk, {free / 1e9:.0f} GB are free")
        uv = subprocess.run([sys.executable, "scripts/setup", "uv"], cwd=ROOT, check=True, capture_output=True, text=True)
        cache = subprocess.run([uv.stdout.strip(), "cache", "dir"], check=True, capture_output=True, text=True).stdout.strip()
        Path(cache).mkdir(parents=True, exist_ok=True)
        mounts = [f"--volume={path}:{path}:ro" for path in ("/etc/ssl/certs", "/etc/pip.conf") if Path(path).exists()]
        mounts += [f"--volume={self.store}/uv.toml:/etc/uv/uv.toml:ro", f"--volume={cache}:/var/cache/uv"]
        bud = ["bud", "--pull-never", "--format=docker", "--layers", f"--build-arg=BASE_IMAGE={base}", "--file=docker/Dockerfile"]
        # The first stage alone needs what is mounted. It gets a name, so that pruning keeps it for the next build.
        before = self.identity(install)
        self.call("buildah", *bud, *mounts, "--target=install", f"--tag={install}", ".", timeout_s=3000)
        if before != self.identity(install):
            self.call("buildah", "rmi", "--force", name, check=False)  # it can't be used again, and is big
            self.call("buildah", "rmi", "--prune")
        self.call("buildah", *bud, f"--tag={name}", ".", timeout_s=3000)
        self.call("buildah", "rmi", "--prune")
        return name


def _at_most(limit: int, most: int) -> int:
    return most if limit == resource.RLIM_INFINITY else min(limit, most)


@dataclass(frozen=True)
class Box:
    """A container that runs."""

    engine: Engine
    name: str
    port: int
    token: str

    def inside(self, *command: str, env: Mapping[str, str] | None = None, timeout_s: float = 120.0) -> str:
        """Run a command in the container, as its user."""
        options = [f"--env={name}={value}" for name, value in (env or {}).items()]
        return self.engine.podman("exec", *options, self.name, *command, timeout_s=timeout_s)

    def get(self, path: str, token: str = "", host: str = "") -> tuple[int, str]:
        """Status and body (or where a redirect leads) of a GET from this machine."""
        headers = {"Host": host or f"127.0.0.1:{self.port}"}
        if token:
            headers["Authorization"] = f"token {token}"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
            return answer.status, answer.getheader("Location") or body
        finally:
            connection.close()

    def wait(self, deadline_s: float = 60.0) -> float:
        """Until JupyterLab answers; the seconds that it took."""
        began_s = time.monotonic()
        while time.monotonic() - began_s < deadline_s:
            with contextlib.suppress(OSError):  # not up yet: asked again until the deadline, which fails
                if self.get("/login")[0] == 200:
                    return time.monotonic() - began_s
            time.sleep(0.1)
        raise AssertionError(f"no answer in {deadline_s:.0f} s; the log says:\n{self.log()[-3000:]}")

    def log(self) -> str:
        done = self.engine.call("podman", "logs", self.name, check=False)
        return done.stdout + done.stderr

    def stop(self) -> tuple[float, int]:
        """Stop it as `docker compose stop` would: seconds, exit code."""
        began_s = time.monotonic()
        self.engine.podman("stop", self.name)
        elapsed_s = time.monotonic() - began_s
        return elapsed_s, int(self.engine.podman("inspect", "--format", "{{.State.ExitCode}}", self.name))


@dataclass(frozen=True)
class Yard:
    """Where containers are started from the built image."""

    engine: Engine
    base: str
    image: str

    @contextmanager
    def run(self, volume: str, **environment: str | None) -> Iterator[Box]:
        """A container with compose.yaml's own settings; `environment` changes its variables, None removes one."""
        token = secrets.token_hex(16)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        text = resolve(COMPOSE.read_text(), {"LABKIT_TOKEN": token, "LABKIT_PORT": str(port)})
        service = yaml.safe_load(text)["services"]["lab"]
        merged = {**service["environment"], RUN_MARK: os.environ.get(RUN_MARK, ""), **environment}
        service["environment"] = {name: value for name, value in merged.items() if value is not None}
        name = f"labkit-test-{os.getpid()}-{secrets.token_hex(3)}"
        options = [*podman_options(service, volume), "--detach", f"--name={name}", "--health-interval=disable"]
        try:
            self.engine.podman("run", *options, self.image)
            yield Box(self.engine, name, port, token)
        finally:
            self.engine.call("podman", "rm", "--force", "--time=2", name, check=False)

    @contextmanager
    def volume(self) -> Iterator[str]:
        name = f"labkit-test-{os.getpid()}-{secrets.token_hex(3)}"
        self.engine.podman("volume", "create", name)
        try:
            yield name
        finally:
            self.engine.podman("volume", "rm", "--force", name)


def firewall() -> set[tuple[str, ...]]:
    """The rules and chains of podman's network, each as the words that would make it."""
    found = set()
    for table in ("filter", "nat"):
        done = subprocess.run(["iptables", "--table", table, "--list-rules"], check=True, capture_output=True, text=True)
        found |= {(table, *shlex.split(line)) for line in done.stdout.splitlines() if "NETAVARK" in line}
    return found


def restore_firewall(before: set[tuple[str, ...]]) -> None:
    """podman leaves its empty chains behind; rules first, then the chains that they led to."""
    for table, what, *words in sorted(firewall() - before, key=lambda rule: rule[1] == "-N"):
        undo = {"-A": "-D", "-N": "-X"}[what]
        subprocess.run(["iptables", "--table", table, undo, *words], check=True)


@pytest.fixture(scope="session")
def yard() -> Iterator[Yard]:
    """The image, built; afterwards no container, volume, network or interface may be left."""
    engine = Engine(STORE)
    interfaces, rules = set(os.listdir("/sys/class/net")), firewall()
    base = engine.base()
    yield Yard(engine, base, engine.build(base))
    assert engine.podman("ps", "--all", "--quiet") == ""
    assert engine.podman("volume", "ls", "--quiet") == ""
    assert engine.podman("network", "ls", "--format", "{{.Name}}") == "podman"  # its own, which is only a name
    restore_firewall(rules)
    assert set(os.listdir("/sys/class/net")) <= interfaces


@pytest.fixture(scope="session")
def validator() -> Path:
    """check-jsonschema, pinned, in an environment of its own."""
    pins = Path(__file__).with_name("tools.txt")
    folder = STORE / f"tools-{hashlib.sha256(pins.read_bytes()).hexdigest()[:8]}"
    command = folder / "bin" / "check-jsonschema"
    if not command.exists():
        uv = subprocess.run([sys.executable, "scripts/setup", "uv"], cwd=ROOT, check=True, capture_output=True, text=True)
        made = [uv.stdout.strip(), "venv", "--quiet", "--clear", "--no-project", "--python", sys.executable, str(folder)]
        subprocess.run(made, check=True)
        pip = [uv.stdout.strip(), "pip", "install", "--quiet", "--python", str(folder / "bin" / "python")]
        subprocess.run([*pip, "--require-hashes", "--no-deps", "-r", str(pins)], check=True)
    return command
