"""The table of docs/cl.md against the public package cl-sdk: each of its public names is the same, differs or is absent.

The package is read, not run: its licence allows neither more, nor does it start under Python 3.11.
"""

from __future__ import annotations

import importlib
import inspect
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.clients.environments import wheel
from tests.nerves.cl_names import PublicNames

PAGE = Path(__file__).parents[2] / "docs" / "cl.md"
HERE = "choroid.client.cl"
ROW = re.compile(r"^\| `(cl[\w.]*)` \| (.+?) \| (same|differs|absent) \| (.*) \|$", re.MULTILINE)


@pytest.fixture(scope="module")
def public() -> PublicNames:
    return PublicNames(wheel("cl-sdk>=1.0,<2", "3.12"), "cl")


@pytest.fixture(scope="module")
def listed() -> dict[str, tuple[str, str]]:
    """Verdict and note by name."""
    found: dict[str, tuple[str, str]] = {}
    for of, names, verdict, note in ROW.findall(PAGE.read_text(encoding="utf-8")):
        for name in re.findall(r"`(\w+)`", names):
            assert f"{of}.{name}" not in found, f"{of}.{name} stands twice in the table"
            found[f"{of}.{name}"] = (verdict, note)
    return found


def here(name: str) -> Any:
    """What this client has under a name of the package; LookupError: nothing."""
    parts = name.split(".")[1:]
    found: Any = importlib.import_module(HERE)
    for n, part in enumerate(parts):
        if hasattr(found, part):
            found = getattr(found, part)
        elif isinstance(found, type) and any(part in vars(each).get("__annotations__", {}) for each in found.__mro__):
            return None
        else:
            try:
                found = importlib.import_module(".".join([HERE, *parts[: n + 1]]))
            except ModuleNotFoundError:
                raise LookupError(name) from None
    return found


def test_every_public_name_stands_in_the_table_once(public: PublicNames, listed: dict[str, tuple[str, str]]) -> None:
    classes = {name for name in listed if name.rpartition(".")[2][:1].isupper()}
    within = tuple(f"{name}." for name in classes if listed[name][0] == "absent")
    named = {name for name in public.found if not name.startswith(within)}
    assert len(named) > 200
    assert set(listed) - named == set(), "cl-sdk has these no more: take them out of docs/cl.md"
    assert named - set(listed) == set(), "cl-sdk has these names: add them to the client or to the table of docs/cl.md"


def test_the_table_tells_the_truth(public: PublicNames, listed: dict[str, tuple[str, str]]) -> None:
    for name, (verdict, note) in listed.items():
        assert (note == "") == (verdict == "same"), f"{name}: say how it differs, or why it is absent"
        if verdict == "absent":
            with pytest.raises(LookupError):
                here(name)
            continue
        found = here(name)
        if verdict == "same" and name in public.keywords:
            missing = public.keywords[name] - set(inspect.signature(found).parameters)
            assert not missing, f"{name} takes no {missing}"


def test_names_are_read_without_running_the_package(tmp_path: Path) -> None:
    file = tmp_path / "p.whl"
    with zipfile.ZipFile(file, "w") as opened:
        opened.writestr(
            "p/__init__.py", "from .a import *\nfrom ._b import K\n__all__ = ['K', 'sub']\nraise SystemExit\n"
        )
        opened.writestr("p/_b.py", "class K[T]:\n    x: int\n    def f(self, /, a, *, b): ...\n    def _g(self): ...\n")
        opened.writestr("p/a.py", "type Q = int\nLEAST = 1\ndef f(a): ...\ndef _g(): ...\nimport os\n")
        opened.writestr("p/sub/__init__.py", "from ..a import *\nTOP, _low = 1, 2\n")
    names = PublicNames(file, "p")
    assert names.found == {"p.K", "p.K.x", "p.K.f", "p.a", "p.a.Q", "p.a.LEAST", "p.a.f", "p.sub"}
    assert names.keywords == {"p.K.f": {"a", "b"}, "p.a.f": {"a"}}
