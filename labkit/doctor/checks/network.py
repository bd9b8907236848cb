"""Network interfaces for gloo and NCCL, and whether this machine can stand for several hosts."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence

from ...machine import interfaces
from ..base import Context, Finding, check
from ..facts import ask, python

# ---- gloo_interface
SLOW_S = 1.0

Interfaces = Mapping[str, Sequence[str]]


def loopback(there: Interfaces) -> str | None:
    """The name of the loopback interface."""
    return next((name for name, addresses in there.items() if "127.0.0.1" in addresses), None)


def judge_gloo_interface(
    asked: str | None, there: Interfaces, resolved: Sequence[str], usable: str | None, took_s: float = 0.0
) -> Finding:
    """`asked`: GLOO_SOCKET_IFNAME; `resolved`: addresses of our own name; `usable`: the first we can bind to.

    gloo takes the interfaces it is told; else the address our host name resolves to, if that is ours;
    else loopback.
    """
    facts = {"asked": asked, "interfaces": tuple(there), "resolved": tuple(resolved), "address": usable, "resolve_s": took_s}
    names = [name.strip() for name in (asked or "").split(",") if name.strip()]
    absent = [name for name in names if name not in there]
    up = ", ".join(name for name, addresses in there.items() if addresses) or "none"
    if absent:
        step = f"unset GLOO_SOCKET_IFNAME on one machine, or name one of: {up}"
        return Finding("fail", f"GLOO_SOCKET_IFNAME names {', '.join(absent)}, which is not up here", step, facts)
    bare = [name for name in names if not there[name]]
    if bare:
        step = f"give it one, or name one of: {up}"
        return Finding("fail", f"GLOO_SOCKET_IFNAME names {', '.join(bare)}, which has no address", step, facts)
    home = loopback(there)
    if home is None:
        return Finding("fail", "there is no loopback interface that is up", "ip link set lo up, as administrator", facts)
    if names:
        return Finding("ok", f"{', '.join(names)}, by GLOO_SOCKET_IFNAME", facts=facts)
    if usable is None:
        why = "resolves to addresses that are not ours" if resolved else "does not resolve"
        step = f"export GLOO_SOCKET_IFNAME={home}, or add the host name to /etc/hosts"
        return Finding("warn", f"the host name {why}; gloo falls back to {home}", step, facts)
    name = next((name for name, addresses in there.items() if usable in addresses), None)
    name = home if name is None and usable.startswith("127.") else name
    text = f"{name or 'an interface'} ({usable}), from the host name"
    if took_s > SLOW_S:
        step = f"export GLOO_SOCKET_IFNAME={home} for one machine"
        return Finding("warn", f"{text}, which took {took_s:.1f} s to resolve", step, facts)
    return Finding("ok", text, facts=facts)


def _resolve() -> tuple[list[str], str | None, float]:
    """Addresses of our own name, the first of them that can be bound, and the seconds it took."""
    began = time.monotonic()
    found: list[str] = []
    usable = None
    with contextlib.suppress(OSError):
        for family, kind, _, _, address in socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM):
            found.append(str(address[0]))
            with contextlib.suppress(OSError), socket.socket(family, kind) as one:
                one.bind(address)
                usable = usable or found[-1]
    return found, usable, round(time.monotonic() - began, 3)


@check("gloo_interface", "Network for gloo", order=40)
def check_gloo_interface(context: Context) -> Finding:
    found, usable, took_s = _resolve()
    return judge_gloo_interface(context.env.get("GLOO_SOCKET_IFNAME"), interfaces(), found, usable, took_s)


# ---- nccl_interface
def matching(asked: str, there: Sequence[str]) -> list[str]:
    """The interfaces NCCL would take: prefixes, "=" for exact names, "^" to leave out.

    >>> matching("eth", ["lo", "eth0", "eth1"]), matching("=eth0", ["eth0", "eth01"]), matching("^lo,docker", ["lo", "eth0"])
    (['eth0', 'eth1'], ['eth0'], ['eth0'])
    """
    without = asked.startswith("^")
    rest = asked[1:] if without else asked
    exact = rest.startswith("=")
    names = [name.strip() for name in (rest[1:] if exact else rest).split(",") if name.strip()]

    def hit(name: str) -> bool:
        return name in names if exact else any(name.startswith(prefix) for prefix in names)

    return [name for name in there if hit(name) != without]


def judge_nccl_interface(asked: str | None, there: Mapping[str, Sequence[str]]) -> Finding:
    facts = {"asked": asked, "interfaces": tuple(there)}
    if not asked:
        return Finding("ok", "NCCL chooses by itself (NCCL_SOCKET_IFNAME is not set)", facts=facts)
    taken = matching(asked, list(there))
    if not taken:
        step = f"unset it, or name one of: {', '.join(there) or 'none is up'}"
        return Finding("fail", f"NCCL_SOCKET_IFNAME={asked} matches no interface that is up", step, facts)
    return Finding("ok", f"{', '.join(taken)}, by NCCL_SOCKET_IFNAME={asked}", facts=facts)


@check("nccl_interface", "Network for NCCL", order=41)
def check_nccl_interface(context: Context) -> Finding:
    return judge_nccl_interface(context.env.get("NCCL_SOCKET_IFNAME"), interfaces())


# ---- hosts
_ASK = "from labkit.hosts import Shape, why_not; print(why_not(Shape('200mbit')))"


def judge_hosts(asked: bool, reason: str) -> Finding:
    """`reason`: why hosts can't be made, "" if they can; or, if it could not be `asked`, what went wrong."""
    facts = {"asked": asked, "reason": reason}
    if asked and not reason:
        return Finding("ok", "network namespaces can stand for hosts: labkit.start(4, hosts=2)", facts=facts)
    return Finding("note", f"{reason}; labs that measure hosts show a recording", facts=facts)


@check("hosts", "Several hosts", order=52, deadline_s=12)
def check_hosts(context: Context) -> Finding:
    answer = ask(python(_ASK), context.env, 10.0, context.stop)
    if answer.code or answer.late:
        return judge_hosts(False, f"it could not be found out ({answer.complaint()})")
    return judge_hosts(True, answer.out.strip())
