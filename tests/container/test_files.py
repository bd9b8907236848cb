"""What the container's files promise, read from the files: no engine is needed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

DOCKER = Path(__file__).resolve().parent.parent.parent / "docker"
FILES = ("Dockerfile", "start", "compose.yaml", "compose.gpu.yaml")
# Loopback and "all of the container's own interfaces" are no addresses of anything outside.
ADDRESS = re.compile(
    r"\w+://|\b(?!127\.0\.0\.1\b|0\.0\.0\.0\b)\d{1,3}(?:\.\d{1,3}){3}\b|\b[\w-]+\.(?:com|org|io|net|dev)\b(?!\.)"
)
SECRET = re.compile(
    r"(?i)\b(?:ARG|ENV)\s[^\n]*(?:token|secret|passw|api_?key)|(?:token|secret|passw\w*|api_?key)\s*[=:]\s*['\"]?[\w+/-]{6,}"
)


def read(name: str) -> str:
    return (DOCKER / name).read_text()


def instructions(text: str) -> list[tuple[str, str]]:
    """The Dockerfile's instructions, each on one line, comments left out."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(word.upper(), " ".join(rest.split())) for word, _, rest in (line.partition(" ") for line in joined.splitlines())]


def service(name: str = "compose.yaml") -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(read(name))["services"]["lab"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_no_file_holds_an_address_or_a_secret(name: str) -> None:
    text = read(name).replace("org.opencontainers.", "")
    assert ADDRESS.findall(text) == []
    assert SECRET.findall(text) == []


@pytest.mark.parametrize("text", ["see https" + "://x", "pull ghcr" + ".io/a", "at 10.0" + ".0.1", "pypi" + ".org"])
def test_an_address_is_caught(text: str) -> None:
    assert ADDRESS.search(text)


@pytest.mark.parametrize("text", ["ENV JUPYTER_TOKEN=x", "ARG PASSWORD", "token: 0123abcd", 'API_KEY="abcdefgh"'])
def test_a_secret_is_caught(text: str) -> None:
    assert SECRET.search(text)


def test_the_image_runs_as_an_ordinary_user_and_asks_the_doctor() -> None:
    found = instructions(read("Dockerfile"))
    last = found[max(index for index, (word, _) in enumerate(found) if word == "FROM") :]
    users = [rest for word, rest in last if word == "USER"]
    assert users == ["1000:1000"]
    after = [word for word, _ in last[last.index(("USER", users[0])) :]]
    assert not {"RUN", "COPY", "ADD"} & set(after)
    [check] = [rest for word, rest in found if word == "HEALTHCHECK"]
    assert json.loads(check.partition("CMD ")[2]) == ["labkit", "doctor"]


def test_both_stages_start_from_the_base_that_was_asked_for() -> None:
    found = instructions(read("Dockerfile"))
    assert found[0][0] == "ARG"
    assert found[0][1].startswith("BASE_IMAGE=")
    assert [rest for word, rest in found if word == "FROM"] == ["${BASE_IMAGE} AS install", "${BASE_IMAGE} AS lab"]


def test_the_dockerfile_needs_no_buildkit_and_fetches_only_through_the_setup_script() -> None:
    text = "\n".join(rest for word, rest in instructions(read("Dockerfile")) if word in ("RUN", "COPY", "ADD"))
    assert not re.search(r"--(?:mount|chmod|link|network|security)\b|<<", text)
    assert not re.search(r"\b(?:curl|wget|apt-get|pip3? install|git)\b", text)
    assert "python3 scripts/setup lab" in text


def test_the_context_is_a_list_of_what_goes_in() -> None:
    lines = [line for line in (DOCKER.parent / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert lines[0] == "*"
    allowed = [line[1:] for line in lines if line.startswith("!")]
    assert [name for name in allowed if not (DOCKER.parent / name).exists()] == []
    asked = [rest.split()[:-1] for word, rest in instructions(read("Dockerfile")) if word == "COPY" and "--from" not in rest]
    assert {name for names in asked for name in names} == set(allowed)


def test_the_port_is_published_on_this_machine_only() -> None:
    ports = service()["ports"]
    assert ports
    assert all(str(port).startswith("127.0.0.1:") for port in ports)
    assert "network_mode" not in service()


def test_compose_hardens_the_container() -> None:
    lab = service()
    assert (lab["read_only"], lab["init"], lab["user"]) == (True, True, "1000:1000")
    assert lab["cap_drop"] == ["ALL"]
    assert lab["security_opt"] == ["no-new-privileges"]
    assert not {"cap_add", "privileged", "devices", "pid", "ipc"} & set(lab)
    assert lab["shm_size"] == "1g"
    assert [entry.partition(":")[0] for entry in lab["tmpfs"]] == ["/tmp"]
    assert lab["volumes"] == ["home:/home/lab"]
    assert "home" in yaml.safe_load(read("compose.yaml"))["volumes"]
    assert lab["mem_limit"]
    assert lab["pids_limit"]


def test_compose_refuses_to_start_without_a_token() -> None:
    assert service()["environment"]["JUPYTER_TOKEN"].startswith("${LABKIT_TOKEN:?")


def test_the_gpu_file_only_adds() -> None:
    more = yaml.safe_load(read("compose.gpu.yaml"))
    assert set(more) == {"services"}
    assert set(more["services"]) == {"lab"}
    assert not set(service("compose.gpu.yaml")) & set(service())
    [device] = service("compose.gpu.yaml")["deploy"]["resources"]["reservations"]["devices"]
    assert device == {"driver": "nvidia", "count": "${LABKIT_GPUS:-all}", "capabilities": ["gpu"]}


def lab_options(text: str) -> dict[str, str]:
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    return dict(word.lstrip("-").split("=", 1) for word in words if re.match(r"--\w+\.\w+=", word))


def test_jupyterlab_is_started_as_scripts_lab_does() -> None:
    outside = lab_options((DOCKER.parent / "scripts" / "lab").read_text())
    inside = lab_options(read("start"))
    places = {"ServerApp.root_dir", "LabApp.default_url", "ServerApp.allow_remote_access"}
    assert {name: inside.get(name) for name in outside if name not in places} == {
        name: value for name, value in outside.items() if name not in places
    }
    assert set(inside) - set(outside) <= places
    assert inside["ServerApp.allow_remote_access"] == "False"
