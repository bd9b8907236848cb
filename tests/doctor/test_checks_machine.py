"""Verdicts about machines nobody has at hand: Python, packages, torch, GPUs."""

from __future__ import annotations

import pytest

from labkit.devices import Gpu, GpuListing, parse_listing
from labkit.doctor.checks.gpus import judge_driver, judge_gpus, judge_sharing, judge_visible_devices
from labkit.doctor.checks.software import judge_bytecode, judge_packages, judge_python, judge_torch
from labkit.doctor.experiment import applying
from labkit.doctor.facts import TorchFacts

GIB = 2**30
TORCH = TorchFacts("2.15.0+cu132", "13.2", (2, 30, 7), has_gloo=True, has_nccl=True, devices=2, import_s=1.5)


def machine(count: int = 2, driver: str = "580.65.06", free: int = 80 * GIB, mode: str = "Default") -> GpuListing:
    gpus = tuple(Gpu(str(index), "NVIDIA H100", free, f"GPU-{index}abc", 80 * GIB, mode) for index in range(count))
    return GpuListing(gpus, driver if count else "", has_tool=True)


def test_python() -> None:
    assert judge_python((3, 11, 7), "CPython", True).status == "ok"
    assert judge_python((3, 10, 1), "CPython", True).status == "fail"
    assert judge_python((3, 11, 0), "PyPy", True).status == "warn"


def test_packages_that_fit() -> None:
    found = judge_packages("0.1.0", applying(["torch>=2.15,<2.16", 'x; extra == "dev"']), {"torch": "2.15.0+cu132"})
    assert (found.status, found.facts["torch"]) == ("ok", "2.15.0+cu132")


def test_packages_that_do_not() -> None:
    found = judge_packages(
        "0.1.0",
        applying(["torch>=2.15,<2.16", "rich>=14", "psutil>=7"]),
        {"torch": "2.14.1", "rich": None, "psutil": "7.2"},
    )
    assert found.status == "fail"
    assert "torch is 2.14.1, needed is <2.16,>=2.15" in found.detail
    assert "rich is missing" in found.detail
    assert "'torch<2.16,>=2.15' 'rich>=14'" in found.next_step
    assert "psutil" not in found.detail


@pytest.mark.parametrize(
    ("version", "span", "status"),
    [
        ("2.15.0+cu132", ">=2.15,<2.16", "ok"),
        ("2.16", "==2.15.*", "fail"),
        ("9.2.3", "~=9.2", "ok"),
        ("2.16.0rc1", "<2.16", "fail"),
    ],
)
def test_version_ranges(version: str, span: str, status: str) -> None:
    assert judge_packages("0.1.0", applying([f"torch{span}"]), {"torch": version}).status == status


def test_torch() -> None:
    found = judge_torch(TORCH)
    assert found.status == "ok"
    assert "CUDA 13.2, NCCL 2.30.7" in found.detail
    assert judge_torch(TorchFacts(error="ImportError: libcudnn.so.9")).status == "fail"
    assert judge_torch(TorchFacts("2.15", import_s=1)).status == "fail"  # no gloo
    assert judge_torch(TorchFacts("2.15", has_gloo=True, import_s=30)).status == "warn"


def test_byte_code() -> None:
    assert judge_bytecode({}, True).status == "ok"
    found = judge_bytecode({"PYTHONDONTWRITEBYTECODE": "1"}, False)
    assert found.status == "note"
    assert "compileall" in found.next_step
    assert judge_bytecode({"PYTHONDONTWRITEBYTECODE": "1"}, True).status == "ok"
    assert judge_bytecode({}, None).status == "note"


