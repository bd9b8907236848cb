"""Verdicts about hosts nobody has at hand: memory, shared memory, limits, networks, variables, folders."""

from __future__ import annotations

import pytest

from labkit.doctor.checks.collective import RankAnswer, judge_collective, rank_environment
from labkit.doctor.checks.folders import judge_tempdir
from labkit.doctor.checks.host import judge_cpus, judge_limits, judge_memory, judge_ptrace, judge_shm
from labkit.doctor.checks.network import judge_gloo_interface, judge_hosts, judge_nccl_interface, matching
from labkit.doctor.checks.software import judge_environment, judge_settings
from labkit.machine import Room, cpu_quota, memory_room, process_room

MIB, GIB = 2**20, 2**30
NET = {"lo": ("127.0.0.1", "::1"), "eth0": ("10.0.0.5",), "bare": ()}


def test_memory() -> None:
    assert judge_memory(16 * GIB, None, 4).status == "ok"
    assert judge_memory(1000 * MIB, None, 4).status == "warn"
    full = judge_memory(400 * MIB, None, 4)
    assert full.status == "fail"
    assert "use at most 1 ranks" in full.next_step


def test_a_container_limit_counts_more_than_the_machine() -> None:
    found = judge_memory(64 * GIB, Room(512 * MIB, 200 * MIB), 4)
    assert found.status == "fail"
    assert "container's 512 MiB" in found.detail
    assert found.facts["free_bytes"] == 312 * MIB


def test_cgroup_version_2() -> None:
    files = {
        "/proc/self/cgroup": "0::/a/b\n",
        "/sys/fs/cgroup/a/b/memory.max": "max\n",
        "/sys/fs/cgroup/a/b/memory.current": "1\n",
        "/sys/fs/cgroup/a/memory.max": f"{GIB}\n",
        "/sys/fs/cgroup/a/memory.current": f"{800 * MIB}\n",
        "/sys/fs/cgroup/a/memory.stat": f"anon 5\ninactive_file {300 * MIB}\n",
        "/sys/fs/cgroup/a/cpu.max": "150000 100000\n",
        "/sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
        "/sys/fs/cgroup/a/pids.max": "200\n",
        "/sys/fs/cgroup/a/pids.current": "50\n",
    }
    assert memory_room(files.get) == Room(GIB, 500 * MIB)
    assert cpu_quota(files.get) == 1.5
    assert process_room(files.get) == Room(200, 50)


