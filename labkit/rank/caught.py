"""Exceptions that a cell's own `except` catches and does not raise again: the reason why a rank skips its calls.

Nothing of such an exception is left afterwards, so the cell is compiled with a note at the top of each of its handlers. It costs
nothing where nothing is raised.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import OrderedDict

from ..diagnosis.standing import is_echo
from ..wire import CodeError
from .raised import describe_error

NAME = "__labkit_caught__"
MOST = 8


class Caught:
    """The newest exceptions that the running cell has caught, one for each handler and kind."""

    def __init__(self) -> None:
        self._found: OrderedDict[tuple[str, int, str], CodeError] = OrderedDict()

    def begin_cell(self) -> None:
        """They are told of one cell only; the handlers of its functions call `note`."""
        self._found.clear()
        setattr(builtins, NAME, self.note)

    def note(self) -> None:
        """The code that calls is at the top of a handler."""
        error, code = sys.exception(), sys._getframe(1).f_code
        if error is None:
            return
        key = code.co_filename, code.co_firstlineno, type(error).__name__
        if key in self._found:  # a handler in a loop: the newest counts, and its text is made once in a cell
            self._found.move_to_end(key)
            return
        described = describe_error(error, alone=True)
        if isinstance(error, Exception) and not is_echo(described):
            self._found[key] = described
            if len(self._found) > MOST:
                self._found.popitem(last=False)

    @property
    def newest(self) -> tuple[CodeError, ...]:
        """The newest last."""
        return tuple(self._found.values())


class _Notes(ast.NodeTransformer):
    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> ast.ExceptHandler:
        self.generic_visit(node)
        call = ast.Expr(ast.Call(ast.Name(NAME, ast.Load()), [], []))
        node.body.insert(0, ast.fix_missing_locations(ast.copy_location(call, node)))
        return node


def with_notes(tree: ast.Module) -> ast.Module:
    """A cell that says what its handlers catch; its lines are as they were."""
    return _Notes().visit(tree)  # type: ignore[no-any-return]
