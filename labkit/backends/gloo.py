"""gloo: on the CPU, over TCP. A call returns when it is done, and a wait ends when a connection does."""

from __future__ import annotations

from collections.abc import Sequence

from ..devices import Gpu
from .base import BACKENDS, Backend


class Gloo(Backend):
    """A wait inside gloo ends only when its peer answers, dies or closes the connection.

    A wait that is cut while its messages flow can be lost, and its rank with it: of recoveries from a loop of collectives
    every tenth to fourth had to replace a rank.
    """

    name = "gloo"
    interface_variable = "GLOO_SOCKET_IFNAME"
    aborts_on_long_message = True
    drain_before_release = True

    def suits(self, num_ranks: int, gpus: Sequence[Gpu], share_gpu: bool) -> bool:
        """Everywhere."""
        return True


GLOO = BACKENDS.add(Gloo.name, Gloo())
