"""The imports, functions, classes and constants of cells, made again from their source, and nothing else of the cells.

What runs here must have no effect but a name. So a definition counts only if what Python evaluates with it (decorators, defaults,
base classes, the body of a class) makes no call, apart from calls to what is known to be harmless.
"""

from __future__ import annotations

import ast
import linecache
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ..phrases import code_lines
from ..places import cell_name

_IMPORTS = (ast.Import, ast.ImportFrom)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_NOT_NOW = (
    ast.Call,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
    ast.NamedExpr,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
)
_HARMLESS = frozenset(
    "dataclass dataclasses.dataclass field dataclasses.field functools.cache functools.lru_cache functools.wraps lru_cache "
    "torch.no_grad torch.inference_mode torch.enable_grad torch.device torch.compile contextmanager contextlib.contextmanager "
    "namedtuple collections.namedtuple TypeVar typing.TypeVar NewType typing.NewType".split()
)


def bound(statement: ast.stmt) -> list[str]:
    """The names that a definition makes.

    >>> bound(ast.parse("import torch.nn.functional as F, os.path").body[0])
    ['F', 'os']
    """
    if isinstance(statement, _IMPORTS):
        return [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return [statement.name]
    return [target.id for target in getattr(statement, "targets", ()) if isinstance(target, ast.Name)]


def definitions(source: str, constants: frozenset[str] = frozenset()) -> list[ast.stmt]:
    """The definitions at the top of a cell; assignments of literals to these `constants`.

    >>> [bound(one) for one in definitions("import os\\nx = 1\\nf = open('a')\\ndef g(): return f")]
    [['os'], ['g']]
    """
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return []
    return [each for each in tree.body if _is_definition(each, constants)]


def once_assigned(sources: Iterable[str]) -> frozenset[str]:
    """Names that all of these cells together bind once, so that a literal they begin with is what they still hold."""
    counts: Counter[str] = Counter()
    for source in sources:
        try:
            tree = ast.parse(source)
        except SyntaxError:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                counts[node.id] += 1
            elif isinstance(node, (ast.Global, ast.Nonlocal)):
                counts.update(node.names * 2)
            elif isinstance(node, _IMPORTS):
                counts.update(bound(node))
            elif isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
                counts[node.name] += 1
    return frozenset(name for name, count in counts.items() if count == 1)


def _is_definition(node: ast.stmt, constants: frozenset[str]) -> bool:
    if isinstance(node, _IMPORTS):
        return all(alias.name != "*" for alias in node.names)
    if isinstance(node, _FUNCTIONS):
        return all(map(_harmless, (*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults))))
    if isinstance(node, ast.ClassDef):
        given = (*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords))
        return all(map(_harmless, given)) and all(map(_in_class, node.body))
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id in constants for target in node.targets) and _literal(node.value)
    return False


def _in_class(node: ast.stmt) -> bool:
    """A statement of a class body that only defines."""
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return node.value is None or _harmless(node.value)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant)
    return isinstance(node, ast.Pass) or _is_definition(node, frozenset())


def _harmless(node: ast.expr) -> bool:
    return all(
        not isinstance(part, _NOT_NOW) or (isinstance(part, ast.Call) and ast.unparse(part.func) in _HARMLESS)
        for part in ast.walk(node)
        if not isinstance(part, ast.Lambda)
    )


def _literal(node: ast.expr) -> bool:
    """A value that nothing can change in place: numbers, strings, and tuples of them."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return False
    return _fixed(value)


def _fixed(value: Any) -> bool:
    return all(map(_fixed, value)) if isinstance(value, tuple) else not isinstance(value, list | dict | set)


def replay(cells: Sequence[tuple[int, str, bool]], namespace: dict[str, Any], after: int = 0) -> tuple[list[str], dict[str, str]]:
    """Make again what cells (number, source, whether it ran well) define and `namespace` lacks; the names, and what failed.

    What cells after cell `after` define is made also where it is there: the other ranks have the newer one. Every cell's
    source is kept for tracebacks, as `run_cell` does.
    """
    there = set(namespace)
    made: dict[str, None] = {}
    failed: dict[str, str] = {}
    constants = once_assigned(source for _, source, _ in cells)
    for number, source, ran_well in cells:
        name = cell_name(number)
        linecache.cache[name] = (len(source), None, [f"{line}\n" for line in code_lines(source)], name)
        for statement in definitions(source, constants if ran_well else frozenset()):
            names = [each for each in bound(statement) if number > after or each not in there]
            if not names:
                continue
            known = {each: namespace[each] for each in bound(statement) if each in there and each not in names}
            try:
                exec(compile(ast.Module([statement], type_ignores=[]), name, "exec"), namespace)  # noqa: S102
            except Exception as error:  # noqa: BLE001 - it may need what is lost; it is told, and the next one has its turn
                failed.update(dict.fromkeys(names, f"its definition raised {type(error).__name__}: {error}"[:120]))
            else:
                made.update(dict.fromkeys(names))
            namespace.update(known)
    return list(made), {name: why for name, why in failed.items() if name not in made}
