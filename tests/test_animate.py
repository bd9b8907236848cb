"""Films: their frames by the clock, the files by what decodes from them, and nothing left behind when it goes wrong."""

from __future__ import annotations

import errno
import importlib
import math
import os
import resource
from pathlib import Path
from typing import Any

import pytest

from labkit import animate
from labkit.animate import export, moment
from labkit.errors import UsageError
from labkit.schedule import ALGORITHMS, Trace, trace


def ring(ranks: int = 4) -> Trace:
    return trace(ALGORITHMS["ring"].schedule(ranks), 4096)


@pytest.fixture
def pillow() -> Any:
    return pytest.importorskip("PIL.Image", reason="no Pillow; the extra `video` brings it")


@pytest.fixture
def av(pillow: Any) -> Any:
    return pytest.importorskip("av", reason="no PyAV; the extra `video` brings it")


def test_every_step_is_seen_in_its_order_and_flies() -> None:
    seen = [moment(index, 300, 6) for index in range(300)]
    assert seen[0] == (0, 1.0)
    assert seen[-1] == (6, 1.0)
    assert [position for position, _ in seen] == sorted(position for position, _ in seen)
    assert {position for position, _ in seen} == set(range(7))
    for step in range(1, 7):
        flown = [part for position, part in seen if position == step]
        assert flown == sorted(flown)
        assert flown[0] < 0.1
        assert flown[-1] == 1.0


