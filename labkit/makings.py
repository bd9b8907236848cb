"""The making of a process group, as a call: what new_group, split_group and what is made of them leave in the beacon.

torch finds the ranks that make one group together by a number: each rank counts the groups it makes, and a rank that has made one
more looks for its partners under another number from then on. So the number of such a call is torch's own (`Call.seq`), and its
`group_ranks` are the members of the new group.
"""

from __future__ import annotations

from collections.abc import Mapping

from .calls import Sides, sides_by
from .errors import join_ranks
from .wire import Call

OF_ALL = "new groups"  # every rank of the world has to make them, members or not
OF_MEMBERS = "new groups of members"  # use_local_synchronization=True, and split_group: only members take part
OWN = "all groups"  # of one rank: their end, and a new begin
OUTSIDE = "(not a member)"  # of a call on a group that the rank is not in: torch warns and does nothing
MAKERS = ("new_group", "split_group")
ENDED = "destroy_process_group"
BEGUN = "init_process_group"


def makes_group(call: Call) -> bool:
    """The call makes a process group.

    >>> makes_group(Call(1, 1, "new_group")), makes_group(Call(1, 1, "all_reduce"))
    (True, False)
    """
    return call.op in MAKERS


def is_about_groups(call: Call) -> bool:
    """The call makes or ends groups, and moves no data of the learner's."""
    return call.group in (OF_ALL, OF_MEMBERS, OWN)


def takes_part(call: Call, world_size: int) -> tuple[int, ...]:
    """The ranks that must make this group: all ranks of the world, or its members."""
    return call.group_ranks if call.group == OF_MEMBERS else tuple(range(world_size))


def as_written(call: Call) -> str:
    """The making as code: "new_group([0, 3])"; with the function that made it, if that was not the learner's own line.

    >>> as_written(Call(1, 1, "new_group", OF_ALL, (0, 3)))
    'new_group([0, 3])'
    """
    local = ", use_local_synchronization=True" if call.group == OF_MEMBERS and call.op == "new_group" else ""
    text = f"{call.op}({list(call.group_ranks)}{local})" if makes_group(call) else f"{call.op}()"
    return f"{call.asked}, in its {text}" if call.asked else text


def other_makings(column: Mapping[int, Call]) -> Sides:
    """Who makes which group, if the ranks that take part in one making do not all make the same; () if they do.

    >>> a, b = Call(1, 1, "new_group", OF_ALL, (0, 1)), Call(1, 1, "new_group", OF_ALL, (0, 2))
    >>> other_makings({0: a, 1: a, 2: b})
    [(0, 1), (2,)]
    """
    sides = sides_by(column, lambda call: (call.op, call.group, call.seq, call.group_ranks if len(call.group_ranks) > 1 else ()))
    return sides if len(sides) > 1 else []


def makings_text(column: Mapping[int, Call]) -> str:
    """What the ranks make, if not all the same: "ranks 0 and 3: new_group([0, 3]) (cell 1, line 4); ..."; "" else.

    Where some ranks have made more groups before, it says so by torch's numbers.
    """
    sides = other_makings(column)
    counted = len({call.seq for call in column.values()}) > 1
    said = []
    for side in sides:
        call = column[side[0]]
        number = f" as group number {call.seq}" if counted else ""
        said.append(f"{join_ranks(side)}: {as_written(call)}{number}{f' ({call.site})' if call.site else ''}")
    return "; ".join(said)
