"""What each backend does inside of a rank: one file each, found by name in `RANK_BACKENDS`."""

from .base import RANK_BACKENDS, RankBackend, make_backend

__all__ = ["RANK_BACKENDS", "RankBackend", "make_backend"]
