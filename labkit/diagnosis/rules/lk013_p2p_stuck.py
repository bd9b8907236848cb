"""LK013 p2p-stuck."""

from __future__ import annotations

from ...errors import join_ranks
from ...places import cell_name
from ...vocabulary import Standing
from ...wire import Call, Side, Verdict
from .. import words
from ..alignment import Alignment
from ..pairs import other_end, sends
from ..rule import Rule, rule


@rule
class PeerToPeerStuck(Rule):
    """A send or recv (P2P) has no matching call on its peer.

    What: A rank waits to send or receive, and its peer does something else, has finished, or waits the same way.
    Why: Both send first (a gloo send waits for its recv, however small), both receive first, a wrong peer or tag, one message
    more on one side, or an isend whose handle nobody waited for: then the message goes with the handle.
    Evidence: The rank waits in a send or recv for at least 0.3 s, and its peer has no matching one: of this group, with this tag,
    as many as there were before.
    Remedy: Let one side send first and the other receive first, or use isend and irecv, or batch_isend_irecv, and wait for
    each handle.
    """

    code = "LK013"
    name = "p2p-stuck"
    title = "A send or recv has no matching call on its peer"

    def claim(self, world: Alignment) -> Verdict | None:
        stuck = _stuck(world)
        if not stuck:
            return None
        told = _in_one_circle(world, stuck)
        peers = {rank: world.waits[rank].absent for rank in stuck}
        ends = tuple(rank for rank in stuck if not set(peers[rank]) <= set(stuck) or _other_end(world, rank) is not None)
        ranks = ends or stuck
        involved = [rank for one in ranks for rank in (one, *peers[one], *_seekers(world, one))]
        culprits = _odd_tags(world, ranks) or tuple(sorted(set(involved)))
        return self.say(
            world,
            told or _one_by_one(world, ranks, stuck) + ("" if ends else ": a deadlock"),
            culprits,
            sides=words.wait_sides(world, world.waits) + _gone(world, culprits),
            fix=_fix(world, ranks),
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


def _in_one_circle(world: Alignment, stuck: tuple[int, ...]) -> str:
    """Every rank sends, or every rank receives, at one line; "" if it is not so."""
    calls = [world.waits[rank].call for rank in stuck]
    first = calls[0]
    alike = len({(call.op, call.path, call.tag, call.group) for call in calls}) == 1 and len(stuck) > 2
    if not alike or any(not set(world.waits[rank].absent) <= set(stuck) for rank in stuck):
        return ""
    waited = "all wait" if any(world.waits[rank].live for rank in stuck) else "all waited"
    missing, way = ("nobody receives", "to") if sends(first) else ("nobody sends", "from")
    peers = ", ".join(f"rank {rank} {way} rank {world.waits[rank].call.root}" for rank in stuck)
    return f"{join_ranks(stuck)} {waited} in {first.op}{words.at(first.site)}, and {missing} ({peers}): a deadlock"


def _one_by_one(world: Alignment, ranks: tuple[int, ...], stuck: tuple[int, ...]) -> str:
    said, told = [], set()
    for rank in ranks:
        peer = world.waits[rank].call.root
        if (peer, rank) in told:
            continue  # said from the other end
        if _other_end(world, rank) is not None:
            told.add((rank, peer))
        said.append(words.in_call(world, (rank,), world.waits[rank].call) + _but(world, rank, stuck))
    return "; ".join(said)


def _other_end(world: Alignment, rank: int) -> Call | None:
    """What the peer has with another tag, or in another group, in place of the partner."""
    call = world.waits[rank].call
    return None if _partner(world, rank) is not None else other_end(world.calls, world.partners, rank, call)


def _partner(world: Alignment, rank: int) -> Call | None:
    found = world.partners.get((rank, world.waits[rank].call.index))
    return found[1] if found is not None else None


def _but(world: Alignment, rank: int, stuck: tuple[int, ...]) -> str:
    call, peers, partner = world.waits[rank].call, world.waits[rank].absent, _partner(world, rank)
    if partner is not None:
        return (
            f", and nobody waited for the handle of rank {peers[0]}'s asynchronous {words.placed(partner)}: "
            "when the handle goes, its message goes with it"
        )
    if call.root < 0:
        return _from_nobody(world, rank)
    other = _other_end(world, rank)
    if other is not None:
        its = f"rank {call.root}'s {words.placed(other)}"
        if other.group != call.group:
            return f", and {its} is in {_group(other)}, not in {_group(call)}"
        none, its_none = (", with tag 0" if not one.tag else "" for one in (call, other))
        return f"{none}, and {its}{its_none} does not fit: the tags do not match"
    outside = tuple(peer for peer in peers if peer not in stuck)
    if len(peers) != 1 or not outside:
        return ""
    seekers = _seekers(world, rank)
    also = f"; {words.wait_text(world, seekers)}: perhaps one of them has the wrong peer" if seekers else ""
    met = _met(world, rank)
    after = f" after {met} {'message' if met == 1 else 'messages'} that went over" if met else ""
    if peers[0] in world.waits:
        return f"{after}, but {words.in_call(world, peers, world.waits[peers[0]].call)}{also}"
    return f"{after}, but {join_ranks(peers)} has finished {cell_name(world.focus)}{also}"


def _from_nobody(world: Alignment, rank: int) -> str:
    """Of a receive from any rank: how many came, and what the others do instead of sending."""
    came = sum(one == rank and not sends(its) for one, its in _received(world))
    after = f" after {came} {'message' if came == 1 else 'messages'} that came in" if came else ""
    gone = tuple(each for each in world.views if each != rank and each not in world.waits)
    rest = tuple(each for each in world.waits if each != rank)
    does = [f"{words.verb(gone, 'has', 'have')} finished {cell_name(world.focus)}"] if gone else []
    does += [words.wait_text(world, rest)] if rest else []
    return f"{after}, and nobody sends to it: {' and '.join(does)}" if does else after


def _received(world: Alignment) -> list[tuple[int, Call]]:
    """Ranks with a call of theirs that has its partner."""
    return [(rank, call) for rank, line in world.calls.items() for call in line if (rank, call.index) in world.partners]


def _seekers(world: Alignment, rank: int) -> tuple[int, ...]:
    """Other ranks than the peer that wait for this rank the other way."""
    call = world.waits[rank].call
    return tuple(
        other
        for other, wait in world.waits.items()
        if wait.call.p2p and wait.call.root == rank and sends(wait.call) != sends(call) and other != call.root
    )


def _group(call: Call) -> str:
    return "the world's group" if call.group == "world" else f"process group {call.group}"


def _fix(world: Alignment, ranks: tuple[int, ...]) -> str:
    if any(_partner(world, rank) is not None for rank in ranks):
        return "Keep the handle that isend or irecv gives, and call its wait()"
    if any(world.waits[rank].call.root < 0 for rank in ranks):
        return "Receive as many messages as are sent"
    others = [(world.waits[rank].call, other) for rank in ranks if (other := _other_end(world, rank)) is not None]
    if any(call.group != other.group for call, other in others):
        return "Give the send and the recv the same group"
    if others:
        return "Give the send and the recv the same tag, and receive in the order in which the messages are sent"
    return "Pair each send with a recv, one side sending first (or use batch_isend_irecv)"


def _odd_tags(world: Alignment, ranks: tuple[int, ...]) -> tuple[int, ...]:
    """The ranks whose tag is another than that of most ranks at the same line; () if the tags do not differ so."""
    ends = [(rank, world.waits[rank].call, other) for rank in ranks if (other := _other_end(world, rank)) is not None]
    odd = set()
    for rank, call, other in ends:
        for who, one in ((rank, call), (call.root, other)):
            line = (one.path, one.op, one.cell)
            alike = {r: c.tag for r, calls in world.calls.items() for c in calls if c.p2p and (c.path, c.op, c.cell) == line}
            if 2 * sum(tag == one.tag for tag in alike.values()) < len(alike):
                odd.add(who)
    return tuple(sorted(odd)) if len(odd) == 1 else ()


def _met(world: Alignment, rank: int) -> int:
    """How many messages went over before the one that this rank waits for, the same way."""
    call = world.waits[rank].call
    return sum(
        one == rank and peer == call.root and sends(its) != sends(call) for (one, _), (peer, its) in world.partners.items()
    )


def _gone(world: Alignment, culprits: tuple[int, ...]) -> tuple[Side, ...]:
    gone = tuple(rank for rank in culprits if rank not in world.waits)
    return (words.side(world.evidence, gone, f"finished {cell_name(world.focus)}", None),) if gone else ()
