"""Ranks on hosts: they meet over the shaped link, and break, are judged and come back as anywhere."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from labkit.driver import spaces
from labkit.driver.start import start
from labkit.driver.world import World
from labkit.errors import LabkitError, StartError, WorldMismatch
from labkit.hosts import Hosts
from labkit.schedule import ALGORITHMS

reason = spaces.why_not()
pytestmark = [pytest.mark.gloo, pytest.mark.skipif(bool(reason), reason=reason or "hosts can be made")]
LINKS = "import subprocess; links = subprocess.run(['ip', '-brief', 'address'], capture_output=True, text=True).stdout"


@pytest.fixture
def two_hosts() -> Iterator[World]:
    with start(4, "gloo", hosts=2, rate="200mbit") as world:
        yield world


def test_ranks_are_on_their_hosts_and_the_link_is_what_was_asked_for(two_hosts: World) -> None:
    world = two_hosts
    assert world.hosts == (0, 0, 1, 1)
    assert [card.host for card in world.status().cards] == ["host 0", "host 0", "host 1", "host 1"]
    assert world.run_cell(f"{LINKS}\nx = torch.ones(3) * rank; dist.all_reduce(x); assert x[0] == 6, x").ok
    seen = world.pull("links")
    assert [f"10.77.0.{host + 1}/24" in seen[rank] for rank, host in enumerate(world.hosts)] == [True] * 4
    inside_one, over_two = (world.sweep([1 << 20], ranks=[0, other], rounds=3) for other in (1, 2))
    assert inside_one.where == "ranks 0 and 1 of 4, on host 0"
    assert over_two.where == "ranks 0 and 2 of 4, on hosts 0 and 1; links: 200mbit"
    inside, across = inside_one.points[0], over_two.points[0]
    assert 0.018 < across.busbw_gb_per_s < 0.030  # 200 Mbit/s are 0.025 GB/s
    assert inside.busbw_gb_per_s > 4 * across.busbw_gb_per_s
    levels = ALGORITHMS["hierarchical"].schedule(4, ranks_per_host=2)
    compared = world.compare(["ring", levels], num_bytes=1 << 20, rounds=3)
    assert "on hosts 0 and 1; links: 200mbit" in " ".join(str(compared).split())
    flat, hierarchical, _ = compared.timings
    assert flat.median_s > 1.15 * hierarchical.median_s  # 1.5 n against n over the shared link


def test_a_rank_that_dies_is_named_and_comes_back_to_its_host(two_hosts: World) -> None:
    world = two_hosts
    result = world.try_fault("killed", rank=3)
    assert result.diagnosis is not None
    assert result.diagnosis.verdict is not None
    assert (result.diagnosis.verdict.code, result.diagnosis.verdict.culprits) == ("LK001", (3,))
    assert world.recover().replaced == (3,)
    assert world.run_cell(f"{LINKS}\nx = torch.ones(2); dist.all_reduce(x); assert x[0] == 4").ok
    assert "10.77.0.2/24" in world.pull("links")[3]
    world.interrupt()
    assert world.run_cell("dist.barrier()").ok


def test_what_runs_stays_and_stop_takes_the_hosts_away() -> None:
    before = links()
    with start(2, "gloo", hosts=2, placement="cyclic", launcher="subprocess", mode="safe") as world:
        holders = [psutil.Process(pid) for pid in world.core.cluster.layout.pids]  # type: ignore[union-attr]
        assert start(2, hosts=2) is world
        with pytest.raises(WorldMismatch, match="2 hosts, not 3"):
            start(2, hosts=3)
        assert world.run_cell("dist.barrier()").ok
        assert links() == before  # the machine's own network
    assert psutil.wait_procs(holders, timeout=5)[1] == []
    with start(2, "gloo") as plain:
        assert plain.hosts == ()
        assert [card.host for card in plain.status().cards] == ["localhost"] * 2
        with pytest.raises(WorldMismatch, match="no hosts, not 2"):
            start(2, hosts=2)


def test_hosts_that_are_up_are_used_and_left_up() -> None:
    with Hosts(3, lasting=True) as hosts:
        with start(3, "gloo", hosts="up") as world:
            assert world.hosts == (0, 1, 2)
            assert world.run_cell("dist.barrier()").ok
        assert hosts.alive


def test_hosts_that_went_down_are_told_of() -> None:
    hosts = Hosts(2, lasting=True)
    with start(2, "gloo", hosts="up") as world:
        hosts.close()
        world.run_cell("import os; os._exit(1)", 0)
        with pytest.raises(LabkitError, match="hold this world's hosts have exited"):
            world.recover()


@pytest.mark.skipif(bool(spaces.why_not(spaces.Shape("", "1ms"))), reason="links can't be delayed here")
def test_a_wire_that_is_gone_is_told_of() -> None:
    with start(2, "gloo", hosts=2, delay="1ms") as world:
        own = world.core.cluster.layout.own  # type: ignore[union-attr]
        assert own is not None
        if len(own._holders) < 4:
            pytest.skip("this kernel delays links itself")
        own._holders[-1].kill()
        own._holders[-1].wait()
        assert not world.run_cell("dist.barrier()", deadline_s=1.0).ok
        with pytest.raises(StartError, match="hold this world's hosts have exited"):
            world.recover()


@pytest.mark.skipif(bool(spaces.why_not(spaces.Shape("", "1ms"))), reason="links can't be delayed here")
def test_the_wire_of_hosts_that_are_up_is_minded_too() -> None:
    with Hosts(2, spaces.Shape("", "1ms"), lasting=True) as hosts:
        if len(hosts._holders) < 4:
            pytest.skip("this kernel delays links itself")
        with start(2, "gloo", hosts="up") as world:
            layout = world.core.cluster.layout
            assert layout is not None
            layout.check_wire()
            hosts._holders[-1].kill()  # and not waited for: an entry of a process that has ended is no relay
            time.sleep(0.2)
            with pytest.raises(StartError, match="relay between this world's hosts has exited"):
                layout.check_wire()


def test_a_slow_link_is_no_hang() -> None:
    with start(2, "gloo", hosts=2, rate="2mbit") as world:
        run = world.run_schedule("ring", numel=1 << 18)  # 256 KiB of burst, and 1.5 s of sending
        assert run.seconds > 0.8
        assert run.ok, run


def links() -> str:
    return subprocess.run(["ip", "-brief", "link"], capture_output=True, text=True, check=True).stdout


KERNEL = """
import sys, time
from labkit.driver.start import start
world = start(2, "gloo", hosts=2, rate="100mbit", delay=sys.argv[1])
print("up", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("delay", ["", "1ms"])
def test_nothing_is_left_of_a_kernel_that_was_killed(number: signal.Signals, delay: str) -> None:
    if delay and spaces.why_not(spaces.Shape("", delay)):
        pytest.skip("links can't be delayed here")
    kernel = subprocess.Popen([sys.executable, "-c", KERNEL, delay], stdout=subprocess.PIPE, text=True)
    with kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == "up\n"
        started = psutil.Process(kernel.pid).children(recursive=True)
        assert len(started) >= 7 + bool(delay)  # fork server, controller, store, two ranks, three holders
        kernel.send_signal(number)
        kernel.wait(10)
    assert psutil.wait_procs(started, timeout=10)[1] == []
