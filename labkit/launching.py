"""The command line of a rank's engine, which the kernel and an engine started by others must agree on."""

from __future__ import annotations


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
