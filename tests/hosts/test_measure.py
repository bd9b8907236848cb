"""Hosts measured live, and the recording where they are not allowed."""

from __future__ import annotations

import pytest

from labkit import cli
from labkit.driver import spaces
from labkit.driver.start import start
from labkit.errors import UsageError
from labkit.hosts import measure, recorded, report
from labkit.hosts.measure import RATE
from labkit.schedule.sweeps import Sweep
from labkit.testing import Script

reason = spaces.why_not()
needs_hosts = pytest.mark.skipif(bool(reason), reason=reason or "hosts can be made")


def test_where_hosts_are_not_allowed_there_is_a_recording_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "NEEDED", ("labkit-has-no-such-tool",))
    found = measure()
    assert found.reason == "labkit-has-no-such-tool is not installed (iproute2 and util-linux have them)"
    assert found.source is not None
    assert "not run here" in str(found)


def test_the_recording_is_whole() -> None:
    found = recorded()
    assert (found.num_hosts, found.ranks_per_host, found.rate) == (2, 2, RATE)
    assert 1 << 20 in found.sizes
    assert found.slower(1 << 20) > 5
    assert found.gain(found.comparisons[-1]) > 1.2
    assert "/" not in str(found.source).replace("GB/s", "")  # no machine's paths or names


@needs_hosts
def test_a_delay_that_can_not_be_made_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "TUN", "/nowhere/tun")
    monkeypatch.setattr(spaces, "has_netem", lambda: False)
    assert "no netem, and you may not open /nowhere/tun" in measure(delay="1ms").reason
    assert spaces.why_not(spaces.Shape("1gbit")) == ""


@pytest.mark.gloo
@needs_hosts
def test_measured_live() -> None:
    found = measure(sizes=[4096, 65536, 1 << 20], compared=[1 << 20], rounds=3)
    assert (found.reason, found.source) == ("", None)
    assert found.sizes == (4096, 65536, 1 << 20)
    assert found.slower(1 << 20) > 4
    assert found.gain(found.comparisons[0]) > 1.15
    assert 5 < 1e-6 / found.topology.across.beta_s_per_byte * 8 / 20 < 15  # 200 Mbit/s


def test_an_interrupt_in_a_sweep_is_the_end_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with Script(4).world() as world:
        monkeypatch.setattr(type(world), "hosts", (0, 0, 1, 1))
        monkeypatch.setattr(type(world), "sweep", lambda *_, **__: Sweep("gloo", 2, (), 1, interrupted=True), raising=False)
        with pytest.raises(KeyboardInterrupt):
            report(world, say=said.append)
    assert said == ["measuring inside a host"]


@pytest.mark.gloo
@needs_hosts
def test_what_it_needs() -> None:
    with start(2, "gloo") as world:
        assert measure(sizes=[4096], compared=[4096], rounds=1).reason == ""  # beside a world that runs
        assert world.run_cell("dist.barrier()").ok
        with pytest.raises(UsageError, match="on each of two hosts"):
            report(world)


@pytest.mark.gloo
@needs_hosts
def test_the_command_sweeps_on_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    asked = "bench --ranks 4 --hosts 2 --rate 200mbit --members 0,2 --sizes 1M --rounds 3 --csv"
    assert cli.main(asked.split()) == 0
    assert "all_reduce,all_reduce,2,1048576" in capsys.readouterr().out


@pytest.mark.parametrize(("options", "says"), [("--members a", "ranks can't be 'a'"), ("--hosts two", "must be a number")])
def test_what_the_command_refuses(options: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", *options.split()]) == 2
    assert says in capsys.readouterr().err
