"""A cell as a script: what is written, that it gives the same numbers, and that a stuck one is ended."""

from __future__ import annotations

import ast
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from labkit.driver.current import HOLDER
from labkit.driver.start import start
from labkit.driver.world import World
from labkit.errors import NoWorld, UsageError
from labkit.instruments import scripts


@pytest.mark.parametrize(("backend", "device"), [("gloo", "'cpu'"), ("nccl", "'cuda', dist.get_node_local_rank()")])
def test_a_script_is_plain_torch(backend: str, device: str) -> None:
    source = scripts.make_script("x = torch.ones(4)\n", variable="x", ranks=2, backend=backend, name="a.py")
    text = ast.unparse(ast.parse(source))
    assert f"torch.device({device})" in text
    assert f"init_process_group('{backend}'" in text
    assert "labkit" not in source


def test_braces_in_a_cell_stay() -> None:
    source = scripts.make_script('d = {"a": 1}; x = f"{rank}"', variable="x", ranks=2)
    assert 'd = {"a": 1}; x = f"{rank}"' in source


def test_without_a_world_there_is_no_cell() -> None:
    with pytest.raises(NoWorld):
        scripts.torchrun("x")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start(2, "gloo") as running:
        yield running
    HOLDER.drop_server()


@pytest.mark.gloo
def test_a_script_gives_the_numbers_of_the_cell(world: World) -> None:
    world.run_cell("x = torch.full((2,), float(rank + 1))\ndist.all_reduce(x)")
    number = world.cell
    world.run_cell("y = 1")
    run = scripts.torchrun("x", cell=number)
    assert run.ok, run.output
    assert run.values == {"0": (3.0, 3.0), "1": (3.0, 3.0)}
    assert f"cell_{number}.py" in repr(run)


@pytest.mark.gloo
def test_a_script_that_raises_says_so(world: World) -> None:
    world.run_cell("x = torch.ones(1)")
    run = scripts.torchrun("nowhere")
    assert not run.ok
    assert "NameError" in run.output
    assert run.values == {}


@pytest.mark.gloo
def test_a_cell_that_is_not_there_and_a_name_that_is_none(world: World) -> None:
    with pytest.raises(UsageError, match="no rank cell 999"):
        scripts.torchrun("x", cell=999)
    world.run_cell("x = torch.ones(1)")
    with pytest.raises(UsageError, match="is not a variable name"):
        scripts.torchrun("x.y")


@pytest.mark.gloo
def test_a_stuck_script_is_ended_with_its_workers(tmp_path: Path) -> None:
    (tmp_path / "stuck.py").write_text(
        "import os, pathlib, time\npathlib.Path(f'pid-{os.environ[\"RANK\"]}').write_text(str(os.getpid()))\ntime.sleep(600)\n"
    )
    started = time.monotonic()
    exit_code, _ = scripts.run_for(["--standalone", "--nproc-per-node", "2", "stuck.py"], tmp_path, 15.0)
    pids = [int(path.read_text()) for path in tmp_path.glob("pid-*")]
    assert exit_code is None
    assert len(pids) == 2
    assert [pid for pid in pids if psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE] == []
    assert time.monotonic() - started < 30
