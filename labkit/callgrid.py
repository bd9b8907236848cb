"""The picture of calls as a record: a row for each rank, a column for each call of a group, and what is wrong in it.

`diagnosis.grid.call_grid(evidence)` makes it; a view draws it. Rows that are equal stand together from 8 ranks on. Of many
columns those around the trouble and the last ones are kept, and what is left out is counted.
"""

from __future__ import annotations

from .document import Printed
from .wire import Call, Side, record


@record
class Place:
    """What stands in one column of a row: a call, a hole (the rank should have one), or nothing.

    `loud`: the call is the odd one of the column. `is_open`: it has not returned.
    """

    call: Call | None = None
    hole: bool = False
    loud: bool = False
    is_open: bool = False


@record
class Column:
    """One call of a group: the number that most ranks give it, and how many columns before it are left out."""

    seq: int
    left_out: int = 0


@record
class Row:
    """Ranks with the same calls. `shift`: how many calls more than the others (fewer: below 0) they have behind the frame.

    `waited_s`: how long they have waited in this group's call. `end`: why they do not come to it ("left", "dead").
    `num_done` of their `num_calls` calls have returned.
    """

    ranks: tuple[int, ...]
    places: tuple[Place, ...] = ()
    odd: bool = False
    member: bool = True
    num_calls: int = 0
    num_done: int = 0
    shift: int = 0
    waited_s: float = 0.0
    end: str = ""


@record
class CallTrack:
    """The calls of one process group.

    `frame` is the column in which the ranks first disagree, or wait for one (-1: none), `num_agree` the number of columns
    before it. `num_wrong` calls behind it met another call of the others. `by_site`: the columns are aligned by the lines of
    code that the calls come from, not by their numbers.
    """

    group: str
    members: tuple[int, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    frame: int = -1
    num_columns: int = 0
    num_agree: int = 0
    num_wrong: int = 0
    by_site: bool = False


@record
class Message:
    """One send and its recv, as far as they are there. `trouble`: the other half is missing, and a rank waits for it."""

    src: int
    dst: int
    send: Call | None = None
    recv: Call | None = None
    trouble: bool = False
    waited_s: float = 0.0


@record
class MessageTrack:
    """Point-to-point messages in the order of their times; `left_out` earlier ones are not shown."""

    rows: tuple[tuple[int, ...], ...]
    messages: tuple[Message, ...]
    left_out: int = 0


@record
class CallGrid(Printed):
    """Who made which call, and where the ranks first disagree.

    `sentence` is the verdict's, or what is seen where nothing is wrong; `accent` "bad", "wait" or "good". `sides` say who is
    where. `culprits` are the verdict's.
    """

    world_size: int
    sentence: str
    accent: str = "good"
    code: str = ""
    culprits: tuple[int, ...] = ()
    tracks: tuple[CallTrack, ...] = ()
    messages: MessageTrack | None = None
    sides: tuple[Side, ...] = ()
    cells: tuple[int, ...] = ()
    groups_left_out: int = 0

    @property
    def num_calls(self) -> int:
        """Calls of all ranks in all groups, those that are left out included; messages are not counted."""
        return sum(len(row.ranks) * row.num_calls for track in self.tracks for row in track.rows)
