"""Whether lines of a cell read what is in a tensor; its shape, and a tensor that is only handed on, do not count."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterable

_OF_THE_OUTSIDE = {
    "shape", "dtype", "device", "layout", "numel", "size", "dim", "ndim", "nelement", "element_size", "is_contiguous", "stride",
    "data_ptr", "requires_grad", "grad", "grad_fn", "is_cuda", "is_sparse", "view", "view_as", "reshape", "flatten", "detach",
    "untyped_storage", "record_stream",
}  # fmt: skip
_PERHAPS = (ast.If, ast.Try, ast.While, ast.FunctionDef, ast.ClassDef)  # may not run there
_READERS = {"print", "float", "int", "bool", "sum", "max", "min"}


def tree_of(file: str) -> ast.Module | None:
    """A cell's syntax tree; None where its text can't be had."""
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None


def reads(nodes: Iterable[ast.AST], name: str, after: int = 0) -> bool:
    """Whether one of these computes with the elements of the tensor `name`, in a line after `after`."""
    return any(
        _is(operand, name) and operand.lineno > after for node in nodes for each in ast.walk(node) for operand in _operands(each)
    )


def _operands(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.BinOp():
            return [node.left, node.right]
        case ast.UnaryOp():
            return [node.operand]
        case ast.AugAssign():
            return [node.value]
        case ast.Compare():
            return [node.left, *node.comparators] if not isinstance(node.ops[0], (ast.Is, ast.IsNot)) else []
        case ast.Call(func=ast.Attribute() as method) if method.attr not in _OF_THE_OUTSIDE:
            of_torch = isinstance(method.value, ast.Name) and method.value.id == "torch" and "like" not in method.attr
            return [method.value, *(node.args if of_torch else [])]
        case ast.Call(func=ast.Name(id=function)) if function in _READERS:
            return node.args
        case ast.FormattedValue():
            return [node.value]
        case _:
            return []


def _is(node: ast.expr, name: str) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    return isinstance(node, ast.Name) and node.id == name


def read_between(tree: ast.Module, name: str, begin: int, end: int) -> bool:
    """Whether statements between two lines of one block, which run one after the other, compute with the tensor `name`."""
    for block in _blocks(tree):
        at = [number for number, each in enumerate(block) if each.lineno <= begin <= (each.end_lineno or 0)]
        if not at or isinstance(block[at[0]], (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)):
            continue
        between = []
        for each in block[at[0] + 1 :]:
            if each.lineno >= end or _sets(each, name):
                break
            if (each.end_lineno or 0) < end:
                between.append(each)
        return reads((each for each in between if not isinstance(each, _PERHAPS)), name)
    return False


def _blocks(tree: ast.Module) -> Iterable[list[ast.stmt]]:
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list):
                yield block


def _sets(node: ast.AST, name: str) -> bool:
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in ast.walk(node))
