"""The pages that tell how to add something, all carried out on one copy of the whole tree, and its whole pure lane."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .pages import carry_out, copy, run

PAGES = tuple(f"adding-{name}.md" for name in ("a-fault", "a-rule", "a-lab", "a-backend", "an-algorithm", "an-instrument"))


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_whole_pure_lane_passes_with_all_that_the_pages_add(root: Path, tmp_path: Path) -> None:
    tree = copy(root, tmp_path)
    written = [name for page in PAGES for name in carry_out(root / "docs" / page, tree)]
    assert len(written) >= len(PAGES)
    assert run(tree, "-c", "from labkit import labs; labs.write_index(labs.labs_folder())").returncode == 0
    pages = ["diagnosis/test_adding_a_rule.py", "faults/test_adding_a_fault.py", "labs/test_adding_a_lab.py"]
    pages += ["backends/test_adding_a_backend.py", "schedule/test_adding_an_algorithm.py"]
    pages += ["instruments/test_adding_an_instrument.py"]
    pages += ["test_house.py::test_labkit_stays_as_small_as_it_has_become"]  # the pages make it larger
    without = [word for page in pages for word in ("--deselect", f"tests/{page}")]
    ran = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "logical", *without, limit_s=1400)
    assert ran.returncode == 0, ran.stdout[-6000:] + ran.stderr[-2000:]
    assert re.search(r"\d{4} passed", ran.stdout), ran.stdout[-500:]