def test_cgroup_version_1_in_a_container_that_does_not_see_its_own_path() -> None:
    files = {
        "/proc/self/cgroup": "5:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{2 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{GIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": f"total_inactive_file {GIB // 2}\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000\n",
        "/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    }
    assert memory_room(files.get) == Room(2 * GIB, GIB // 2)
    assert cpu_quota(files.get) == 2.0


def test_no_cgroup_limit() -> None:
    files = {
        "/proc/self/cgroup": "5:memory:/\n3:cpu:/\n",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": "5\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
        "/sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
    }
    assert (memory_room(files.get), cpu_quota(files.get), process_room(files.get)) == (None, None, None)
    assert memory_room({}.get) is None


def test_cpus() -> None:
    assert judge_cpus(8, None, 4).status == "ok"
    assert judge_cpus(2, None, 4).status == "note"
    assert judge_cpus(64, 1.5, 4).detail.startswith("1.5 CPUs for 4 ranks")
    assert judge_cpus(1, None, 16).status == "warn"


def test_docker_shared_memory() -> None:
    found = judge_shm(64 * MIB, 64 * MIB, True)
    assert found.status == "warn"
    assert "--shm-size=1g" in found.next_step
    assert judge_shm(GIB, GIB, True).status == "ok"
    assert judge_shm(GIB, 10 * MIB, True).status == "warn"
    assert judge_shm(GIB, GIB, False).status == "fail"
    assert judge_shm(None, 0, False).status == "fail"
    assert judge_shm(None, 0, False, "darwin").status == "ok"


def test_limits() -> None:
    assert judge_limits(20000, None, 8 * MIB, 4, rdma=False).status == "ok"
    assert judge_limits(512, None, None, 4, rdma=False).status == "warn"
    assert judge_limits(128, None, None, 4, rdma=False).status == "fail"
    assert judge_limits(1024, None, None, 64, rdma=False).status == "warn"
    assert "ulimit -u" in judge_limits(20000, 100, None, 4, rdma=False).next_step
    assert "--pids-limit" in judge_limits(20000, None, None, 4, rdma=False, group=Room(200, 50)).next_step
    assert "memlock" in judge_limits(20000, None, 8 * MIB, 4, rdma=True).next_step


def test_gloo_interface() -> None:
    assert judge_gloo_interface(None, NET, ["10.0.0.5"], "10.0.0.5").detail.startswith("eth0 (10.0.0.5)")
    assert judge_gloo_interface(None, NET, ["127.0.1.1"], "127.0.1.1").detail.startswith("lo (127.0.1.1)")
    assert judge_gloo_interface("eth0", NET, [], None).status == "ok"
    wrong = judge_gloo_interface("eth9", NET, [], None)
    assert wrong.status == "fail"
    assert "eth9" in wrong.detail
    assert "lo, eth0" in wrong.next_step
    assert judge_gloo_interface("bare", NET, [], None).status == "fail"
    assert judge_gloo_interface(None, NET, [], None).status == "warn"
    assert judge_gloo_interface(None, NET, ["192.0.2.9"], None).status == "warn"
    assert judge_gloo_interface(None, NET, ["10.0.0.5"], "10.0.0.5", took_s=4.0).status == "warn"
    assert judge_gloo_interface(None, {"eth0": ("10.0.0.5",)}, ["10.0.0.5"], "10.0.0.5").status == "fail"  # lo is down


def test_nccl_interface() -> None:
    assert judge_nccl_interface(None, NET).status == "ok"
    assert judge_nccl_interface("eth", NET).status == "ok"
    assert judge_nccl_interface("ib0", NET).status == "fail"
    assert judge_nccl_interface("^lo,eth,bare", NET).status == "fail"
    assert matching("^=eth0", ["eth0", "eth01"]) == ["eth01"]


def test_environment() -> None:
    assert judge_environment({"HOME": "/x"}).status == "ok"
    by_hand = judge_environment({"WORLD_SIZE": "3", "MASTER_PORT": "29500"})
    assert by_hand.status == "warn"
    assert by_hand.next_step == "unset WORLD_SIZE MASTER_PORT"
    both = judge_environment({"TORCH_DISTRIBUTED_DEBUG": "detail", "RANK": "0"})
    assert both.status == "fail"
    assert both.detail.startswith("TORCH_DISTRIBUTED_DEBUG=DETAIL crashes DDP on gloo")
    assert "RANK=0" in both.detail
    assert judge_environment({"TORCH_DISTRIBUTED_DEBUG": "INFO"}).status == "ok"
    assert judge_environment({"TORCH_DISTRIBUTED_DEBUG": "yes"}).status == "fail"
    assert judge_environment({"CUDA_LAUNCH_BLOCKING": "1"}).status == "note"


@pytest.mark.parametrize("ranks", ["0", "-1", "four", "", "4.0", "9999", "²"])
def test_malformed_ranks(ranks: str) -> None:
    assert judge_settings({"LABKIT_RANKS": ranks}).status == "fail"


def test_settings() -> None:
    assert judge_settings({}).status == "ok"
    assert judge_settings({"LABKIT_RANKS": " 8 ", "LABKIT_BACKEND": "NCCL"}).status == "ok"
    assert judge_settings({"LABKIT_BACKEND": "glo"}).next_step == "did you mean gloo?"
    assert "one of: auto" in judge_settings({"LABKIT_BACKEND": "mpi"}).next_step


def test_temporary_folder() -> None:
    root = "/tmp/labkit-1"
    assert judge_tempdir("/tmp", GIB, "", True, root, "").status == "ok"
    assert judge_tempdir("/tmp", GIB, "Read-only file system", False, root, "").status == "fail"
    assert judge_tempdir("/tmp", GIB, "", False, root, "").status == "warn"
    assert judge_tempdir("/tmp", GIB, "", True, root, f"{root} belongs to another user").status == "fail"
    assert judge_tempdir("/tmp", 100 * MIB, "", True, root, "").status == "warn"
    assert judge_tempdir("/tmp", MIB, "", True, root, "").status == "fail"
    assert judge_tempdir("/tmp", GIB, "", True, "/" + "x" * 90, "").status == "warn"


def test_hosts_are_never_more_than_a_note() -> None:
    assert judge_hosts(True, "").status == "ok"
    refused = judge_hosts(True, "this machine does not let you make a network namespace")
    assert (refused.status, "a recording" in refused.detail) == ("note", True)
    assert judge_hosts(False, "exit code 1, and not a word").status == "note"


def test_ptrace_is_never_more_than_a_note() -> None:
    assert judge_ptrace(True, True, "", "").status == "ok"
    forbidden = judge_ptrace(True, False, "Permission denied", "1")
    assert forbidden.status == "note"
    assert "SYS_PTRACE" in forbidden.next_step
    assert judge_ptrace(False, False, "", "").status == "note"
    assert judge_ptrace(True, False, "x", "", "darwin").status == "note"


def test_collective() -> None:
    good = RankAnswer(5.0, 1.0, 0.1, 0.01)
    assert judge_collective((good, good), 2.0, "lo").status == "ok"
    wrong = judge_collective((good, RankAnswer(3.0)), 2.0, "lo")
    assert wrong.status == "fail"
    assert "5.0 and 3.0" in wrong.detail
    # The rank that says why comes first, not the one that waited for it.
    late = judge_collective((RankAnswer(error="not done within 9 s"), RankAnswer(error="ended by signal 6")), 9.0, "lo")
    assert late.detail == "rank 1: ended by signal 6"


def test_the_two_ranks_get_a_clean_environment() -> None:
    env = rank_environment({"RANK": "1", "TORCH_DISTRIBUTED_DEBUG": "DETAIL", "GLOO_SOCKET_IFNAME": "eth9", "HOME": "/x"}, "lo")
    assert env == {"HOME": "/x", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
