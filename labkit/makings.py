"""The making of a process group, as a call: what new_group, split_group and what is made of them leave in the beacon.

torch finds the ranks that make one group together by a number: each rank counts the groups it makes, and a rank that has made one
more looks for its partners under another number from then on. So the number of such a call is torch's own (`Call.seq`), and its
`group_ranks` are the members of the new group.
"""

from __future__ import annotations

from .wire import Call

OF_ALL = "new groups"  # every rank of the world has to make them, members or not
OF_MEMBERS = "new groups of members"  # use_local_synchronization=True, and split_group: only members take part
MAKERS = ("new_group", "split_group")
ENDED = "destroy_process_group"  # of all groups
BEGUN = "init_process_group"


def makes_group(call: Call) -> bool:
    """The call makes a process group.

    >>> makes_group(Call(1, 1, "new_group")), makes_group(Call(1, 1, "all_reduce"))
    (True, False)
    """
    return call.op in MAKERS


def is_about_groups(call: Call) -> bool:
    """The call makes or ends groups, and moves no data of the learner's."""
    return call.op in MAKERS or call.op in (ENDED, BEGUN)


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
    asked = getattr(call, "asked", "")
    return f"{text} in {asked}" if asked else text
