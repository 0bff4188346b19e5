#!/usr/bin/env python3
"""Check the floors of the package: who may import whom, no cycles, no big files, functions or classes.

    python scripts/floors.py [PACKAGE_FOLDER]

A module imports modules of strictly lower floors and of its own package; imports inside functions and under
TYPE_CHECKING count like any other. Root modules of one floor are one package. Every violation is printed as
`path:line: what`, and the exit code is 1 if there was one. Nothing can be exempted.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT_MODULES = {"command": 1, "cli": 5, "__main__": 5}  # every other root module is on floor 0
PACKAGES = {
    **dict.fromkeys(("config", "session", "llm", "tools", "viking"), 1),
    "agent": 2,
    **dict.fromkeys(("takeover", "memory", "extensions"), 3),
    **dict.fromkeys(("commands", "app", "export"), 4),
    "ui": 5,
}
SIDEWAYS = {("app", "commands"), ("app", "export"), ("root 5", "ui")}
FILE_LINES, FUNCTION_LINES, CLASS_METHODS = 400, 60, 12

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


class Module(NamedTuple):
    """`name` is dotted; `place` is its package ("session") or, for a root module, its floor ("root 0")."""

    name: str
    path: Path
    tree: ast.Module
    lines: int
    place: str
    floor: int


class Import(NamedTuple):
    """One import of a module of our own, as the line that makes it."""

    source: Module
    target: str
    line: int


class Violation(NamedTuple):
    path: Path
    line: int
    what: str


def place_of(parts: tuple[str, ...]) -> tuple[str, int] | None:
    """Give package and floor for the path of a module below the root package; None: its package is on no floor."""
    if len(parts) == 1:
        floor = ROOT_MODULES.get(parts[0], 0)
        return f"root {floor}", floor
    floor = PACKAGES.get(parts[0])
    return None if floor is None else (parts[0], floor)


def load(folder: Path) -> tuple[dict[str, Module], list[Violation]]:
    """Parse every module below `folder`; what cannot be parsed or is on no floor becomes a violation."""
    modules: dict[str, Module] = {}
    found: list[Violation] = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        place = place_of(parts)
        if place is None:
            found.append(Violation(path, 1, f"{parts[0]} is on no floor"))
            continue
        text = path.read_text(encoding="utf-8")
        try:
            tree = ast.parse(text, str(path))
        except SyntaxError as error:
            found.append(Violation(path, error.lineno or 1, f"cannot be parsed: {error.msg}"))
            continue
        dotted = parts[:-1] if parts[-1] == "__init__" else parts
        name = ".".join((folder.name, *dotted))
        modules[name] = Module(name, path, tree, len(text.splitlines()), *place)
    return modules, found


def imported_names(tree: ast.Module) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """Yield (line, module, names taken from it) for each absolute import, wherever it stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ()
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.lineno, node.module, tuple(alias.name for alias in node.names)
        elif isinstance(node, ast.Call) and node.args:
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            first = node.args[0]
            if (
                called in ("import_module", "__import__")
                and isinstance(first, ast.Constant)
                and isinstance(first.value, str)
            ):
                yield node.lineno, first.value, ()


def imports_of(module: Module, modules: dict[str, Module]) -> Iterator[Import]:
    """Yield the imports of our own modules; `from package import module` names the module."""
    package = module.name.split(".", 1)[0]
    for line, base, names in imported_names(module.tree):
        if base.split(".", 1)[0] != package:
            continue
        targets = {name if (name := f"{base}.{each}") in modules else base for each in names} or {base}
        for target in sorted(targets):
            yield Import(module, target, line)


def check_relative(module: Module) -> Iterator[Violation]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            yield Violation(module.path, node.lineno, "relative import; write the full name")


def check_floor(made: Import, modules: dict[str, Module]) -> Violation | None:
    """Judge one import by the floors of its two ends."""
    source, target = made.source, modules.get(made.target)
    if target is None:
        return Violation(source.path, made.line, f"imports {made.target}, which does not exist")
    if target.floor < source.floor or target.place == source.place or (source.place, target.place) in SIDEWAYS:
        return None
    way = "a higher floor" if target.floor > source.floor else "another package of the same floor"
    return Violation(
        source.path,
        made.line,
        f"{source.name} (floor {source.floor}) imports {target.name} (floor {target.floor}): {way}",
    )


def find_cycle(start: str, graph: dict[str, dict[str, int]]) -> list[str]:
    """Give the shortest way from `start` back to itself, or nothing."""
    before: dict[str, str] = {}
    queue = [start]
    for name in queue:
        for target in graph.get(name, {}):
            if target == start:
                way = [start, name]
                while way[-1] != start:
                    way.append(before[way[-1]])
                return way[::-1] if name != start else [start, start]
            if target not in before:
                before[target] = name
                queue.append(target)
    return []


def check_cycles(made: list[Import], modules: dict[str, Module]) -> Iterator[Violation]:
    """Report each cycle once, at the import with which its first module enters it."""
    graph: dict[str, dict[str, int]] = {}
    for each in made:
        if each.target in modules:
            graph.setdefault(each.source.name, {}).setdefault(each.target, each.line)
    reported: set[str] = set()
    for name in sorted(graph):
        way = [] if name in reported else find_cycle(name, graph)
        if way:
            reported.update(way)
            yield Violation(modules[name].path, graph[name][way[1]], "import cycle: " + " -> ".join(way))


def methods_of(body: list[ast.stmt]) -> list[FunctionNode]:
    """List the functions of a class body, those under `if` and `try` too."""
    methods: list[FunctionNode] = []
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            methods.append(node)
        elif not isinstance(node, ast.ClassDef):
            inner = [child for child in ast.walk(node) if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))]
            methods.extend(inner)
    return methods


def check_sizes(module: Module) -> Iterator[Violation]:
    if module.lines > FILE_LINES:
        yield Violation(module.path, FILE_LINES + 1, f"file has {module.lines} lines, at most {FILE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES:
                what = f"function {node.name} has {length} lines, at most {FUNCTION_LINES}"
                yield Violation(module.path, node.lineno, what)
        elif isinstance(node, ast.ClassDef):
            count = len(methods_of(node.body))
            if count > CLASS_METHODS:
                what = f"class {node.name} has {count} methods, at most {CLASS_METHODS}"
                yield Violation(module.path, node.lineno, what)


def check(folder: Path) -> list[Violation]:
    """Find every violation in the package at `folder`, in the order of the files."""
    modules, found = load(folder)
    made = [each for module in modules.values() for each in imports_of(module, modules)]
    for module in modules.values():
        found.extend(check_relative(module))
        found.extend(check_sizes(module))
    found.extend(wrong for each in made if (wrong := check_floor(each, modules)))
    found.extend(check_cycles(made, modules))
    return sorted(set(found))


def main(arguments: list[str]) -> int:
    folder = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent / "vikingpi"
    if not (folder / "__init__.py").is_file():
        print(f"floors: {folder} is no package", file=sys.stderr)
        return 2
    violations = check(folder.resolve())
    here = Path.cwd()
    for path, line, what in violations:
        shown = path.relative_to(here) if path.is_relative_to(here) else path
        print(f"{shown}:{line}: {what}")
    return 1 if violations else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
