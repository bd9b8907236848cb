"""LK013 p2p-stuck."""

from __future__ import annotations

from ...errors import join_ranks
from ...wire import Side, Verdict
from .. import words
from ..layout import Alignment
from ..rule import Rule, rule


@rule
class PeerToPeerStuck(Rule):
    """A send or recv has nobody at its other end.

    What: A rank waits to send or receive, and its peer does something else, has finished, or waits the same way.
    Why: Both send first (a gloo send waits for its recv, however small), both receive first, or a wrong peer.
    Evidence: The rank waits in a send or recv for at least 0.3 s, and its peer has no matching one open.
    Remedy: Let one side send first and the other receive first, or use isend and irecv, or batch_isend_irecv.
    """

    code = "LK013"
    name = "p2p-stuck"
    title = "A send or recv has no partner"

    def claim(self, world: Alignment) -> Verdict | None:
        if world.cause != "p2p":
            return None
        peers = {rank: world.waits[rank].absent for rank in world.ranks}
        root = tuple(rank for rank in world.ranks if not all(_held(world, peer) for peer in peers[rank]))
        ranks = root or world.ranks
        culprits = tuple(sorted({*ranks, *(peer for rank in ranks for peer in peers[rank])}))
        said = "; ".join(words.in_call(world, (rank,), world.waits[rank].call) + _but(world, rank) for rank in ranks)
        return self.say(
            f"{said}.",
            culprits=culprits,
            waiting=words.others_waiting(world, culprits),
            sides=words.wait_sides(world, world.waits) + _gone(world, culprits),
            next_step="Pair each send with a recv, one side sending first (or use batch_isend_irecv). " + words.now(world),
            facts=words.last_calls(world, (r for r in culprits if r not in world.waits)) + words.wait_facts(world),
        )


def _held(world: Alignment, rank: int) -> bool:
    """The peer itself is stuck in a send or recv, so it is not the end of the chain."""
    return rank in world.ranks


def _but(world: Alignment, rank: int) -> str:
    peers = world.waits[rank].absent
    outside = tuple(peer for peer in peers if peer not in world.ranks)
    if len(peers) != 1 or not outside:
        return ""
    if peers[0] in world.waits:
        return f", but {words.in_call(world, peers, world.waits[peers[0]].call)}"
    return f", but {join_ranks(peers)} has finished cell {world.focus}"


def _gone(world: Alignment, culprits: tuple[int, ...]) -> tuple[Side, ...]:
    gone = tuple(rank for rank in culprits if rank not in world.waits)
    return (words.side(world.evidence, gone, f"finished cell {world.focus}", None),) if gone else ()
