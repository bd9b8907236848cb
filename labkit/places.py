"""Places in code as records: a line, a frame of a stack, and an exception with the line that raised it."""

from __future__ import annotations

from .phrases import cut
from .plain import record


@record
class CallSite:
    """A place in code: "cell 7, line 3", or "train.py, line 12"."""

    file: str
    line: int
    function: str = ""

    @property
    def cell(self) -> int | None:
        """The number of the rank cell, or None for a file."""
        head, _, number = self.file.partition(" ")
        return int(number) if head == "cell" and number.isdigit() else None

    def __str__(self) -> str:
        name = self.file if self.cell is not None else self.file.replace("\\", "/").rsplit("/", 1)[-1]
        return f"{name}, line {self.line}"


@record
class Frame:
    """One line of a stack: `users` if it is the learner's code; `skipped` library frames before it were left out."""

    file: str
    line: int
    function: str
    users: bool = False
    skipped: int = 0

    @property
    def site(self) -> CallSite:
        return CallSite(self.file, self.line, self.function)

    @property
    def name(self) -> str:
        """The function without its class."""
        return self.function.rpartition(".")[2]


@record
class CodeError:
    """An exception in a rank's code: type, one-line message, the line of the learner's that raised.

    `own`: a `raise` statement of the learner's made it, and no other exception came before it. `handling`: the exception that
    was being handled when this one was raised, if the learner's code had a part in that.
    `parameters`: name and shape of those of a model that DDP has refused.
    """

    type: str
    message: str
    site: CallSite | None = None
    traceback: str = ""
    own: bool = False
    handling: CodeError | None = None
    parameters: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"

    def said(self, limit: int = 240) -> str:
        """Type and message for a sentence: one line without a full stop, a long one cut in the middle.

        >>> CodeError("KeyError", "'y'").said(), CodeError("ValueError", "").said()
        ("KeyError: 'y'", 'ValueError')
        """
        message = " ".join(self.message.split()).rstrip(". ")
        return f"{self.type}: {cut(message, limit)}" if message else self.type
