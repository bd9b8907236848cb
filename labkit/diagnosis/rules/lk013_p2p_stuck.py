"""LK013 p2p-stuck."""

from __future__ import annotations

from ...errors import join_ranks
from ...vocabulary import Standing
from ...wire import Side, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule


@rule
class PeerToPeerStuck(Rule):
    """A send or recv (P2P) has no matching call on its peer.

    What: A rank waits to send or receive, and its peer does something else, has finished, or waits the same way.
    Why: Both send first (a gloo send waits for its recv, however small), both receive first, or a wrong peer.
    Evidence: The rank waits in a send or recv for at least 0.3 s, and its peer has no matching one open.
    Remedy: Let one side send first and the other receive first, or use isend and irecv, or batch_isend_irecv.
    """

    code = "LK013"
    name = "p2p-stuck"
    title = "A send or recv has no matching call on its peer"

    def claim(self, world: Alignment) -> Verdict | None:
        stuck = _stuck(world)
        if not stuck:
            return None
        peers = {rank: world.waits[rank].absent for rank in stuck}
        ends = tuple(rank for rank in stuck if not set(peers[rank]) <= set(stuck))  # of the chains of waits
        ranks = ends or stuck
        culprits = tuple(sorted({*ranks, *(peer for rank in ranks for peer in peers[rank])}))
        said = "; ".join(words.in_call(world, (rank,), world.waits[rank].call) + _but(world, rank, stuck) for rank in ranks)
        return self.say(
            world,
            said if ends else f"{said}: a deadlock",
            culprits,
            sides=words.wait_sides(world, world.waits) + _gone(world, culprits),
            fix="Pair each send with a recv, one side sending first (or use batch_isend_irecv)",
            facts=words.last_calls(world, (rank for rank in culprits if rank not in world.waits)),
        )


def _stuck(world: Alignment) -> tuple[int, ...]:
    """The ranks in a send or recv without a matching call on the peer, if no other rank is missing."""
    gone = world.absent(Standing.FINISHED) if not world.algorithm else ()
    waiting = world.waiting_for(gone)
    if not gone and world.absent(Standing.WAITING):
        waiting = tuple(rank for rank, wait in world.waits.items() if wait.absent)
    stuck = tuple(rank for rank in waiting if world.waits[rank].call.p2p)
    beside_collective = gone and len(stuck) < len(waiting)
    return stuck if world.stalled(waiting) and not beside_collective else ()


def _but(world: Alignment, rank: int, stuck: tuple[int, ...]) -> str:
    peers = world.waits[rank].absent
    outside = tuple(peer for peer in peers if peer not in stuck)
    if len(peers) != 1 or not outside:
        return ""
    if peers[0] in world.waits:
        return f", but {words.in_call(world, peers, world.waits[peers[0]].call)}"
    return f", but {join_ranks(peers)} has finished cell {world.focus}"


def _gone(world: Alignment, culprits: tuple[int, ...]) -> tuple[Side, ...]:
    gone = tuple(rank for rank in culprits if rank not in world.waits)
    return (words.side(world.evidence, gone, f"finished cell {world.focus}", None),) if gone else ()
