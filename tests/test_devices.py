"""Which GPUs this process may use, by CUDA's rules."""

from __future__ import annotations

import pytest

from labkit.devices import Gpu, find_gpus, parse_listing, visible_gpus

LISTING = parse_listing(
    "0, GPU-aa11, NVIDIA H200, 143771, 140000, Default, 580.65\n1, GPU-aa22, NVIDIA H200, 143771, 139000, Default, 580.65\n"
    "2, GPU-bb33, NVIDIA H200, [N/A], [N/A], Default, 580.65\n"
).gpus


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        (None, ["0", "1", "2"]),
        ("0,1,2", ["0", "1", "2"]),
        ("2, 0", ["2", "0"]),
        ("1", ["1"]),
        ("GPU-bb33", ["GPU-bb33"]),
        ("GPU-bb", ["GPU-bb33"]),
        ("GPU-aa", []),  # two begin so
        ("GPU-aa22,GPU-bb33", ["GPU-aa22", "GPU-bb33"]),
        ("MIG-12345678-1234", ["MIG-12345678-1234"]),
        ("MIG-a,MIG-b", ["MIG-a", "MIG-b"]),
        ("0,7,1", ["0"]),  # everything from the first unknown one on is ignored
        ("", []),
        ("-1", []),
        ("0,-1,1", ["0"]),
        ("none", []),
        ("NoDevFiles", []),
        ("1,1", []),  # CUDA gives nothing where one is named twice
        ("0,1,0", []),
    ],
)
def test_visible(visible: str | None, expected: list[str]) -> None:
    assert [gpu.visible for gpu in visible_gpus(LISTING, visible)] == expected


def test_a_listing_without_numbers_is_read() -> None:
    assert visible_gpus(LISTING, None)[2] == Gpu("2", "NVIDIA H200", 0, "GPU-bb33")
    assert visible_gpus(LISTING, None)[0].free_bytes == 140000 * 2**20
    assert visible_gpus((), None) == []


def test_no_driver_no_gpus() -> None:
    assert find_gpus({"PATH": "/nowhere"}) == []
