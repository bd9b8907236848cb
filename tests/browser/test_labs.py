"""Lab 01 as a learner has it on the screen: run from its first cell to its last, looked at, and clicked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]
LAB = "01-every-rank-the-same"
FILE_BYTES = 300_000


PICTURES = {
    "cards": "open-the-world", "tensors": "see-sum", "groups": "see-groups", "roll": "roll-call", "script": "run-as-script",
    "verdict": "two-collectives", "hang": "see-them-hang", "recover": "recover", "done": "close-the-world",
}  # fmt: skip


def test_lab_01_is_shown_as_it_is_meant(root: Path, open_notebook: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    source = json.loads((root / "labs" / f"{LAB}.ipynb").read_text())
    ids = [cell["id"] for cell in source["cells"] if cell["cell_type"] == "code"]
    page = open_notebook("lab.ipynb", source)
    page.run_all(timeout_s=150)

    for kind in ("stderr", "error"):
        expect(page.page.locator(f'.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.{kind}"]')).to_have_count(0)
    cards = page.output(ids.index("open-the-world")).locator(".lk-card")
    expect(cards).to_have_count(4)
    assert len({round(cards.nth(n).bounding_box()["y"]) for n in range(4)}) == 1, "four cards stand in one row"
    grid = page.output(ids.index("see-sum"))
    expect(grid.locator(".lk-grid")).to_have_count(2)
    expect(grid).to_contain_text("= identical on all ranks")
    expect(page.output(ids.index("see-groups"))).to_contain_text("ranks 0 and 1 are equal, ranks 2 and 3 are equal")

    verdict = page.output(ids.index("two-collectives"))
    expect(verdict).to_contain_text(re.compile(r"rank 3 .*broadcast"))
    bar = verdict.locator(".lk-block.lk-bad").first.evaluate("one => getComputedStyle(one).borderLeftColor")
    assert bar == "rgb(213, 94, 0)", "later outputs' styles leave earlier ones as they are"
    facts = verdict.locator("details").first
    expect(facts.locator("li").first).not_to_be_visible()
    facts.locator("summary").click()
    expect(facts.locator("li").first).to_be_visible()
    expect(page.output(ids.index("see-them-hang")).locator(".lk-card")).to_have_count(4)
    expect(page.output(ids.index("recover"))).to_contain_text("recovered in")

    for theme in ("Light", "Dark"):
        if theme == "Dark":
            page.theme(theme)
        for name, cell in PICTURES.items():
            page.picture(f"lab01-{name}-{theme.lower()}", ids.index(cell))
        assert overflowing(page.page) == []
    assert page.save() < FILE_BYTES
    assert "widgets" not in json.loads(page.path.read_text())["metadata"]
    assert page.strangers == []
    assert page.errors == []


def overflowing(page: Any) -> list[str]:
    """Texts of ours that stick out of their box."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('.labkit p, .labkit dd, .labkit .lk-state, .labkit .lk-head')]
            .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
    )
    return found
