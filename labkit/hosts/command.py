"""`labkit hosts up` makes hosts and holds them until it ends; `labkit hosts down` ends those of every `up`."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from ..errors import LabkitError


def add_options(commands: argparse.ArgumentParser, parser_class: type[argparse.ArgumentParser]) -> None:
    """The two subcommands."""
    parts = commands.add_subparsers(metavar="up|down", required=True, parser_class=parser_class)
    up = parts.add_parser("up", help="make hosts and hold them until Ctrl-C")
    up.add_argument("--hosts", type=int, default=2, metavar="N", help="how many (default: 2)")
    up.add_argument("--rate", default="", metavar="RATE", help="of each host's link, both ways: 1gbit, 200mbit")
    up.add_argument("--delay", default="", metavar="TIME", help="from a host to another, one way: 2ms")
    up.set_defaults(run=run_up)
    down = parts.add_parser("down", help="end the hosts of every 'labkit hosts up' of yours")
    down.set_defaults(run=run_down)


def run_up(options: argparse.Namespace) -> int:
    """Make hosts, say how to use them, and hold them. They go when this process ends, however it ends."""
    from ..driver.spaces import Hosts, Shape, wait

    def leave(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with Hosts(options.hosts, Shape(options.rate, options.delay), lasting=True) as hosts:
            for number in range(options.hosts):
                _say(f"host {number}: {hosts.address(number)}; {' '.join(hosts.command(number))} COMMAND")
            _say("up until Ctrl-C, or 'labkit hosts down'")
            wait(hosts)
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    _say("hosts are down")
    return 0


def run_down(options: argparse.Namespace) -> int:
    """End every holder of this user's; its `up` sees it and ends as well."""
    ended = end_all()
    _say(f"ended {ended} {'host' if ended == 1 else 'hosts'}" if ended else "no hosts are up")
    return 0


def end_all() -> int:
    """End the holders of hosts, bridges and relays, each by its pid; how many hosts there were."""
    import psutil

    from ..driver.spaces import MARK

    found, hosts = [], 0
    for process in psutil.process_iter():
        try:
            mark = process.environ().get(MARK, "")
            if process.uids().real == os.getuid() and '"lasting": true' in mark:
                process.terminate()
                found.append(process)
                hosts += '"kind": "host"' in mark
        except psutil.Error:
            continue
    _, left = psutil.wait_procs(found, timeout=5)
    if left:
        raise LabkitError(f"{len(left)} namespaces are still held", hint="try again, or end their processes yourself")
    return hosts


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
