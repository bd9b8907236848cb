"""Places in code as records: a line, a frame of a stack, and an exception with the line that raised it."""

from __future__ import annotations

from .phrases import cut
from .plain import record

_PROMPTS = 10_000_000  # below it cells are counted one by one; from it on they are a notebook's, 10,000 for each prompt
_RUNS = 10_000


def next_cell(last: int, prompt: int = 0) -> int:
    """The number of the cell after `last`; `prompt` is the number in the brackets of the notebook's cell, 0 if there is none.

    Numbers only grow. Those of a notebook's cells hold the prompt, so that a cell has the name that a person sees.

    >>> cell_label(next_cell(3)), cell_label(next_cell(3, 30)), cell_label(next_cell(next_cell(3, 30), 30))
    ('4', '30', '30.2')
    """
    return max(last + 1, _PROMPTS + prompt * _RUNS if prompt > 0 else 0)


def cell_label(number: int) -> str:
    """A cell's number as people see it: "30", or "30.2" for the second run of code on the ranks in In[30]."""
    if number < _PROMPTS:
        return str(number)
    prompt, run = divmod(number - _PROMPTS, _RUNS)
    return f"{prompt}.{run + 1}" if run else str(prompt)


def cell_name(number: int) -> str:
    """A cell's name, in sentences and as the name of its file: "cell 30"."""
    return f"cell {cell_label(number)}"


@record
class CallSite:
    """A place in code: "cell 7, line 3", or "train.py, line 12"."""

    file: str
    line: int
    function: str = ""

    @property
    def cell(self) -> str:
        """The number of the rank cell as people see it: "7"; "" for a file."""
        head, _, number = self.file.partition(" ")
        return number if head == "cell" and number.replace(".", "", 1).isdigit() else ""

    def __str__(self) -> str:
        name = self.file if self.cell else self.file.replace("\\", "/").rsplit("/", 1)[-1]
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
