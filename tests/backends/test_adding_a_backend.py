"""docs/adding-a-backend.md, carried out on a copy of labkit: two files, and every part knows the backend."""

from __future__ import annotations

from pathlib import Path

import pytest

from ..pages import carry_out, copy, run

KNOWN = """
import pytest
from labkit.backends import backend_names, choose, find
from labkit.doctor.checks.software import judge_settings
from labkit.driver.start import make_seats, start
from labkit.errors import UnknownName

# start-up arguments
assert backend_names() == ("auto", "gloo", "mini", "nccl")
assert choose("mini", 3, [], False).name == "mini"
assert choose("auto", 3, [], False).name == "gloo"
with pytest.raises(UnknownName, match="did you mean 'mini'"):
    start(2, "mimi")
# environment and device of a rank
for seat in make_seats(2, "mini", []):
    assert (seat.env["GLOO_SOCKET_IFNAME"], seat.env["MINI_RANKS"], seat.device) == ("lo", "2", "cpu")
assert choose("mini", 3, [], False).host_environment(1) == {"GLOO_SOCKET_IFNAME": "eth0"}
# what recovery and the judge ask
assert find("mini").drain_before_release and find("mini").aborts_on_long_message and not find("mini").returns_at_once
# the doctor
assert judge_settings({"LABKIT_BACKEND": "mini"}).status == "ok"
assert judge_settings({"LABKIT_BACKEND": "mimi"}).next_step == "did you mean mini?"
# release in a rank
import socket
from labkit.rank.backends import make_backend
backend = make_backend("mini")
with socket.create_server(("127.0.0.1", 0)) as server:
    with backend.making_group():
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    assert backend.release(lambda: None) >= 1
    assert far.recv(1) == b""
print("known")
"""

LIVE = """
from labkit.driver.start import start
world = start(3, "mini", deadline_s=5.0)
try:
    assert world.backend == "mini"
    assert [value[0] for value in world.run("all_reduce").values] == [6.0] * 3
    result = world.run_cell("x = rank\\nif rank: dist.all_reduce(torch.ones(4))")
    assert result.diagnosis.verdict.culprits == (0,), result
    report = world.recover()
    assert (report.rung, report.replaced) == ("soft", ()), report
    assert world.pull("x") == {0: 0, 1: 1, 2: 2}
    print("recovered")
finally:
    world.stop()
"""


@pytest.fixture
def tree(root: Path, tmp_path: Path) -> Path:
    made = copy(root, tmp_path, "labkit")
    assert carry_out(root / "docs" / "adding-a-backend.md", made) == ["labkit/backends/mini.py", "labkit/rank/backends/mini.py"]
    return made


def test_every_part_knows_the_backend(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    done = run(tree, "-c", KNOWN)
    assert done.stdout == "known\n", done.stderr


@pytest.mark.gloo
def test_a_world_runs_on_it_and_comes_back_from_a_hang(tree: Path) -> None:
    done = run(tree, "-c", LIVE)
    assert done.stdout == "recovered\n", done.stderr


def test_without_its_second_file_a_rank_says_what_is_missing(tree: Path) -> None:
    (tree / "labkit" / "rank" / "backends" / "mini.py").unlink()
    done = run(tree, "-c", "from labkit.rank.backends import make_backend; make_backend('mini')")
    assert "no backend of a rank 'mini'; there are: gloo, nccl" in done.stderr
