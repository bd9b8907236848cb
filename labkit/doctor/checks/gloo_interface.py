"""Which network interface will gloo use, and does it exist?"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Mapping, Sequence

from ..base import Context, Finding, check
from ..system import interfaces

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
def run(context: Context) -> Finding:
    found, usable, took_s = _resolve()
    return judge_gloo_interface(context.env.get("GLOO_SOCKET_IFNAME"), interfaces(), found, usable, took_s)
