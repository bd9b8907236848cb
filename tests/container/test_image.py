"""The image, built from the product's own Dockerfile and run with compose.yaml's own settings."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from labkit.labrecord import LabRecord, shortcomings
from labkit.wire import loads

pytestmark = [pytest.mark.container, pytest.mark.timeout(3600)]
LAB = "01-every-rank-the-same"

# Runs in the container and says what it finds.
LOOK = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status").read().splitlines() if ":\\t" in line)

def writable(folder):
    try:
        open(os.path.join(folder, ".probe"), "w").close()
    except OSError as error:
        return error.strerror
    os.unlink(os.path.join(folder, ".probe"))
    return "yes"

shm = os.statvfs("/dev/shm")
print(json.dumps({
    "ids": [os.getuid(), os.getgid()],
    "capabilities": [int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
    "no_new_privileges": status["NoNewPrivs"].strip(),
    "seccomp": status["Seccomp"].strip(),
    "first": open("/proc/1/comm").read().strip(),
    "shm": shm.f_blocks * shm.f_frsize,
    "writable": {folder: writable(folder) for folder in ("/", "/etc", "/opt/labkit", "/opt/labkit/.venv", "/home/lab", "/tmp")},
}))
"""
COMPILED = """
import importlib.util, json, pathlib, struct
root = pathlib.Path("/opt/labkit")
stale = []
for path in [*root.glob("labkit/**/*.py"), *root.glob(".venv/lib/python*/site-packages/torch/*.py")]:
    cached = pathlib.Path(importlib.util.cache_from_source(str(path)))
    wanted = (int(path.stat().st_mtime) & 0xFFFFFFFF, path.stat().st_size & 0xFFFFFFFF)
    if not cached.exists() or struct.unpack("<4xIII", cached.read_bytes()[:16]) != (0, *wanted):
        stale.append(str(path))
print(json.dumps(stale))
"""
# A world in the background, as a learner's kernel has one when the container is stopped.
WORLD = "import labkit, time; world = labkit.start(ranks=2); open('/tmp/started', 'w').close(); time.sleep(600)"


@pytest.fixture(scope="module")
def home(yard: Any) -> Iterator[str]:
    with yard.volume() as name:
        yield name


@pytest.fixture(scope="module")
def box(yard: Any, home: str) -> Iterator[Any]:
    """A container that the tests look at and leave as it is."""
    with yard.run(home) as running:
        print(f"JupyterLab answered after {running.wait():.1f} s")
        yield running


def test_compose_files_fit_the_schema_of_compose(validator: Path, tmp_path: Path) -> None:
    def check(*files: Path) -> subprocess.CompletedProcess[str]:
        command = [validator, "--builtin-schema", "vendor.compose-spec", *files]
        return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)

    docker = Path(__file__).resolve().parent.parent.parent / "docker"
    good = check(docker / "compose.yaml", docker / "compose.gpu.yaml")
    assert good.returncode == 0, good.stdout
    wrong = tmp_path / "compose.yaml"
    wrong.write_text((docker / "compose.yaml").read_text().replace("read_only:", "readonly:"))
    assert check(wrong).returncode == 1


def test_the_image_is_for_an_ordinary_user_and_holds_no_secret(yard: Any) -> None:
    [image] = json.loads(yard.engine.podman("image", "inspect", yard.image))
    assert image["Config"]["User"] == "1000:1000"
    assert image["Healthcheck"]["Test"] == ["CMD", "labkit", "doctor"]
    variables = {entry.partition("=")[0] for entry in image["Config"]["Env"]}
    assert variables == {"PATH", "HOME", "LANG", "JUPYTER_PREFER_ENV_PATH"}
    print(f"the image has {image['Size'] / 1e9:.2f} GB")


