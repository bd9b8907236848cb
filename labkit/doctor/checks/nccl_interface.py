"""Does NCCL_SOCKET_IFNAME match an interface that exists?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..base import Context, Finding, check
from ..system import interfaces


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
def run(context: Context) -> Finding:
    return judge_nccl_interface(context.env.get("NCCL_SOCKET_IFNAME"), interfaces())
