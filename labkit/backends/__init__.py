"""The backends of torch.distributed that a world can use: one file each, found by name in `BACKENDS`.

A backend has a second file of the same name in `labkit/rank/backends/`: what it does inside of a rank.
"""

from .base import BACKENDS, Backend, backend_names, choose, find, one_gpu

__all__ = ["BACKENDS", "Backend", "backend_names", "choose", "find", "one_gpu"]