def outside_of_ours(yard: Any, image: str) -> dict[str, str]:
    """Each file that is neither labkit's nor the system's, with its checksum; an engine writes the excluded ones at start."""
    script = "find / -xdev -type f ! -path '/opt/*' ! -path '/usr/[!l]*' ! -path '/usr/lib/*' ! -path '/proc/*' ! -path '/dev/*'"
    script += " ! -path /etc/hosts ! -path /etc/hostname ! -path /etc/resolv.conf ! -path '/run/.container*' -exec sha256sum {} +"
    options = ["--rm", "--user=0", "--no-healthcheck", "--network=none", "--entrypoint=/bin/sh"]
    lines = yard.engine.podman("run", *options, image, "-c", script).splitlines()
    return {path: checksum for checksum, path in (line.split(None, 1) for line in lines)}


def test_what_the_build_was_given_is_not_in_the_image(yard: Any) -> None:
    before, after = outside_of_ours(yard, yard.base), outside_of_ours(yard, yard.image)
    changed = {path for path in after if before.get(path) != after[path]}
    accounts = {f"/etc/{name}{end}" for name in ("passwd", "group", "shadow", "gshadow", "subuid", "subgid") for end in ("", "-")}
    logs = {f"/var/log/{name}" for name in ("lastlog", "faillog")}
    home = {path for path in after if path.startswith("/home/lab/.")}
    assert changed <= accounts | logs | home
    assert {path.rpartition("/")[2] for path in home} <= {".bashrc", ".profile", ".bash_logout"}
    assert len(after) > 100


def test_the_image_holds_what_runs_and_no_more(yard: Any) -> None:
    script = "ls -A /opt/labkit; ls .venv/bin | grep -E '^(mypy|ruff|playwright|uv|pip)$'; true"
    options = ["--rm", "--no-healthcheck", "--network=none", "--workdir=/opt/labkit"]
    found = yard.engine.podman("run", *options, yard.image, "sh", "-c", script).split()
    assert sorted(found) == [".venv", "LICENSE", "labkit", "labs", "start"]


def test_without_the_token_nothing_is_served(box: Any) -> None:
    assert box.get("/api/kernels")[0] == 403
    assert box.get("/api/kernels", token="wrong")[0] == 403
    status, target = box.get("/lab")
    assert (status, target.split("?")[0]) == (302, "/login")
    assert box.get("/api/kernels", token=box.token) == (200, "[]")
    assert box.get("/lab", token=box.token)[0] == 200


def test_a_request_to_another_name_is_refused(box: Any) -> None:
    assert box.get("/api/kernels", token=box.token, host="elsewhere.example")[0] == 403


def test_the_port_is_open_on_this_machine_only(box: Any) -> None:
    assert box.engine.podman("port", box.name) == f"8888/tcp -> 127.0.0.1:{box.port}"


def test_the_container_is_hardened(box: Any) -> None:
    seen = json.loads(box.inside("python", "-c", LOOK))
    assert seen.pop("first") not in ("python", "jupyter", "sh")
    assert seen.pop("seccomp") == "2"
    assert seen == {
        "ids": [1000, 1000],
        "capabilities": [0, 0, 0, 0, 0],
        "no_new_privileges": "1",
        "shm": 2**30,
        "writable": {
            "/": "Read-only file system",
            "/etc": "Read-only file system",
            "/opt/labkit": "Read-only file system",
            "/opt/labkit/.venv": "Read-only file system",
            "/home/lab": "yes",
            "/tmp": "yes",
        },
    }


def test_everything_is_compiled(box: Any) -> None:
    assert json.loads(box.inside("python", "-c", COMPILED)) == []


def test_the_doctor_finds_it_healthy(box: Any) -> None:
    report = json.loads(box.inside("labkit", "doctor", "--json"))
    assert report["ok"], report
    began_s = time.monotonic()
    box.engine.podman("healthcheck", "run", box.name)  # what an engine does by its clock
    print(f"the health check took {time.monotonic() - began_s:.1f} s")
    assert time.monotonic() - began_s < 60


