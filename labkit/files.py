"""Files that others read are written whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A place beside `path` to write to; it becomes `path` at the end, or is removed after an error.

    >>> with written_whole(Path("/tmp/note.json")) as part:              # doctest: +SKIP
    ...     part.write_text("{}")
    """
    part = path.with_name(f".{path.name}.part")
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
