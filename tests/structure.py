"""Figures of the code's structure: `python -m tests.structure [CHECKOUT]` prints them as a table.

Files and lines per package, public names, public class names that two modules share, names imported from a module that does
not define them, words in docstrings, blocks whose cyclomatic complexity is above a limit (counted by radon), and public
functions whose docstrings do not describe their parameters.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from radon.complexity import cc_visit

import choroid
from choroid.common.child import PACKAGES

ROOT = Path(__file__).resolve().parents[1]
GENERATED = "wire"
"""Folders of generated code."""
MAX_COMPLEXITY = 10
"""Rank C of radon begins above this."""
MAX_PARAMETERS = 8
"""Largest number of parameters of a constructor."""
VERY_COMPLEX = 30
"""Rank E begins above this."""
DESCRIBED = (
    r"choroid\.client\b.*",
    r"drivers\.(device|commands|settings|errors|output|doses|results)",
    r"drivers\.transport\..*",
    r"drivers\.conformance\.(bench|examine|far_end|peer)",
    r"nerves\.cards\.(?!conformance\.properties).*",
)
"""Modules that other people program with; the docstring of a property of a card says what it examines."""
SECTION = re.compile(r"^(Args|Returns|Yields):\n((?: {4}.*\n?|\n(?= {4}))*)", re.MULTILINE)
ITEM = re.compile(r"^ {4}\*{0,2}(\w+): \S", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Module:
    """A parsed module, its names, and what it imports from where (local name -> module, name)."""

    name: str
    path: Path
    tree: ast.Module
    defined: frozenset[str]
    imported: Mapping[str, tuple[str, str]]


@cache
def modules(root: Path = ROOT, packages: tuple[str, ...] = (*PACKAGES, "tests")) -> dict[str, Module]:
    """Parse every module below `packages`, generated ones left out."""
    found = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            if GENERATED in parts or "node_modules" in parts:
                continue
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            found[name] = _module(name, path)
    return found


def _module(name: str, path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    defined: set[str] = set()
    imported: dict[str, tuple[str, str]] = {}
    for node in _statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            defined |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            imported |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
    return Module(name, path, tree, frozenset(defined), imported)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a module, those within `if` and `try` as well."""
    for node in body:
        yield node
        for field in ("body", "orelse", "finalbody"):
            if isinstance(node, ast.If | ast.Try | ast.With):
                yield from _statements(getattr(node, field, []))
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield from _statements(handler.body)


def shared_names(known: Mapping[str, Module]) -> dict[str, list[str]]:
    """Return public class names that several modules define; a driver and its simulated device may share one."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module in known.values():
        if module.name.partition(".")[0] == "tests":
            continue
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module.name)
    return {name: where for name, where in sorted(homes.items()) if len(where) > 1 and not _twins(where)}


def _twins(where: list[str]) -> bool:
    return sorted(name.partition(".")[0] for name in where) == ["drivers", "sim"]


def re_exports(known: Mapping[str, Module], public: frozenset[str] = frozenset({"choroid"})) -> list[str]:
    """Return imports of a name from a module that itself imports it, or from the importing module; `public` modules may pass
    names on.
    """
    found = []
    for module in known.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or node.module is None or node.module in public:
                continue
            source = known.get(node.module)
            if source is None:
                continue
            if source is module:
                found.append(f"{module.name}:{node.lineno} imports itself")
                continue
            for alias in node.names:
                own = alias.name in source.defined or f"{node.module}.{alias.name}" in known
                if not own and source.imported.get(alias.name, ("",))[0] in known:
                    found.append(f"{module.name}:{node.lineno} takes {alias.name} from {node.module}")
    return found


def docstring_words(known: Mapping[str, Module]) -> int:
    """Count the words of docstrings in the product."""
    documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return sum(
        len((ast.get_docstring(node) or "").split())
        for module in known.values()
        if not module.name.startswith("tests")
        for node in ast.walk(module.tree)
        if isinstance(node, documented)
    )


def undescribed(known: Mapping[str, Module]) -> list[str]:
    """Return the public functions and methods whose docstrings do not list exactly their parameters, or not what they return.

    Those of the modules in :data:`DESCRIBED` and those that `choroid` exports. That there is a docstring is checked by ruff.
    """
    exported = {(home, name) for name, home in choroid._HOMES.items()}
    found = []
    for module in known.values():
        everything = any(re.fullmatch(pattern, module.name) for pattern in DESCRIBED)
        for node in module.tree.body:
            if not everything and (module.name, getattr(node, "name", "")) not in exported:
                continue
            for name, function in _functions(node):
                if lacking := _lacking(function):
                    found.append(f"{module.name}.{name}: {lacking}")
    return found


def _functions(node: ast.stmt) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield a public function, or the public methods of a class, by name. A private class may pass its methods on."""
    if isinstance(node, ast.ClassDef):
        for inner in node.body:
            for name, function in _functions(inner):
                yield f"{node.name}.{name}", function
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
        yield node.name, node


