"""Every public name of a Python package, read from its wheel without running it."""

from __future__ import annotations

import ast
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

NEWER = (
    (re.compile(r"^(\s*(?:class|def) \w+)\[[^\]]*\]", re.MULTILINE), r"\1"),
    (re.compile(r"^type (\w+ =)", re.MULTILINE), r"\1"),
)
"""Type parameters and type statements, which the parser of Python 3.11 does not know, and what takes their place."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


class PublicNames:
    """What the modules of a package offer. A part that begins with `_` makes a name private.

    Modules, what is defined in them, and the members of classes have one name each: the shortest one.
    """

    def __init__(self, wheel: Path, package: str) -> None:
        self._modules: dict[str, ast.Module] = {}
        self._packages: set[str] = set()
        with zipfile.ZipFile(wheel) as opened:
            for file in opened.namelist():
                if file.startswith(f"{package}/") and file.endswith(".py"):
                    text = opened.read(file).decode()
                    for newer, older in NEWER:
                        text = newer.sub(older, text)
                    name = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
                    self._modules[name] = ast.parse(text, file)
                    if file.endswith("/__init__.py"):
                        self._packages.add(name)
        self.keywords: dict[str, set[str]] = {}
        """By the name of a function or method: the parameters that a caller can name."""
        public = [name for name in self._modules if not any(part.startswith("_") for part in name.split("."))]
        self.found = set(public) - {package}
        seen: set[str] = {name.rpartition(".")[2] for name in public}
        for module in sorted(public, key=lambda name: (name.count("."), name)):
            for name in self._offered(module) - seen:
                seen.add(name)
                self._add(f"{module}.{name}", name)

    def _add(self, public: str, name: str) -> None:
        self.found.add(public)
        for node in (node for tree in self._modules.values() for node in tree.body if name in bound(node)):
            if isinstance(node, Function):
                self.keywords[public] = keywords(node)
            elif isinstance(node, ast.ClassDef):
                for each in node.body:
                    for member in (member for member in bound(each) if not member.startswith("_")):
                        self.found.add(f"{public}.{member}")
                        if isinstance(each, Function) and not is_property(each):
                            self.keywords[f"{public}.{member}"] = keywords(each)

    def _offered(self, module: str) -> set[str]:
        """The names of `__all__`, or else what is defined there or imported from all of another module of the package."""
        body = self._modules[module].body
        for node in body:
            if "__all__" in bound(node):
                assert isinstance(node, (ast.Assign, ast.AnnAssign))
                assert node.value is not None
                return set(ast.literal_eval(node.value))
        found = {name for node in body for name in bound(node)}
        for node in body:
            if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
                found |= self._offered(self._source(module, node))
        return {name for name in found if not name.startswith("_")}

    def _source(self, module: str, node: ast.ImportFrom) -> str:
        parts = module.split(".")
        parts = parts[: len(parts) - node.level + (module in self._packages)] if node.level else []
        return ".".join([*parts, *([node.module] if node.module else [])])


def bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))


def is_property(node: Function) -> bool:
    """Whether a method is read as an attribute."""
    return any("property" in ast.unparse(each) or ".setter" in ast.unparse(each) for each in node.decorator_list)


def keywords(node: Function) -> set[str]:
    """The parameters of a function that a caller can name."""
    return {each.arg for each in node.args.args + node.args.kwonlyargs} - {"self", "cls", "_"}
