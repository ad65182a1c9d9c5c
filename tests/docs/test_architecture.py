"""docs/architecture.md names files and functions that exist, and all packages of the controller."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from choroid.common.child import PACKAGES

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
PLACE = re.compile(rf"`((?:{'|'.join(PACKAGES)})/[\w/.]*)(?::([\w.]+))?`")


def names(source: str) -> set[str]:
    """Return the functions, classes and methods of a module, methods as `Class.method`."""
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            inner = [each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
            found |= {f"{node.name}.{each.name}" for each in inner}
    return found


def wrong(page: str) -> list[str]:
    """Return the places on a page that do not exist in the code."""
    found = []
    for path, name in PLACE.findall(page):
        target = ROOT / path
        if not target.exists():
            found.append(f"{path}: no such file")
        elif name and name not in names(target.read_text(encoding="utf-8")):
            found.append(f"{path}: has no {name}")
    return found


def test_every_place_exists() -> None:
    """A renamed or moved function must be renamed on the page as well."""
    assert len([name for _, name in PLACE.findall(PAGE) if name]) >= 55
    assert wrong(PAGE) == []


@pytest.mark.parametrize(("story", "at_most"), [("The life of a dose", 24), ("The life of a spike", 18)])
def test_each_station_names_its_code(story: str, at_most: int) -> None:
    """Every numbered line of the two stories names a place, and the numbers are complete; a longer way is too long."""
    section = PAGE.split(f"## {story}\n")[1].split("\n## ")[0]
    stations = re.findall(r"^(\d+)\. (.*?)(?=^\d+\. |^\*\*|\Z)", section, re.MULTILINE | re.DOTALL)
    assert [int(number) for number, _ in stations] == list(range(1, len(stations) + 1))
    assert len(stations) <= at_most
    assert [text for _, text in stations if not PLACE.search(text)] == []


def test_every_package_of_the_controller_is_listed() -> None:
    """The table of packages is complete and names no package that is gone."""
    table = PAGE.split("## Packages of the controller\n")[1].split("\n## ")[0]
    listed = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    assert listed == {path.parent.name for path in (ROOT / "controller").glob("*/__init__.py")}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`controller/gate/gate.py:Gate.submit`", []),
        ("`controller/gate/gate.py:Gate.nothing`", ["controller/gate/gate.py: has no Gate.nothing"]),
        ("`controller/gate/nothing.py`", ["controller/gate/nothing.py: no such file"]),
    ],
)
def test_a_wrong_place_is_named(text: str, expected: list[str]) -> None:
    """The check sees a missing file and a missing method."""
    assert wrong(text) == expected
