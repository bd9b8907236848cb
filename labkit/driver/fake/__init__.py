"""A world without processes: ranks that take turns in this one, run real cells on numpy, and wait on a clock of their own.

Serves one need: whatever lies above the cluster - the world, rules, views, recovery, labs - can be tried
in milliseconds, without torch, and always comes out the same. It models what gloo does to ranks that do
not agree (a hang, an abort, silently wrong numbers), not how it does it, and knows only a part of torch.

    turns     one rank runs at a time, and time passes only when all of them wait
    tensors   the part of torch that cells of demos use, on numpy
    meeting   collectives: who meets whom, and what comes of it
    messages  the messages of schedules, and the time they take
    schedules the programs of schedules, move by move
    rank      one rank: its namespace, its calls, what is seen of it
    faults    the faults, those that act on a process acted out
    ops       the requests a rank answers
    cluster   what the world holds: cluster, transport and feed
"""

from __future__ import annotations

from .cluster import FakeCluster

__all__ = ["FakeCluster"]