@pytest.mark.parametrize(
    ("driver", "cuda", "status"),
    [
        ("580.65.06", "13.2", "ok"),
        ("570.124.06", "13.2", "fail"),
        ("570.124.06", "12.8", "ok"),
        ("525.60.13", "12.4", "ok"),
        ("525.60.11", "12.4", "fail"),
        ("580.65.06", "14.0", "ok"),  # a major we know nothing of is no reason to complain
        ("580.65.06", "", "warn"),
    ],
)
def test_driver_against_cuda(driver: str, cuda: str, status: str) -> None:
    found = judge_driver(machine(driver=driver), TorchFacts("2.15", cuda, has_gloo=True))
    assert found.status == status
    if status == "fail":
        assert "too old for CUDA" in found.detail
        assert "update the driver" in found.next_step


def test_no_gpu_is_a_note() -> None:
    assert judge_driver(GpuListing(), TORCH).status == "note"
    assert judge_gpus(GpuListing(), TORCH, 4).status == "note"
    assert judge_driver(GpuListing(error="nvidia-smi: NVML mismatch", has_tool=True), TORCH).status == "fail"


def test_gpus() -> None:
    assert judge_gpus(machine(), TORCH, 2).status == "ok"
    fewer = judge_gpus(machine(), TORCH, 4)
    assert fewer.status == "note"
    assert "fewer than 4 ranks" in fewer.detail
    assert judge_gpus(machine(free=200 * 2**20), TORCH, 2).status == "warn"
    unseen = judge_gpus(machine(), TorchFacts("2.15", "13.2"), 2)
    assert unseen.status == "fail"
    assert "--gpus all" in unseen.next_step


def test_gpus_that_are_hidden_or_chosen() -> None:
    assert judge_gpus(machine(), TorchFacts("2.15", "13.2"), 2, "").status == "note"
    gpus = (Gpu("0", "H100", 0, "GPU-0", 80 * GIB), Gpu("1", "H100", 80 * GIB, "GPU-1", 80 * GIB))
    one = TorchFacts("2.15", "13.2", devices=1)
    assert judge_gpus(GpuListing(gpus, "580.1"), one, 1, "1").status == "ok"
    assert judge_gpus(GpuListing(gpus, "580.1"), one, 1, "0").status == "warn"


def test_several_ranks_on_one_gpu() -> None:
    assert "possible: NCCL 2.30.7" in judge_sharing(TORCH, machine(1)).detail
    assert "not possible" in judge_sharing(TorchFacts("2.14", "12.8", (2, 29, 1)), machine(1)).detail
    assert "exclusive" in judge_sharing(TORCH, machine(1, mode="Exclusive_Process")).detail
    assert judge_sharing(TorchFacts(error="x"), GpuListing()).status == "note"


@pytest.mark.parametrize(
    ("value", "gpus", "status"),
    [
        (None, 2, "ok"),
        ("0,1", 2, "ok"),
        ("1", 2, "ok"),
        ("GPU-1a", 2, "ok"),
        ("MIG-GPU-5/1/0", 2, "ok"),
        ("", 2, "note"),
        ("-1", 2, "note"),
        ("", 0, "ok"),
        ("0", 0, "note"),
        ("2", 2, "fail"),
        ("0,1,", 2, "fail"),
        ("0;1", 2, "fail"),
        ("all", 2, "fail"),
        ("0,0", 2, "fail"),
        ("GPU-9", 2, "fail"),
    ],
)
def test_visible_devices(value: str | None, gpus: int, status: str) -> None:
    assert judge_visible_devices(value, machine(gpus)).status == status


def test_nvidia_smi_output() -> None:
    facts = parse_listing(
        "0, GPU-5a, NVIDIA H200, 143771, 143000, Default, 580.65.06\n1, GPU-5b, GB10, [N/A], [N/A], Default, 580.65.06\nnoise\n"
    )
    assert [gpu.free_bytes for gpu in facts.gpus] == [143000 * 2**20, 0]
    assert facts.driver == "580.65.06"
    # Memory that the GPU shares with the host is not told; that is no reason to warn.
    assert judge_gpus(facts, TORCH, 2).status == "ok"