def test_a_schedule_without_steps_stands_still() -> None:
    assert {moment(index, 30, 0) for index in range(30)} == {(0, 1.0)}


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("ring.avi", {}, "name it .mp4 or .gif"), ("ring", {}, "name it .mp4 or .gif"),
        ("a.mp4", {"theme": "pink"}, "light and dark"),
        ("a.mp4", {"theme": ["light"]}, "light and dark"),
        ("a.mp4", {"seconds": 0}, "no film of 0 s"), ("a.gif", {"seconds": 1e9}, "up to 600"),
        ("a.gif", {"seconds": math.nan}, "no film of nan s"), ("a.gif", {"seconds": math.inf}, "no film of inf s"),
        ("a.gif", {"seconds": "3"}, "no film of '3' s"), ("a.gif", {"seconds": 10**5000}, "up to 600"),
        ("a\0b.gif", {}, "is no path"),
    ],
)  # fmt: skip
def test_what_can_not_be_filmed_is_said(tmp_path: Path, name: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as raised:
        export(ring(), tmp_path / name, **options)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("path", [None, 5, b"a.gif"])
def test_what_is_no_path_or_no_trace_is_said(tmp_path: Path, path: Any) -> None:
    with pytest.raises(UsageError, match="is no path"):
        export(ring(), path)
    with pytest.raises(UsageError, match="a Schedule has no frames"):
        export(ALGORITHMS["ring"].schedule(2), tmp_path / "a.gif")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("no/a.gif", "make it first"), ("folder.gif", "is a folder"), ("a" * 252 + ".gif", "File name too long"),
        ("loop.gif", "is no file"), ("null.gif", "is no file"), ("/proc/a.gif", "can't write '/proc/a.gif': "),
    ],
)  # fmt: skip
def test_where_nothing_can_be_written_is_said_before_anything_is_drawn(
    tmp_path: Path, pillow: Any, monkeypatch: pytest.MonkeyPatch, name: str, says: str
) -> None:
    (tmp_path / "folder.gif").mkdir()
    (tmp_path / "loop.gif").symlink_to("loop.gif")
    (tmp_path / "null.gif").symlink_to(os.devnull)
    before = sorted(tmp_path.iterdir())
    monkeypatch.delattr(animate.Film, "frames")
    with pytest.raises(UsageError, match=says) as raised:
        export(ring(), tmp_path / name)
    assert len(str(raised.value).splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_a_link_is_followed_and_stays(tmp_path: Path, pillow: Any) -> None:
    there = tmp_path / "there"
    there.mkdir()
    link, fresh = tmp_path / "film.gif", tmp_path / "fresh.gif"
    (there / "real.gif").write_bytes(b"old")
    link.symlink_to("there/real.gif")
    fresh.symlink_to(there / ("n" * 251 + ".gif"))  # as long as a name can be, and not there yet
    for path in (link, fresh):
        assert export(ring(2), path, seconds=0.2) == path
        assert path.is_symlink()
        assert path.read_bytes().startswith(b"GIF")
    assert len(list(there.iterdir())) == 2


@pytest.mark.parametrize(("missing", "name"), [("PIL", "a.gif"), ("PIL", "a.mp4"), ("av", "a.mp4")])
def test_a_missing_library_is_one_line_and_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, name: str
) -> None:
    if missing == "av":
        pytest.importorskip("PIL", reason="no Pillow; the extra `video` brings it")

    def without(module: str) -> Any:
        if module.partition(".")[0] == missing:
            raise ImportError(module)
        return importlib.import_module(module)

    monkeypatch.setattr(animate, "import_module", without)
    with pytest.raises(UsageError, match="install the package") as raised:
        export(ring(), tmp_path / name, seconds=0.2)
    assert "\n" not in str(raised.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks", "theme"), [("ring", 4, "light"), ("binomial-tree", 8, "dark")])
def test_an_mp4_is_portrait_three_seconds_and_every_player_takes_it(
    tmp_path: Path, av: Any, name: str, ranks: int, theme: str
) -> None:
    path = export(trace(ALGORITHMS[name].schedule(ranks), 4096), tmp_path / "film.mp4", seconds=3, theme=theme)
    with av.open(str(path)) as container:
        video = container.streams.video[0]
        frames = list(container.decode(video))
        assert video.codec_context.name == "h264"
        assert video.codec_context.pix_fmt == "yuv420p"
        assert video.average_rate == 30
        assert float(container.duration) / av.time_base == pytest.approx(3.0, abs=0.05)
    assert len(frames) == 90
    assert {(frame.width, frame.height) for frame in frames} == {(1080, 1920)}
    corner = frames[0].to_image().getpixel((3, 3))
    assert min(corner) > 240 if theme == "light" else max(corner) < 40
    first, last = (frames[index].to_ndarray(format="gray").astype(int) for index in (0, -1))
    assert abs(first - last).max() > 100, "something has happened"
    assert path.stat().st_size < 1_000_000
    assert [each.name for each in tmp_path.iterdir()] == ["film.mp4"]


def test_a_gif_has_the_same_picture_at_half_the_size(tmp_path: Path, pillow: Any) -> None:
    path = export(ring(), str(tmp_path / "film.GIF"), seconds=3)
    with pillow.open(path) as image:
        assert image.size == (540, 960)
        assert image.info["loop"] == 0
        lengths = []
        for index in range(image.n_frames):
            image.seek(index)
            lengths.append(image.info["duration"])
    assert sum(lengths) == 3000
    assert path.stat().st_size < 1_000_000


def test_a_film_that_breaks_off_leaves_the_old_file(tmp_path: Path, pillow: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"old")

    def broken(self: Any, number: int) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(animate.Film, "frames", broken)
    with pytest.raises(UsageError, match=r"can't write '.+: No space left on device; name"):
        export(ring(), path, seconds=1)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.slow
def test_a_full_disk_is_one_line_in_a_video_too(tmp_path: Path, av: Any) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # no file may grow beyond this
    try:
        with pytest.raises(UsageError, match=r"can't write .*: File too large"):
            export(ring(), tmp_path / "film.mp4", seconds=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_64_ranks_are_filmed_as_a_pattern(pillow: Any) -> None:
    film = animate.Film(trace(ALGORITHMS["double-tree"].schedule(64), 64))
    assert not film.scene.detail
    assert film.still(3).size == (1080, 1920)
