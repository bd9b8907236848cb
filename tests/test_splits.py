"""Splits of an all-to-all, compared pair by pair."""

from __future__ import annotations

from dataclasses import replace

from labkit.rank.contract import difference, fingerprint
from labkit.splits import misfit_text, misfits, suspects
from labkit.wire import Call, loads

MEMBERS = (1, 3, 4)


def column(*splits: tuple[int, ...]) -> dict[int, Call]:
    call = Call(1, 1, "all_to_all_single", group="2 (1, 3, 4)", group_ranks=MEMBERS)
    return {rank: replace(call, splits=one) for rank, one in zip(MEMBERS, splits, strict=False)}


FIT = ((1, 2, 3, 1, 4, 0), (4, 0, 1, 2, 0, 6), (0, 6, 2, 3, 1, 2))


def test_what_fits_is_no_misfit() -> None:
    assert misfits(column(*FIT)) == ()
    assert misfit_text(column(*FIT)) == ""
    assert misfits(column(FIT[0])) == ()  # the others have not come
    assert misfits(column(FIT[0], (), FIT[2])) == ()  # a rank whose splits are not known


def test_a_misfit_is_told_with_the_ranks_of_the_world() -> None:
    wrong = column(FIT[0], FIT[1], (0, 6, 2, 3, 2, 2))
    assert misfit_text(wrong) == "rank 3 gives rank 4 1 row, and rank 4 takes 2 from rank 3"
    assert suspects(misfits(wrong)) == (3, 4)


def test_the_rank_in_every_misfit_is_the_suspect() -> None:
    assert suspects(misfits(column(FIT[0], FIT[1], (0, 6, 2, 4, 2, 2)))) == (4,)


def test_safe_mode_compares_what_travels() -> None:
    wrong = column(FIT[0], FIT[1], (0, 6, 2, 3, 2, 2))
    travelled = {rank: loads(fingerprint(call)) for rank, call in wrong.items()}
    assert misfit_text(wrong) in difference(travelled)
    assert difference({rank: loads(fingerprint(call)) for rank, call in column(*FIT).items()}) == ""
