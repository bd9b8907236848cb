"""Labs as a learner has them on the screen: run from the first cell to the last, looked at, and clicked."""

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
    assert bar == "rgb(185, 45, 0)", "later outputs' styles leave earlier ones as they are"
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


# What a cell's output is drawn with.
DRAWN = {
    "02-how-it-works": {
        "step-naive": ".lks svg", "my-ring": ".lk-block.lk-good table", "run-copied": ".lk-block.lk-bad table",
        "check-schedule": ".lk-row .lk-bad", "run-both": ".lk-row table", "run-three": ".lk-row table",
        "compare-three": ".lk-span",
    },
    "03-what-it-costs": {
        "see-prices": ".lk-price .lk-bar", "sweep": ".lk-block table", "see-fit": ".scatterlayer",
        "crossing": ".scatterlayer", "see-liars": ".lk-row table",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", list(DRAWN))
def test_a_lab_draws_what_it_measured(name: str, root: Path, open_notebook: Callable[..., Any]) -> None:
    from playwright.sync_api import expect

    source = json.loads((root / "labs" / f"{name}.ipynb").read_text())
    ids = [cell["id"] for cell in source["cells"] if cell["cell_type"] == "code"]
    page = open_notebook(f"{name}.ipynb", source)
    page.run_all(timeout_s=150)
    for kind in ("stderr", "error"):
        expect(page.page.locator(f'.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.{kind}"]')).to_have_count(0)
    for theme in ("Light", "Dark"):
        page.theme(theme)
        for width in (1280, 800):
            page.page.set_viewport_size({"width": width, "height": 900})
            for cell, what in DRAWN[name].items():
                expect(page.output(ids.index(cell)).locator(what).first).to_be_visible(timeout=15_000)
                page.picture(f"{name[:2]}-{cell}-{theme.lower()}-{width}", ids.index(cell))
            assert overflowing(page.page) == []
    assert page.save() < FILE_BYTES * 2
    assert page.strangers == []
    assert page.errors == []


def test_an_open_exercise_is_one_line(root: Path, open_notebook: Callable[..., Any], cells: Callable[..., Any]) -> None:
    from labkit.labs import source_of, without_solutions

    lab = without_solutions(json.loads((root / "labs" / "02-how-it-works.ipynb").read_text()))
    copies = {cell["id"]: source_of(cell) for cell in lab["cells"]}
    opens = "import labkit\nlab = labkit.lab('02-how-it-works')"
    page = open_notebook("copy.ipynb", cells(opens, copies["predict-naive"], copies["root-bytes"]))
    for number, says in enumerate(("NotYet: 02/naive has no prediction yet", "YourTurn: your lines are missing here"), start=1):
        page.run_cell(number - 1)
        page.run_cell(number)
        lines = page.output(number).inner_text().strip().splitlines()
        assert len(lines) == 1
        assert lines[0].startswith(says)


def overflowing(page: Any) -> list[str]:
    """Texts of ours that stick out of their box."""
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('.labkit p, .labkit dd, .labkit .lk-state, .labkit .lk-head')]
            .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1).map((one) => one.textContent)"""
    )
    return found