def test_jupyterlab_asks_nobody_for_news(box: Any) -> None:
    settings = box.inside("cat", "/opt/labkit/.venv/share/jupyter/lab/settings/overrides.json")
    assert json.loads(settings)["@jupyterlab/apputils-extension:notification"] == {"fetchNews": "false", "checkForUpdates": False}


def test_the_labs_lie_in_the_home(box: Any) -> None:
    names = {entry["name"] for entry in json.loads(box.get("/api/contents/labs", token=box.token)[1])["content"]}
    assert {"index.ipynb", f"{LAB}.ipynb"} <= names
    assert "END SOLUTION" not in box.inside("cat", f"labs/{LAB}.ipynb")


def test_a_lab_runs_inside_and_its_record_proves_it(box: Any) -> None:
    folder = "/home/lab/checked"
    box.inside(
        "sh", "-c", f"mkdir {folder} && cp /opt/labkit/labs/{LAB}.ipynb {folder}/ && echo '[pytest]' > {folder}/pytest.ini"
    )
    command = f"cd {folder} && python -m pytest -c pytest.ini --rootdir . -p no:cacheprovider -q --nbval-lax --nbval-current-env"
    command += f" --nbval-cell-timeout 120 --junitxml cells.xml {LAB}.ipynb"
    settings = {"LABKIT_RECORD": f"{folder}/records", "LABKIT_RANKS": "2"}
    box.inside("sh", "-c", command, env=settings, timeout_s=400)
    cells = list(ElementTree.fromstring(box.inside("cat", f"{folder}/cells.xml")).iter("testcase"))
    assert len(cells) > 10
    record = loads(box.inside("cat", f"{folder}/records/{LAB}.json"))
    assert isinstance(record, LabRecord)
    assert (record.lab, record.world_size, record.num_processes) == (LAB, 2, 2)
    assert shortcomings(record, ["swapped-order"]) == ()
    assert len(set(record.processes)) == len(record.processes) > 2


def test_a_second_start_keeps_the_learners_work(yard: Any) -> None:
    with yard.volume() as home:
        with yard.run(home) as first:
            first.wait()
            first.inside("sh", "-c", f"cd labs && echo mine > index.ipynb && rm {LAB}.ipynb && echo note > my-own.txt")
        with yard.run(home) as second:
            second.wait()
            assert "kept" in second.log()
            assert second.inside("cat", "labs/index.ipynb", "labs/my-own.txt") == "mine\nnote"
            assert second.inside("ls", f"labs/{LAB}.ipynb")


@pytest.mark.parametrize("given", [None, ""], ids=["none", "empty"])
def test_without_a_token_one_is_made_up_and_printed(yard: Any, home: str, given: str | None) -> None:
    with yard.run(home, JUPYTER_TOKEN=given) as running:
        running.wait()
        printed = re.search(r"[?&]token=([0-9a-f]{32,})", running.log())
        assert printed
        assert running.get("/api/kernels")[0] == 403
        assert running.get("/api/kernels", token=printed[1])[0] == 200


def test_it_stops_within_seconds_and_takes_its_world_along(yard: Any, home: str) -> None:
    with yard.run(home) as running:
        running.wait()
        running.engine.podman("exec", "--detach", running.name, "python", "-c", WORLD)
        running.inside("sh", "-c", "until [ -e /tmp/started ]; do sleep 0.2; done")
        elapsed_s, code = running.stop()
    print(f"it stopped in {elapsed_s:.1f} s")
    assert elapsed_s < 10
    assert code in (0, 143)


def test_a_home_that_cant_be_written_is_named(yard: Any) -> None:
    options = ["--rm", "--read-only", "--no-healthcheck", "--network=none"]
    done = yard.engine.call("podman", "run", *options, yard.image, check=False)
    assert done.returncode == 1
    assert "can't write in /home/lab; give it a volume" in done.stderr


def test_another_command_runs_instead(yard: Any) -> None:
    assert yard.engine.podman("run", "--rm", "--no-healthcheck", "--network=none", yard.image, "labkit", "faults")
