"""What a rule file comes to: limits of grades and prices, in inner units. :mod:`controller.rig.grading` reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

Edge = float | tuple[float, float]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Variable(_Part):
    """One variable's limits; edges from the good side outwards (pairs where `worse` is "outside")."""

    name: str
    said: str
    worse: Literal["higher", "lower", "outside"]
    strict: bool
    """An edge value itself belongs to the worse grade."""
    edges: tuple[Edge, Edge, Edge]
    required: bool
    source: str
    note: str


class Grading(_Part):
    """A whole rule file. `sha256` is of its meaning, not of its text."""

    version: str
    sha256: str
    variables: tuple[Variable, ...]
    prices: Mapping[str, float]
    """What things cost, money in EUR, by the names that :class:`protocols.prices.Prices` gives them."""
