"""Facts of the manual that each driver's own test module states, as `FACTS`: by hand, and apart from the driver.

Tests of all drivers are parametrised over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path

MODBUS_READS = (1, 2, 3, 4, 43)
"""Functions of Modbus that only read."""


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """States what the manual of a model says.

    Args:
        line: Line settings of the factory.
        queries: What the manual calls questions, of all that the driver asks, without the end of line; of text protocols.
        functions: Of binary protocols: where the code of the function stands, and which of them read.
        stored: What a user has stored in the simulated device, and what the factory had, by attribute; None if its user can
            store nothing.
        question: Of models with addresses on a shared line: from an address, a question with a constant answer.
        no_health: Why the driver of a probe has no figure of its health.
    """

    line: str
    queries: frozenset[str] = frozenset()
    functions: tuple[int, tuple[int, ...]] | None = None
    stored: tuple[Mapping[str, object], Mapping[str, object]] | None = None
    question: Callable[[str], bytes] | None = None
    no_health: str = ""


@cache
def all_facts() -> Mapping[str, DriverFacts]:
    """Return the facts of every model, from the test modules of this folder that have some."""
    found: dict[str, DriverFacts] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        if "\nFACTS = {" in path.read_text(encoding="utf-8"):
            found |= import_module(f"tests.drivers.{path.stem}").FACTS
    return found
