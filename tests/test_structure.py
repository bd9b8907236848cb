"""How the files of labkit hang together: no circle of imports, and no file reads what another keeps private."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

LABKIT = Path(__file__).resolve().parent.parent / "labkit"

# Private names of other people's packages that labkit rests on; contract tests hold most of them.
ALLOWED = {
    "driver/ipp.py": {
        "_client._queue_handlers", "_client._ids", "_client._send", "_client._mux_stream", "_client._control_stream",
        "_client._closed", "_client._registration_callbacks", "_client._engines",
        "_client._query_socket", "_client._update_engines", "Client._dispatch_iopub",
    },
    "rank/*": {
        "c10d._get_default_group", "c10d._world", "backend._allgather_base", "backend._reduce_scatter_base",
        "group._get_backend", "backend._start_coalescing", "backend._end_coalescing", "group._device_types",
        "dumps._dump_fr_trace_json", "dumps._dump_nccl_trace_json", "tensor._base",
        "reducer._get_zeros_like_grad_buckets", "tensor._version", "tensor._use_count", "storage._cdata",
        "wrapper._delay_all_reduce_params", "wrapper._comm_hooks", "obj._comm_hooks", "obj._untyped_storage",
    },
    "*": {"sys._getframe", "sys._current_frames", "sys._current_exceptions", "os._exit"},
}  # fmt: skip
# Parts in which some files still import each other; a part is taken out here once its files do not.
CIRCLES_LEFT = ("labkit.tensors", "labkit.views.")


def files() -> list[str]:
    return sorted(path.relative_to(LABKIT).as_posix() for path in LABKIT.rglob("*.py"))


def private_reads(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of every `x._name` where x is not the object itself or its class, as "x._name"."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
            continue
        owner = node.value
        if isinstance(owner, ast.Name) and owner.id in ("self", "cls"):
            continue
        name = owner.attr if isinstance(owner, ast.Attribute) else ast.unparse(owner)
        if name != "super()":
            yield node.lineno, f"{name}.{node.attr}"


def allowed(file: str) -> set[str]:
    return ALLOWED["*"] | ALLOWED.get(file, set()) | ALLOWED.get(f"{file.split('/', maxsplit=1)[0]}/*", set())


def test_no_file_reads_what_another_keeps_private() -> None:
    found = [
        f"labkit/{file}:{line}: {text}"
        for file in files()
        for line, text in private_reads((LABKIT / file).read_text())
        if text not in allowed(file)
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [("world._cluster", "world._cluster"), ("self._world._note(1)", "_world._note"), ("self._own; cls._own; x.__dict__", "")],
)
def test_a_private_read_is_caught(source: str, found: str) -> None:
    assert "".join(text for _, text in private_reads(source)) == found


def imported(source: str, package: tuple[str, ...]) -> Iterator[str]:
    """Full names of everything of labkit that a module imports by a relative import, type-only and late ones included."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)


def graph(root: Path) -> dict[str, set[str]]:
    """Which module of labkit imports which. A package counts for what its own file defines."""
    names = {file: ("labkit", *file.removesuffix(".py").removesuffix("/__init__").split("/")) for file in files()}
    modules = {".".join(name) for name in names.values()}
    found: dict[str, set[str]] = {}
    for file, parts in names.items():
        used = set()
        for name in imported((root / file).read_text(), ("labkit", *file.split("/")[:-1])):
            used.add(name if name in modules else name.rpartition(".")[0])
        found[".".join(parts)] = {each for each in used if each in modules} - {".".join(parts)}
    return found


def circles(found: Mapping[str, set[str]]) -> list[set[str]]:
    """The sets of modules that import each other, directly or through others."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        todo = [start]
        while todo:
            new = found.get(todo.pop(), set()) - seen
            seen |= new
            todo += new
        return seen

    reach = {name: reached(name) for name in found}
    rings = {
        frozenset(other for other in reach[name] if name in reach.get(other, set())) for name in found if name in reach[name]
    }
    return [set(ring) for ring in rings]


def test_no_circle_of_imports() -> None:
    new = [sorted(ring) for ring in circles(graph(LABKIT)) if not any(each.startswith(CIRCLES_LEFT) for each in ring)]
    assert new == []


def test_a_circle_is_caught() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == [{"a", "b", "c"}]
