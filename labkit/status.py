"""What each rank does at one moment: the rank cards, as records."""

from __future__ import annotations

from .document import Printed
from .plain import record


@record
class RankCard:
    """One rank as its card shows it.

    `state`: a word of `vocabulary.RankState`. `phrase`: what it does in a few words, such as "in all_reduce #5";
    empty where the state's own word says it all. `detail`: where, and for how long.
    """

    rank: int
    pid: int
    device: str
    backend: str
    state: str
    phrase: str = ""
    detail: str = ""
    host: str = "localhost"
    memory_bytes: int = 0

    @property
    def doing(self) -> str:
        """What the rank does, in words."""
        return self.phrase or self.state


@record
class WorldStatus(Printed):
    """The rank cards and the world's own facts."""

    world_size: int
    backend: str
    mode: str
    generation: int
    launcher: str
    cards: tuple[RankCard, ...]
    started_in_s: float = 0.0
    note: str = ""
