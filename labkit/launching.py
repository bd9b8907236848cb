"""What the kernel and a rank's engine must agree on: the engine's command line, and the names that a rank begins with."""

from __future__ import annotations

OWN_NAMES = ("rank", "world_size", "device", "torch", "dist")  # a rank's variables that are labkit's, not the learner's


def engine_arguments(rank: int, run_dir: str) -> list[str]:
    """Options of ipyparallel's engine: its id is the rank, it starts no helper of its own, and it boots as a rank.

    >>> engine_arguments(2, "/tmp/w")[1]
    '--IPEngine.id=2'
    """
    boot = "__import__('labkit.rank.boot', fromlist=['install']).install()"
    return [
        f"--profile-dir={run_dir}",
        f"--IPEngine.id={rank}",
        "--IPEngine.enable_nanny=False",
        "--IPEngine.wait_for_url_file=30",
        f"--IPEngine.startup_command={boot}",
        "--log-level=ERROR",
    ]
