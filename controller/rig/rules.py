"""What a rule file comes to: limits of grades and prices, in inner units. :mod:`controller.rig.grading` reads it."""

from __future__ import annotations

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


class Prices(_Part):
    """What things cost; money in EUR, whatever the lab's is."""

    fresh_eur_ml: float
    basal_eur_ml: float
    glucose_eur_ml: float
    base_eur_ml: float
    waste_eur_ml: float
    filter_eur: float
    filter_life_ml: float
    dialyser_eur: float
    dialyser_life_ml: float
    harm_b_eur_d: float
    harm_c_eur_d: float
    horizon_d: float


class Grading(_Part):
    """A whole rule file. `sha256` is of its meaning, not of its text."""

    version: str
    sha256: str
    variables: tuple[Variable, ...]
    prices: Prices


def shipped() -> Grading:
    """The rules of a rig that names none."""
    from controller.rig.grading import shipped_grading  # the reader and its YAML are loaded when they are wanted

    return shipped_grading()
