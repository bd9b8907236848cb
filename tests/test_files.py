"""A file is written whole or not at all, and nothing is left beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from labkit.files import written_whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    with written_whole(path) as part:
        part.write_text("new")
        assert not path.exists()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "new")]


@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_after_an_error_the_old_file_is_there_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def half() -> None:
        with written_whole(path) as part:
            part.write_text("ne")
            raise error

    with pytest.raises(error):
        half()
    assert [(each.name, each.read_text()) for each in tmp_path.iterdir()] == [("a.json", "old")]