def _lacking(function: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return which section the docstring of a function with parameters lacks; empty if none."""
    given = function.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    names = [each.arg for each in every if each is not None and each.arg not in ("self", "cls") and each.arg[0] != "_"]
    text = ast.get_docstring(function)
    if text is None or not names:
        return ""
    sections = dict(SECTION.findall(text))
    if sorted(ITEM.findall(sections.get("Args", ""))) != sorted(names):
        return f"Args of {', '.join(names)}"
    nothing = function.returns is None or re.fullmatch(r"None|\w+\[None\]", ast.unparse(function.returns))
    return "" if nothing or "Returns" in sections or "Yields" in sections else "Returns"


def long_constructors(known: Mapping[str, Module], above: int = MAX_PARAMETERS) -> list[str]:
    """Return the constructors of the product with more parameters than allowed; those of data classes are not judged."""
    return [
        f"{name}.{class_.name}: {count}"
        for name, module in known.items()
        if not name.startswith("tests.")
        for class_ in ast.walk(module.tree)
        if isinstance(class_, ast.ClassDef)
        for made in class_.body
        if isinstance(made, ast.FunctionDef) and made.name == "__init__"
        if (count := len(made.args.posonlyargs + made.args.args + made.args.kwonlyargs) - 1) > above
    ]


def complex_blocks(known: Mapping[str, Module], above: int) -> list[str]:
    """Return the functions, methods and classes of the product whose cyclomatic complexity is above a limit."""
    return [
        f"{module.name}.{block.name}: {block.complexity}"
        for module in known.values()
        if not module.name.startswith("tests")
        for block in cc_visit(module.path.read_text(encoding="utf-8"))
        if block.complexity > above
    ]


def table(root: Path = ROOT) -> str:
    """Return every figure of a checkout as lines of text."""
    known = modules(root)
    product = [module for module in known.values() if not module.name.startswith("tests")]
    public = sum(
        isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_")
        for module in product
        for node in module.tree.body
    )
    figures = {
        "files": len(product),
        "lines": sum(_lines(module.path) for module in product),
        "public names of modules": public,
        "public class names that modules share": len(shared_names(known)),
        "imports through a re-export": len(re_exports(known)),
        "words in docstrings": docstring_words(known),
        "public functions with undescribed parameters": len(undescribed(known)),
        f"blocks of complexity above {MAX_COMPLEXITY}": len(complex_blocks(known, MAX_COMPLEXITY)),
        f"blocks of complexity above {VERY_COMPLEX}": len(complex_blocks(known, VERY_COMPLEX)),
    }
    files: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for module in product:
        package = "/".join(module.path.relative_to(root).parts[:-1][:2])
        files[package] += 1
        lines[package] += _lines(module.path)
    head = [f"{name:<42}{number:>8}" for name, number in figures.items()]
    return "\n".join([*head, *(f"  {name:<32}{files[name]:>6}{lines[name]:>8}" for name in sorted(files))])


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")


if __name__ == "__main__":
    print(table(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else ROOT))
