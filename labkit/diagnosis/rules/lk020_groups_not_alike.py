"""LK020 groups-not-alike."""

from __future__ import annotations

from ...errors import join_ranks
from ...makings import OF_MEMBERS, as_written, makes_group
from ...vocabulary import CallState, Standing
from ...wire import Call, Side, Verdict
from .. import ways, words
from ..alignment import Alignment
from ..makings import Uneven, uneven
from ..rule import Rule, rule


@rule
class GroupsNotAlike(Rule):
    """The ranks do not make the same process groups.

    What: new_group (or split_group, new_subgroups, init_device_mesh) is called by some ranks only, with other members, or more
    often on some ranks.
    Why: A group made inside of `if rank in members`; each rank makes only its own group; a list of ranks that differs.
    Evidence: The makings of the ranks side by side, by the number that torch gives each. Nobody may wait yet: the next group that
    all ranks make never forms.
    Remedy: Make every group on every rank, members or not, in one order and with one list of ranks.
    """

    code = "LK020"
    name = "groups-not-alike"
    title = "Ranks do not make the same process groups"
    priority = 8

    def claim(self, world: Alignment) -> Verdict | None:
        found = uneven(world)
        if found is None or not _is_felt(world, found):
            return None
        waiting = tuple(rank for rank, wait in world.waits.items() if makes_group(wait.call))
        refused = any(wait.call.state == CallState.REFUSED for wait in world.waits.values())
        waits = "" if refused else words.wait_text(world, waiting or world.waits)
        return self.say(
            world,
            f"{_text(world, found)}{f'; {waits}' if waits else ''}",
            _culprits(found),
            sides=(*_sides(world, found), *words.wait_sides(world, _not_shown(world, found))),
            next_step=f"{_fix(world, found)}. {_after(world, found)}",
            facts=_facts(world),
            ending=words.ending(world, {rank: wait.call for rank, wait in world.waits.items()}),
        )


def _is_felt(world: Alignment, found: Uneven) -> bool:
    """Somebody waits because of it, or the cell in which it happened is over."""
    here = any(call.cell == world.focus for call in found.column.values())
    if not world.waits:
        return world.over and here
    waits_in_making = any(makes_group(wait.call) for wait in world.waits.values())
    if found.differ:
        in_group = any(wait.call.group.startswith(f"{found.number} (") for wait in world.waits.values())
        return (here or waits_in_making or in_group) and world.stalled(tuple(world.waits))
    # the others may still come, or something else keeps them from it: then that is what has to be said
    late = [world.standing(rank) for rank in found.others if found.call(rank) is None]
    never = all(standing in (Standing.FINISHED, Standing.WAITING, Standing.UNASKED) for standing in late)
    return never and waits_in_making and world.stalled(tuple(world.waits))


def _culprits(found: Uneven) -> tuple[int, ...]:
    tie = len(found.ranks) == len(found.others)
    if tie and (found.kind != "extra" or len(found.ranks) == 1):  # of two halves, the one that made a group for itself is wrong
        return tuple(sorted((*found.ranks, *found.others)))
    return min(found.ranks, found.others, key=lambda ranks: (len(ranks), ranks != found.ranks))


# ---- the sentence
def _text(world: Alignment, found: Uneven) -> str:
    match found.kind:
        case "extra":
            return _extra(world, found)
        case "own":
            return f"each rank made only the group that it is in: {_by_side(found)}, and to torch that is one and the same group"
        case "lists":
            return f"the ranks give one call different lists of ranks: {_by_side(found)}"
        case "order":
            return f"the ranks give the members in different orders: {_by_side(found)}"
        case _:
            return f"the ranks make their groups in different orders: {_by_side(found)}"


def _extra(world: Alignment, found: Uneven) -> str:
    call = found.column[found.ranks[0]]
    nexts = [one for rank in found.others if (one := found.call(rank)) is not None]
    only = "only " if len(found.ranks) <= len(found.others) else ""
    text = f"{only}{join_ranks(found.ranks)} called {_placed(call)}, and {join_ranks(found.others)} did not"
    if nexts:
        why = "torch finds the members of a group by how many groups each rank has made, so they do not find each other any more"
        return f"{text}: the next group of {join_ranks(found.others)} is {_placed(nexts[0])}, and {why}"
    return text if world.waits else f"{text}: the next group that all ranks make will never form"


def _placed(call: Call) -> str:
    return as_written(call) + words.at(call.site)


def _by_line(found: Uneven) -> list[tuple[tuple[int, ...], Call]]:
    """The ranks that make one group at one line, and their call."""
    sides: dict[object, list[int]] = {}
    for rank, call in sorted(found.column.items()):
        sides.setdefault((call.op, call.group_ranks, call.site), []).append(rank)
    return [(tuple(ranks), found.column[ranks[0]]) for ranks in sides.values()]


def _by_side(found: Uneven) -> str:
    return ", ".join(f"{join_ranks(ranks)} called {_placed(call)}" for ranks, call in _by_line(found))


# ---- what to do, and what was seen
IN_ONE_ORDER = "Let every rank make the same groups in one order, also those that it is not in"
_ALL = "Call it on every rank in the same order, also on ranks that are not members"
_FIX = {
    "extra": f"{_ALL}: take it out of the branch",
    "others": IN_ONE_ORDER,
    "own": "Let every rank make all groups in one loop and keep the one that it is in (or pass use_local_synchronization=True)",
    "lists": "Give every rank the same list of ranks",
    "order": "Give every rank the members in the same order",
}


def _fix(world: Alignment, found: Uneven) -> str:
    meshes = {call.asked for call in found.column.values() if "mesh" in call.asked.lower()}
    if meshes and found.kind in ("lists", "own", "order"):
        return f"Give {meshes.pop()} the same shape on every rank"
    if any(call.group == OF_MEMBERS for call in found.column.values()) and found.kind == "extra":
        return "Let every rank make the same number of groups: call it on all ranks, without use_local_synchronization"
    if found.kind == "extra" and found.differ and not _in_branch(world, found):
        return IN_ONE_ORDER
    return _FIX.get(found.kind, _ALL)


def _in_branch(world: Alignment, found: Uneven) -> bool:
    """A branch or loop leads to the group that only some make, and not to what the others make instead."""
    call, other = (next((c for r in ranks if (c := found.call(r)) is not None), None) for ranks in (found.ranks, found.others))
    return call is not None and other is not None and bool(ways.decided_by(world, call, other)) and call.site != other.site


def _after(world: Alignment, found: Uneven) -> str:
    if found.done and not any(wait.live for wait in world.waits.values()):
        return "world.recover() forms new groups on all ranks."
    return words.after_fixing(world)


def _sides(world: Alignment, found: Uneven) -> tuple[Side, ...]:
    return tuple(words.side(world.evidence, ranks, f"called {as_written(call)}", call.site) for ranks, call in _by_line(found))


def _not_shown(world: Alignment, found: Uneven) -> tuple[int, ...]:
    return tuple(rank for rank, wait in world.waits.items() if found.call(rank) is not wait.call)


def _facts(world: Alignment) -> tuple[str, ...]:
    counts = ", ".join(f"rank {rank}: {sum(map(makes_group, calls))}" for rank, calls in sorted(world.calls.items()))
    return (f"groups made: {counts}",)
