"""Which backend a world takes, and what it makes of a rank's environment."""

from __future__ import annotations

import pytest

from labkit.backends import Backend, choose, find, nccl, one_gpu
from labkit.backends.nccl import check_shared_gpu, nccl_environment, nccl_version, parse_nccl_version, shares_gpu
from labkit.devices import Gpu
from labkit.driver.start import _overridden, make_seats
from labkit.errors import NotEnoughDevices, StartError, UsageError

ONE = [Gpu("0", "H200", 2**30)]
TWO = [Gpu("0", "H200", 2**30), Gpu("1", "H200", 2**30)]


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "NCCL_RAS_ENABLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(nccl, "nccl_version", lambda: (2, 30, 7))


# ---- which backend
@pytest.mark.parametrize(
    ("backend", "ranks", "gpus", "share", "expected"),
    [
        ("auto", 4, [], False, "gloo"),
        ("auto", 2, TWO, False, "nccl"),
        ("auto", 1, TWO, False, "nccl"),
        ("auto", 4, TWO, False, "gloo"),
        ("auto", 4, TWO, True, "nccl"),
        ("auto", 4, [], True, "gloo"),
        ("gloo", 2, TWO, True, "gloo"),
        ("nccl", 2, TWO, False, "nccl"),
        ("nccl", 4, ONE, True, "nccl"),
    ],
)
def test_choose(backend: str, ranks: int, gpus: list[Gpu], share: bool, expected: str) -> None:
    assert choose(backend, ranks, gpus, share).name == expected


def test_more_ranks_than_gpus_says_what_to_do() -> None:
    with pytest.raises(NotEnoughDevices) as caught:
        choose("nccl", 4, TWO, False)
    assert str(caught.value) == (
        '4 ranks on 2 GPUs with nccl; give ranks=2, or backend="gloo", or share_gpu=True for several ranks on one GPU'
    )
    assert (caught.value.ranks, caught.value.devices) == (4, 2)
    with pytest.raises(NotEnoughDevices, match="2 ranks on 1 GPU with nccl; give ranks=1"):
        choose("nccl", 2, ONE, False)


def test_nccl_without_a_gpu_says_what_to_do() -> None:
    with pytest.raises(NotEnoughDevices, match='nccl needs a GPU and none is visible; use backend="gloo"'):
        choose("nccl", 2, [], True)


def test_sharing_needs_a_new_nccl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "nccl_version", lambda: (2, 29, 3))
    assert choose("nccl", 2, TWO, True).name == "nccl"
    with pytest.raises(StartError) as caught:
        choose("nccl", 2, ONE, True)
    assert (
        str(caught.value)
        == 'NCCL 2.29.3 puts one rank on a GPU; several need NCCL 2.30; give one rank per GPU, or backend="gloo"'
    )
    monkeypatch.setattr(nccl, "nccl_version", lambda: None)
    assert choose("nccl", 2, ONE, True).name == "nccl"  # NCCL itself will say


