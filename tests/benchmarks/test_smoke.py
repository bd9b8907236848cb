"""One real measure, shortened: both sides start, answer, and are gone afterwards."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main


@pytest.mark.gloo
@pytest.mark.timeout(300)
def test_bandwidth_quick(tmp_path: Path) -> None:
    assert (
        main(["--quick", "--only", "bandwidth", "--json", str(tmp_path / "found.json"), "--markdown", str(tmp_path / "f.md")])
        == 0
    )
    found = json.loads((tmp_path / "found.json").read_text())
    assert [row["what"] for row in found["rows"]] == ["bandwidth at 16 MiB", "bandwidth at 64 MiB"]
    assert all(row["ratio"] > 0 and row["verdict"] in ("met", "NOT MET") for row in found["rows"])
    assert found["left_behind"] == []
    assert (tmp_path / "f.md").read_text().count("# Figures") == 1
