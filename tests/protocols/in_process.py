"""Python protocols in the process of the test, for comparison with those of a process of their own."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from protocols.registry import Recipe, of_module


def load(path: Path) -> Recipe:
    """Load a Python file of the tests or examples."""
    source = path.read_text(encoding="utf-8")
    module = ModuleType(f"choroid_protocol_{path.stem}")
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102
    watched = ((path.resolve(), hashlib.sha256(source.encode()).hexdigest()),)
    return replace(of_module(module, source), watched=watched)