def test_environment_overrides_both(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABKIT_BACKEND", "gloo")
    monkeypatch.setenv("LABKIT_RANKS", "3")
    assert _overridden(8, "nccl") == (3, "gloo")
    monkeypatch.setenv("LABKIT_BACKEND", "  ")
    monkeypatch.setenv("LABKIT_RANKS", "")
    assert _overridden(8, "nccl") == (8, "nccl")
    monkeypatch.setenv("LABKIT_RANKS", "many")
    with pytest.raises(UsageError, match="LABKIT_RANKS must be a number, not 'many'"):
        _overridden(8, "nccl")


# ---- the seats
def test_each_rank_is_pinned_to_its_own_gpu() -> None:
    seats = make_seats(2, "nccl", TWO)
    assert [(seat.env["CUDA_VISIBLE_DEVICES"], seat.device) for seat in seats] == [("0", "cuda:0"), ("1", "cuda:0")]
    assert all("NCCL_MULTI_RANK_GPU_ENABLE" not in seat.env for seat in seats)


def test_ranks_go_round_the_gpus_they_share() -> None:
    seats = make_seats(5, "nccl", TWO)
    assert [seat.env["CUDA_VISIBLE_DEVICES"] for seat in seats] == ["0", "1", "0", "1", "0"]
    assert all(seat.env["NCCL_MULTI_RANK_GPU_ENABLE"] == "1" for seat in seats)


def test_gloo_pins_nothing() -> None:
    seats = make_seats(2, "gloo", TWO)
    assert [seat.device for seat in seats] == ["cpu", "cpu"]
    assert all(not name.startswith(("NCCL_", "TORCH_NCCL_", "CUDA_")) for seat in seats for name in seat.env)


def test_slices_of_one_gpu_are_shared_in_nccls_eyes() -> None:
    slices = [Gpu("MIG-a", "MIG slice", 0), Gpu("MIG-b", "MIG slice", 0)]
    assert shares_gpu(2, slices)
    assert make_seats(2, "nccl", slices)[1].env["CUDA_VISIBLE_DEVICES"] == "MIG-b"
    assert make_seats(2, "nccl", slices)[1].env["NCCL_MULTI_RANK_GPU_ENABLE"] == "1"
    assert not shares_gpu(2, TWO)


@pytest.mark.parametrize(
    ("gpu", "user", "ordered"),
    [
        (Gpu("1", "H200", 0), {}, True),
        (Gpu("1", "H200", 0), {"CUDA_VISIBLE_DEVICES": "1"}, False),
        (Gpu("1", "H200", 0), {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, False),
        (Gpu("GPU-aa", "H200", 0), {}, False),
    ],
)
def test_numbers_are_ours_or_the_users(gpu: Gpu, user: dict[str, str], ordered: bool) -> None:
    assert ("CUDA_DEVICE_ORDER" in one_gpu(gpu, user)) is ordered


# ---- NCCL's environment
def test_what_recovery_depends_on_is_not_the_users_to_change() -> None:
    user = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_BLOCKING_WAIT": "1", "TORCH_FR_BUFFER_SIZE": "0"}
    env = nccl_environment(2, 2, user=user)
    assert env["TORCH_NCCL_ASYNC_ERROR_HANDLING"] == "0"
    assert env["TORCH_NCCL_BLOCKING_WAIT"] == "0"
    assert env["TORCH_NCCL_ENABLE_MONITORING"] == "0"
    assert env["TORCH_NCCL_RETHROW_CUDA_ERRORS"] == "0"
    assert int(env["TORCH_FR_BUFFER_SIZE"]) > 0


def test_preferences_give_way_to_the_user() -> None:
    assert nccl_environment(2, 2)["NCCL_RAS_ENABLE"] == "0"
    env = nccl_environment(2, 2, user={"NCCL_DEBUG": "INFO", "NCCL_RAS_ENABLE": "1"})
    assert not {"NCCL_DEBUG", "NCCL_RAS_ENABLE"} & env.keys()


@pytest.mark.parametrize(("name", "variable"), [("gloo", "GLOO_SOCKET_IFNAME"), ("nccl", "NCCL_SOCKET_IFNAME")])
def test_ranks_stay_on_loopback_or_on_their_hosts_link_or_where_the_user_says(name: str, variable: str) -> None:
    backend = find(name)
    assert backend.environment(1, 2, TWO, {})[variable] == "lo"
    assert variable not in backend.environment(1, 2, TWO, {variable: "eth7"})
    assert backend.host_environment(1)[variable] == "eth0"
    assert variable not in Backend().environment(1, 2, TWO, {})


def test_values_are_text_and_nothing_is_shared_unasked() -> None:
    env = nccl_environment(8, 8)
    assert all(isinstance(value, str) for value in env.values())
    assert not {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL_NVLS_ENABLE", "NCCL_MAX_CTAS"} & env.keys()


@pytest.mark.parametrize(("ranks", "ctas"), [(2, "2"), (8, "2"), (9, "1"), (32, "1")])
def test_all_kernels_of_a_shared_gpu_fit_at_the_same_time(ranks: int, ctas: str) -> None:
    env = nccl_environment(ranks, 1)
    assert (env["NCCL_NVLS_ENABLE"], env["NCCL_MAX_CTAS"]) == ("0", ctas)


@pytest.mark.parametrize(("code", "version"), [(23007, (2, 30, 7)), (22903, (2, 29, 3)), (2708, (2, 7, 8)), (21005, (2, 10, 5))])
def test_versions(code: int, version: tuple[int, int, int]) -> None:
    assert parse_nccl_version(code) == version


def test_a_library_that_cant_be_asked_has_no_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nccl, "find_nccl", lambda: "/nowhere/libnccl.so.2")
    nccl_version.cache_clear()
    assert nccl_version() is None
    monkeypatch.setattr(nccl, "find_nccl", lambda: None)
    nccl_version.cache_clear()
    assert nccl_version() is None
    nccl_version.cache_clear()


def test_the_installed_library_tells_its_version() -> None:
    path = nccl.find_nccl()
    if path is None or not path.startswith("/"):
        pytest.skip("torch without NCCL")
    nccl_version.cache_clear()
    version = nccl_version()
    assert version is not None
    assert version >= (2, 20, 0)
    check_shared_gpu(max(version, (2, 30, 0)))


# ---- facts
NAMES = {"nccl": "nccl", "nccl2": "nccl", "nccl-legacy": "nccl", "gloo": "gloo", "mpi": "mpi"}


@pytest.mark.parametrize(("name", "ours"), NAMES.items())
def test_a_backend_is_found_by_torchs_names_too(name: str, ours: str) -> None:
    assert (find(name).name, find(name).returns_at_once) == (ours, ours == "nccl")


def test_the_two_ask_different_things_of_recovery() -> None:
    gloo, other = find("gloo"), find("nccl")
    assert (gloo.drain_before_release, gloo.release_wait_s, gloo.aborts_on_long_message) == (True, None, True)
    assert (other.drain_before_release, other.release_wait_s, other.aborts_on_long_message) == (False, 3.0, False)
