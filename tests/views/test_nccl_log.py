"""The view of NCCL's log: the same facts in text and in HTML, pictures with their hosts, and nothing that is not escaped."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import pytest

from labkit.schedule.nccl_log import RECORDINGS, NcclChoice, NcclLink, NcclLog, NcclRing, NcclTree, recorded
from labkit.views import to_html, to_text
from labkit.views.nccl_shapes import MOST_RANKS, ring_picture, tree_picture

PLAIN = "{http://www.w3.org/2000/svg}"


def shapes_of(picture: str, name: str) -> list[ElementTree.Element]:
    return ElementTree.fromstring(picture).findall(f".//{PLAIN}{name}")


def titles(picture: str) -> list[str]:
    return [str(found.text) for found in shapes_of(picture, "title")]


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_recording_says_that_it_was_not_run_by_us(name: str) -> None:
    log = recorded(name)
    for drawn in (to_text(log), to_html(log)):
        assert "a public report, not run by us" in drawn
        assert all(part in drawn for part in log.missing)


def test_text_and_html_have_the_same_choices() -> None:
    log = recorded("two-sockets")
    drawn, text = to_html(log), to_text(log)
    for cell in ("1 KiB to 16 KiB", "32 KiB to 128 MiB", "56 KiB to 80 KiB", "84 KiB to 128 KiB"):
        assert f">{cell}<" in drawn
        assert f"of {cell}: ring" in text
    assert "time it expects" not in drawn  # this version does not print it
    assert ">25 µs<" in to_html(recorded("three-hosts"))


def test_a_ring_has_an_edge_for_each_rank_and_dashes_where_it_leaves_a_host() -> None:
    log = recorded("two-hosts")
    picture = ring_picture(log, log.rings[0])
    lines = shapes_of(picture, "line")
    assert len(shapes_of(picture, "circle")) == len(lines) == log.world_size
    assert [line.get("stroke-dasharray") is not None for line in lines].count(True) == 2
    assert {"2 to 5, between hosts", "6 to 1, between hosts", "0 to 2, P2P/IPC/read", "rank 5, host 1"} <= set(titles(picture))


def test_a_cut_ring_stays_open() -> None:
    log = recorded("three-hosts")
    picture = ring_picture(log, log.rings[0])
    assert len(shapes_of(picture, "circle")) == 20
    assert len(shapes_of(picture, "line")) == 19
    assert "…" in picture


def test_a_tree_goes_down_from_its_root() -> None:
    log = recorded("two-hosts")
    for channel in (0, 1):
        picture = tree_picture(log, channel)
        heights = {str(text.text): float(text.get("y", "0")) for text in shapes_of(picture, "text")}
        assert min(heights, key=lambda rank: heights[rank]) == str(log.root(channel))
        for place in log.tree(channel).values():
            assert all(heights[str(child)] > heights[str(place.rank)] for child in place.children)
        assert len(shapes_of(picture, "line")) == log.world_size - 1


def test_a_tree_of_which_the_log_shows_a_part() -> None:
    log = NcclLog(world_size=4, trees=(NcclTree(0, 1, 0, (2,)),))
    assert set(titles(tree_picture(log, 0))) == {
        "rank 0, host not known", "rank 1, host not known", "rank 2, host not known", "0 to 1", "1 to 2",
    }  # fmt: skip


def test_a_damaged_tree_comes_to_an_end() -> None:
    log = NcclLog(world_size=2, trees=(NcclTree(0, 0, 1, (1,)), NcclTree(0, 1, 0, (0,))))
    assert len(shapes_of(tree_picture(log, 0), "circle")) == 2


def test_colours_alone_tell_nothing() -> None:
    drawn = to_html(recorded("two-hosts"))
    assert "host 0" in drawn
    assert "host 1" in drawn
    assert len(re.findall('role="img" aria-label="(?:ring|tree) of channel', drawn)) == 3


def test_what_is_too_large_is_text() -> None:
    ranks = tuple(range(MOST_RANKS + 1))
    log = NcclLog(world_size=len(ranks), rings=(NcclRing(0, ranks),))
    assert "<svg" not in to_html(log)
    assert "63 -&gt; 64" in to_html(log)


def test_many_shapes_are_drawn_in_part_and_told_whole() -> None:
    rings = tuple(NcclRing(channel, (0, *range(channel + 1, 7), *range(1, channel + 1))) for channel in range(6))
    drawn = to_html(NcclLog(world_size=7, rings=rings))
    assert drawn.count("<svg") == 4
    assert "2 more shapes: see the text" in drawn


def test_everything_is_escaped() -> None:
    bad = "<b>&"
    log = NcclLog(
        bad, 2, 1, ((0,), (1,)), (NcclRing(0, (0, 1)),), (), (NcclLink(0, 0, 1, bad),), (), (NcclChoice(bad, 8, bad, bad),)
    )
    assert "<b>" not in to_html(log)
    assert "<b>" not in to_html(dataclasses.replace(recorded("two-hosts"), version=bad))
