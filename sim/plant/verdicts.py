"""A validation test: what was published, what the plant makes of it, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Kind = Literal["fit", "consistency", "prediction"]
Curves = dict[str, tuple[list[float], list[float]]]


@dataclass(frozen=True, slots=True)
class Measured:
    """One comparison within a test."""

    what: str
    published: str
    simulated: float
    ok: bool


@dataclass(frozen=True, slots=True)
class Validation:
    """One test; `curves` (label → x, y) is what a figure of it shows, with the names of its axes."""

    id: str
    title: str
    published: str
    simulated: str
    tolerance: str
    verdict: Literal["pass", "fail"]
    kind: Kind
    source: str
    note: str = ""
    parts: tuple[Measured, ...] = ()
    axes: tuple[str, str] = ("", "")
    curves: Curves = field(default_factory=dict)


def verdict(parts: list[Measured]) -> Literal["pass", "fail"]:
    """Return `pass` when every part agrees."""
    return "pass" if all(part.ok for part in parts) else "fail"
