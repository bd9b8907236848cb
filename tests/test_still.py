"""Stills of the picture of calls: an SVG that stands by itself, a PNG, and what can't be written."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from labkit.diagnosis.grid import call_grid
from labkit.errors import UsageError
from labkit.still import save
from labkit.views._strokes import THEMES

from .diagnosis.pictured import left, skipped, swapped, unreceived


@pytest.mark.parametrize("make", [swapped, left, unreceived])
@pytest.mark.parametrize("theme", sorted(THEMES))
def test_an_svg_needs_no_page(tmp_path: Path, make: object, theme: str) -> None:
    grid = call_grid(make())  # type: ignore[operator]
    text = save(grid, tmp_path / "hang.svg", theme=theme).read_text()
    root = ET.fromstring(text)
    assert not re.search(r"class=|var\(|href|<style|<script", text)
    assert f'fill="{THEMES[theme]["bg"]}"' in text
    words = " ".join(each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text"))
    assert grid.sentence.split(" (")[0].split("; ")[0][:40] in words
    assert grid.sides[0].source in words or grid.sides[1].source in words


def test_all_marks_are_inside(tmp_path: Path) -> None:
    for make in (swapped, left, unreceived, lambda: skipped(64, 300, 37, 150)):
        root = ET.fromstring(save(call_grid(make()), tmp_path / "hang.svg").read_text())
        width, height = float(root.attrib["width"]), float(root.attrib["height"])
        boxes = [each.attrib for each in root.iter("{http://www.w3.org/2000/svg}rect") if "x" in each.attrib]
        assert all(0 <= float(box["x"]) <= width - float(box["width"]) for box in boxes)
        assert all(0 <= float(box["y"]) <= height - float(box["height"]) for box in boxes)


def test_a_png_is_twice_as_large(tmp_path: Path) -> None:
    root = ET.fromstring(save(call_grid(left()), tmp_path / "hang.svg").read_text())
    data = save(call_grid(left()), tmp_path / "hang.png", theme="dark").read_bytes()
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    assert (width, height) == pytest.approx((2 * float(root.attrib["width"]), 2 * float(root.attrib["height"])), abs=2)


@pytest.mark.parametrize(("path", "theme", "said"), [("x.gif", "light", "name it"), ("x.svg", "pink", "light and dark")])
def test_what_can_not_be_written(tmp_path: Path, path: str, theme: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        save(call_grid(left()), tmp_path / path, theme=theme)
    with pytest.raises(UsageError, match="folder of yours"):
        save(call_grid(left()), tmp_path / "none" / "x.svg")
    with pytest.raises(UsageError, match=r"world\.calls"):
        save("hang", tmp_path / "x.svg")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_page_is_whole_and_asks_nobody(tmp_path: Path, theme: str) -> None:
    text = save(call_grid(swapped()), tmp_path / "hang.html", theme=theme).read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert f'data-jp-theme-light="{str(theme == "light").lower()}"' in text
    assert "lk-calls" in text
    assert not re.search(r"https?:|url\(|@import|<script|<link", text)
