"""Makings compared across ranks: by function, members and torch's number."""

from __future__ import annotations

from dataclasses import replace

from labkit.makings import OF_ALL, OF_MEMBERS, makings_text, takes_part
from labkit.rank.contract import difference, fingerprint
from labkit.wire import Call, CallSite, loads

PAIR = Call(1, 1, "new_group", OF_ALL, (0, 1), site=CallSite("cell 3", 4))


def test_the_same_group_is_no_difference() -> None:
    assert makings_text({0: PAIR, 1: replace(PAIR, index=9, site=CallSite("cell 3", 9))}) == ""
    alone = replace(PAIR, group_ranks=(0,))
    assert makings_text({0: alone, 1: replace(alone, group_ranks=(1,))}) == ""


def test_other_members_and_other_numbers_are() -> None:
    other = makings_text({0: PAIR, 1: PAIR, 2: replace(PAIR, group_ranks=(0, 2))})
    assert "ranks 0 and 1: new_group([0, 1]) (cell 3, line 4); rank 2: new_group([0, 2])" in other
    assert "as group number 2" in makings_text({0: PAIR, 1: replace(PAIR, seq=2)})


def test_safe_mode_compares_what_travels() -> None:
    column = {0: PAIR, 1: replace(PAIR, group_ranks=(1, 0))}
    travelled = {rank: loads(fingerprint(call)) for rank, call in column.items()}
    assert difference(travelled) == makings_text(column) != ""


def test_who_takes_part() -> None:
    assert takes_part(PAIR, 3) == (0, 1, 2)
    assert takes_part(replace(PAIR, group=OF_MEMBERS), 3) == (0, 1)
