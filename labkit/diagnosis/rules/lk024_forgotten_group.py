"""LK024 forgotten-group."""

from __future__ import annotations

from ...errors import join_ranks
from ...makings import makes_group
from ...vocabulary import CallState
from ...wire import Call, Verdict
from .. import words
from ..alignment import Alignment
from ..rule import Rule, rule
from ..source import loop_of, unconditional


@rule
class ForgottenGroup(Rule):
    """The members of a smaller group make a call that has no `group=`, so it waits for all ranks.

    What: Ranks wait in a call of all ranks (or of a larger group), and they are just the members of another group.
    Why: `group=` was left out of a call that only these ranks make; without it the call is one of all ranks.
    Evidence: The ranks in the call are those of a group that exists, the line does not name a group, no other rank has made
    this call, and the line is under a branch (or the others call it there in a group of their own).
    Remedy: Pass the group to the call, so that only its members meet in it.
    """

    code = "LK024"
    name = "forgotten-group"
    title = "A call of a smaller group has no group="
    priority = 9

    def claim(self, world: Alignment) -> Verdict | None:
        return self._left_out(world) or self._of_members(world)

    def _left_out(self, world: Alignment) -> Verdict | None:
        """Some ranks make a call for all ranks at the very line where the others make it for a group."""
        for ranks, call in _together(world):
            mates = [
                other for other in _together(world) if _same_line(other[1], call) and set(ranks) <= set(other[1].group_ranks)
            ]
            if not mates or not world.stalled((*ranks, *mates[0][0])) or set(ranks) & set(mates[0][0]):
                continue
            others, meant = mates[0]
            if len(meant.group_ranks) > len(call.group_ranks) or (call.group != "world" and len(ranks) >= len(others)):
                continue
            if call.group != "world" and any(loop_of(world.evidence, site) for site in call.path):
                continue  # a loop over groups, which has another order there: LK004
            why = "group= is missing" if call.group == "world" else "group= is another one"
            return self.say(
                world,
                f"{words.in_call(world, ranks, call)}, which is a call of {_whom(call)}, and {join_ranks(others)} "
                f"{'makes' if len(others) == 1 else 'make'} it there in {_whom(meant)}: these calls never meet, and most likely "
                f"{why} on {join_ranks(ranks)}",
                ranks,
                sides=words.wait_sides(world, world.waits),
                fix=f"Pass the same group= to this call on {join_ranks(meant.group_ranks)}",
                facts=words.last_calls(world, (*ranks, *others)),
                ending=words.ending(world, {rank: world.waits[rank].call for rank in (*ranks, *others)}),
            )
        return None

    def _of_members(self, world: Alignment) -> Verdict | None:
        """The ranks that wait in a call are just the members of a smaller group."""
        groups = _groups(world)
        for ranks, call in _together(world):
            label = groups.get(ranks)
            if label is None or len(ranks) >= len(call.group_ranks) or (world.agree and not world.stalled(ranks)):
                continue
            if _names_group(world, call) or not _of_these_alone(world, ranks, call):
                continue
            rest = words.wait_text(world, words.others_waiting(world, ranks))
            return self.say(
                world,
                f"{words.in_call(world, ranks, call)}, which is a call of {_whom(call)}{f', while {rest}' if rest else ''}. "
                f"Only {join_ranks(ranks)} made it, just the members of process group {label}: most likely it lacks group=",
                ranks,
                sides=words.wait_sides(world, world.waits),
                fix=f"Pass group= to this call, with the group of {join_ranks(ranks)}",
                facts=(f"process group {label} has the members {', '.join(map(str, ranks))}", *words.last_calls(world, ranks)),
                ending=words.ending(world, {rank: world.waits[rank].call for rank in ranks}),
            )
        return None


def _groups(world: Alignment) -> dict[tuple[int, ...], str]:
    """The groups that exist beside the world's, by their members."""
    made = [call for line in world.calls.values() for call in line if makes_group(call) and call.state == CallState.DONE]
    found = {tuple(sorted(call.group_ranks)): f"{call.seq} ({', '.join(map(str, call.group_ranks))})" for call in made}
    return {members: label for members, label in found.items() if len(members) > 1}


def _together(world: Alignment) -> list[tuple[tuple[int, ...], Call]]:
    """The ranks that wait in one call, made from one line."""
    calls: dict[object, list[int]] = {}
    for rank, wait in sorted(world.waits.items()):
        if not wait.call.p2p and not makes_group(wait.call):
            calls.setdefault((wait.call.group, wait.call.seq, wait.call.op, wait.call.path), []).append(rank)
    return [(tuple(ranks), world.waits[ranks[0]].call) for ranks in calls.values()]


def _same_line(other: Call, call: Call) -> bool:
    return (other.path, other.op) == (call.path, call.op) and other.group != call.group


def _whom(call: Call) -> str:
    return "all ranks" if call.group == "world" else f"process group {call.group}"


def _names_group(world: Alignment, call: Call) -> bool:
    return "group" in world.evidence.source_line(call.site)


def _of_these_alone(world: Alignment, ranks: tuple[int, ...], call: Call) -> bool:
    """No other rank has made the call from there in this group, and the line is not one that every rank passes."""
    others = [one for rank, line in world.calls.items() if rank not in ranks for one in line if one.cell == call.cell]
    here = [one for one in others if one.path == call.path and one.op == call.op]
    if any(one.group == call.group for one in here):
        return False
    return bool(here) or not all(unconditional(world.evidence, site) for site in call.path)
