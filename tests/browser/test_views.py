"""The views in a real notebook: cards that move, timelines, and what stays in the file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(180)]

WATCH = "from labkit.instruments.watch import Live\nLive(world.core)"
TIMELINE = "from labkit.timeline import make_timeline\nmake_timeline(world.core.look(ask=False))"
HANG = "%%ranks\nx = torch.ones(4)\nif rank == 1:\n    import time; time.sleep(8)\ndist.all_reduce(x)"
BUSY = """%%ranks
import time
x = torch.ones(1 << 16)
for step in range(4):
    time.sleep(0.03 * rank * (step % 2))
    dist.all_reduce(x)
dist.broadcast(x, 0)"""


def test_live_cards_timeline_and_the_interrupt_button(open_notebook: Callable[..., Any], cells: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    sources = ("import labkit\nworld = labkit.start(ranks=4)", WATCH, BUSY, TIMELINE, HANG, "world.status()", "world.stop()")
    page = open_notebook("live.ipynb", cells(*sources))
    page.theme("Light")
    for number in range(4):
        page.run_cell(number)
    cards = page.output(1).locator(".lk-live .lk-card")
    expect(cards).to_have_count(4)
    tops = {round(cards.nth(n).bounding_box()["y"]) for n in range(4)}
    assert len(tops) == 1, "four cards stand in one row"
    page.output(3).locator(".barlayer .point").last.wait_for(state="attached", timeout=15_000)
    page.picture("timeline-light", 3)

    page.run_cell(4, wait=False)
    expect(cards.nth(0).locator(".lk-state")).to_contain_text("in all_reduce #", timeout=10_000)
    expect(cards.nth(1).locator(".lk-state")).to_contain_text("running cell")
    said = cards.nth(0).locator(".lk-detail").inner_text()
    page.page.wait_for_timeout(400)
    assert cards.nth(0).locator(".lk-detail").inner_text() != said, "the time goes on while the cell hangs"
    page.picture("live-light")
    page.picture("cards-light", 1)
    page.page.locator(
        'jp-button[data-command="notebook:interrupt-kernel"], button[data-command="notebook:interrupt-kernel"]'
    ).first.click()
    expect(page.output(4).last).to_contain_text("the ranks are free", timeout=20_000)
    page.wait_idle()
    expect(cards.nth(0).locator(".lk-state")).to_contain_text("idle")
    page.picture("interrupted-light", 4)
    page.theme("Dark")
    page.picture("cards-dark", 1)
    page.picture("timeline-dark", 3)
    page.picture("interrupted-dark", 4)
    page.theme("Light")
    page.run_cell(5)
    expect(page.output(5).locator(".lk-card")).to_have_count(4)

    page.run_cell(6)
    expect(page.output(1)).to_contain_text("the world is stopped")
    expect(page.output(1).locator(".lk-live")).to_have_count(0)
    assert page.save() < 100_000
    saved = json.loads(page.path.read_text())
    assert "widgets" not in saved["metadata"]
    kept = [list(output.get("data", {})) for output in saved["cells"][1]["outputs"]]
    assert kept == [["text/html", "text/plain"]] or kept == [["text/plain", "text/html"]]
    assert page.strangers == []
    assert page.errors == []
