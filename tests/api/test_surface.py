"""The public surface: every name resolves, is documented and costs nothing until it is used."""

from __future__ import annotations

import ast
import inspect
import json
import pkgutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import choroid
from tests.api.strays import FLAT

ROOT = Path(choroid.__file__).parents[1]
MAX_IMPORTED = 40
"""Modules that `import choroid` may add to those of an empty program; importlib and typing need 29."""


def printed(program: str) -> Any:
    """What a fresh process has in `found` at the end of `program`; `sys` is imported, and nothing of Choroid."""
    words = ["-P", "-c", f"import sys\n{program}\nimport json\nprint(json.dumps(found))"]
    done = subprocess.run([sys.executable, *words], cwd="/", capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def loaded_by(code: str) -> set[str]:
    """Names of the modules that `code` loads in a fresh process, beyond those of an empty one."""
    return set(printed(f"before = set(sys.modules)\n{code}\nfound = sorted(set(sys.modules) - before)"))


def flat_of(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} & set(FLAT)


def test_import_choroid_loads_next_to_nothing() -> None:
    found = loaded_by("import choroid")
    assert "choroid" in found
    assert len(found) <= MAX_IMPORTED, sorted(found)


def test_a_controller_loads_neither_the_compiler_nor_the_simulator() -> None:
    """They cost a third of its start-up and 60 MB; what needs them (electrode engine, card, lab) has its own process."""
    found = loaded_by("import choroid.running.run")
    assert "controller.process.controller" in found
    assert not {name.partition(".")[0] for name in found} & {"numba", "llvmlite", "scipy", "sim"}


def test_the_clients_load_no_other_package_of_this_program() -> None:
    names = " ".join(choroid._CLIENT.values()).split()
    found = loaded_by(f"import choroid\nfor name in {names!r}: getattr(choroid, name)")
    assert {"choroid.client.connection", "choroid.client.nerves", "grpc", "numpy"} <= found
    assert flat_of(found) == set()
    assert {name for name in found if name.startswith("choroid.")} == {
        name for name in found if name.startswith("choroid.client")
    }
    assert not found & {"pandas", "pyarrow", "websockets", "pydantic", "yaml", "scipy", "numba"}


def test_each_name_needs_the_packages_that_are_checked_for_it() -> None:
    """Those with the fewest needs come first, so that one process tells what each of them loads."""
    homes = sorted(choroid._NEEDS, key=lambda home: len(choroid._NEEDS[home]))
    alone = [home for home in homes if home.startswith("controller.")]
    for group in (alone, [home for home in homes if home not in alone]):
        expected: set[str] = set()
        program = "import choroid\nfound = []\n"
        for home in group:
            name = choroid._WHOLE[home].split()[0]
            program += f"choroid.{name}\nfound.append([name for name in {FLAT!r} if name in sys.modules])\n"
        for home, found in zip(group, printed(program), strict=True):
            expected |= set(choroid._NEEDS[home])
            assert set(found) == expected, home


def test_every_public_name_resolves_and_is_listed_once() -> None:
    assert list(choroid.__all__) == sorted(set(choroid.__all__))
    assert set(choroid.__all__) == set(choroid._HOMES)
    assert set(choroid._WHOLE) == set(choroid._NEEDS)
    for name in choroid.__all__:
        found = getattr(choroid, name)
        if inspect.isclass(found) or inspect.isfunction(found):
            assert found.__module__ == choroid._HOMES[name], "a name is imported from where it is defined"
            assert found.__name__ == name
            assert inspect.getdoc(found), f"{name} has no documentation"
    with pytest.raises(AttributeError, match="nonsense"):
        choroid.nonsense  # noqa: B018
    assert set(choroid.__all__) <= set(dir(choroid))


def test_type_checkers_see_the_same_names_from_the_same_places() -> None:
    tree = ast.parse(Path(choroid.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {alias.name: node.module for node in imports for alias in node.names} == choroid._HOMES
    for package in ("choroid", *FLAT):
        assert (ROOT / package / "py.typed").is_file()


def test_no_public_name_is_that_of_a_module() -> None:
    """`import choroid.simulate` would put the module in the place of the function."""
    modules = {module.name for module in pkgutil.iter_modules(choroid.__path__)}
    assert modules & set(choroid.__all__) == set()
