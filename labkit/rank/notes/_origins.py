"""The tensors that an expression makes a new one of: `(x + 1).contiguous()` comes from x.

Nothing is evaluated: names are looked up, attributes only where they are stored. What can't be known comes from nothing.
"""

from __future__ import annotations

import ast
from types import FrameType
from typing import Any

import torch

_SAME = {"grad", "data", "T", "mT", "H", "mH", "real", "imag"}  # attributes of a tensor that are tensors of its elements
_SHAPE_ONLY = {"size", "dim", "numel", "ndimension", "nelement", "stride", "element_size", "data_ptr", "type", "get_device"}


def origins(node: ast.expr, frame: FrameType) -> dict[str, torch.Tensor]:
    """Name and tensor of each tensor that an expression's elements come from, as far as it can be known."""
    names: dict[str, Any] = {}
    for each in ast.walk(node):
        if isinstance(each, ast.Name):
            names[each.id] = frame.f_locals.get(each.id, frame.f_globals.get(each.id))
    found: dict[str, torch.Tensor] = {}
    _collect(node, names, found)
    return found


def _collect(node: ast.AST, names: dict[str, Any], found: dict[str, torch.Tensor]) -> None:
    match node:
        case ast.Name() | ast.Attribute() | ast.Subscript():
            _place(node, names, found)
        case ast.Call():
            _call(node, names, found)
        case ast.BinOp():
            _collect(node.left, names, found)
            _collect(node.right, names, found)
        case ast.UnaryOp():
            _collect(node.operand, names, found)
        case ast.List() | ast.Tuple():
            for each in node.elts:
                _collect(each, names, found)
        case ast.ListComp() | ast.GeneratorExp():
            for part in node.generators:
                _collect(part.iter, names, found)
        case ast.IfExp():
            _collect(node.body, names, found)
            _collect(node.orelse, names, found)


def _call(node: ast.Call, names: dict[str, Any], found: dict[str, torch.Tensor]) -> None:
    """A method of a tensor, or a function of torch's; any other may make whatever it likes."""
    function, told = node.func, (*node.args, *(keyword.value for keyword in node.keywords))
    if isinstance(function, ast.Attribute):
        if function.attr in _SHAPE_ONLY:
            return
        base: dict[str, torch.Tensor] = {}
        _collect(function.value, names, base)
        owner = _stored(function.value, names)
        if isinstance(owner, torch.nn.Module) and function.attr == "parameters":
            base = {ast.unparse(node): parameter for parameter in owner.parameters()}
        if base:
            if not function.attr.startswith("new_"):
                found.update(base)
                return
        elif not _of_torch(function, names):
            return
    elif not _of_torch(function, names):
        return
    if not (isinstance(function, ast.Attribute) and function.attr.endswith("_like")):
        for each in told:
            _collect(each, names, found)


def _of_torch(node: ast.expr, names: dict[str, Any]) -> bool:
    """Whether a function belongs to torch; `float` and its like only pass a number on."""
    if isinstance(node, ast.Name) and node.id in ("float", "int", "bool", "list", "tuple", "sum"):
        return True
    thing = _stored(node, names)
    owner = getattr(thing, "__module__", None)
    if not isinstance(owner, str) and isinstance(node, ast.Attribute):  # a function in C has no module: the one it is taken from
        owner = getattr(_stored(node.value, names), "__name__", "")
    return callable(thing) and str(owner).split(".")[0] == "torch" and not isinstance(thing, torch.nn.Module)


def _place(node: ast.expr, names: dict[str, Any], found: dict[str, torch.Tensor]) -> None:
    """A variable, an attribute or an element, which may be a tensor or hold some."""
    if isinstance(node, ast.Subscript):
        _collect(node.value, names, found)
        return
    value = _stored(node, names)
    if isinstance(value, torch.Tensor):
        found[ast.unparse(node)] = value
    elif isinstance(value, (list, tuple, dict)):
        inside = value.values() if isinstance(value, dict) else value
        for number, each in enumerate(inside):
            if isinstance(each, torch.Tensor):
                found[f"{ast.unparse(node)}[{number}]"] = each


def _stored(node: ast.expr, names: dict[str, Any]) -> Any:
    """What a dotted name stands for, without running a property."""
    match node:
        case ast.Name():
            return names.get(node.id)
        case ast.Constant():
            return node.value
        case ast.Subscript():
            return _element(_stored(node.value, names), _stored(node.slice, names))
        case ast.Attribute():
            return _attribute(_stored(node.value, names), node.attr)
        case _:
            return None


def _attribute(base: Any, name: str) -> Any:
    """An attribute that is stored in an object or a module, or one of a tensor's that is a tensor."""
    if isinstance(base, torch.Tensor):
        return getattr(base, name) if name in _SAME else None
    held = getattr(base, "__dict__", None)
    if not isinstance(held, dict):
        return None
    if isinstance(base, torch.nn.Module):
        held = {**held, **held["_parameters"], **held["_buffers"], **held["_modules"]}
    return held.get(name)


def _element(base: Any, key: Any) -> Any:
    """An element of a list, a dictionary or a Sequential; None for anything else."""
    if isinstance(base, torch.nn.Sequential | torch.nn.ModuleList):
        base = list(base.children())
    try:
        return base[key] if type(base) in (list, tuple, dict) else None
    except (IndexError, KeyError, TypeError):
        return None
