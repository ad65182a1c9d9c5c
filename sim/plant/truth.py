"""The true state of a plant, for tests, judges and the figures of a simulation."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TissueTruth:
    """The true state of the tissue in one chamber."""

    viability: float
    diameter_mm: float
    core_mm: float
    """Radius of the tissue's anoxic core."""
    dead_fraction: float
    oxygen_uptake_nmol_s: float
    oxygen_surface_mm: float
    """At the organoids' surface: less than in the chamber by the film of medium around them."""
    temperature_c: float


@dataclass(frozen=True, slots=True)
class PlantTruth:
    """The true state.

    Where a rig has several chambers, the figures of tissue without a name are those of the tissue that is worst off.
    """

    at_s: float
    volumes_ul: dict[str, float]
    concentrations: dict[str, dict[str, float]]
    """Vessel → species → mmol/L (osmoles mOsm/kg, LDH U/L, microbes CFU/mL, age days, reuse passes), with `co2` and
    `bicarbonate`, the two forms of `carbon`."""
    ph: dict[str, float]
    tissue: dict[str, TissueTruth]
    """By chamber."""
    filter_resistance: dict[str, float]
    """By filtered line: over that of a new filter."""
    losses_ul: dict[str, float]
    moved_ul: dict[str, float]
    """What each line has taken in since the beginning, either way."""
    arrived_ul: dict[str, float]
    """What has come out at its other end: air in a line, or a leak, makes it another volume."""
    backwards_ul: dict[str, float]
    """The part of `moved_ul` that moved from the line's target to its source."""
    held_ul: dict[str, float]
    """Liquid in each line; none in a passive outlet, which is mostly air."""
    held: dict[str, dict[str, float]]
    """Line → species → what it holds (concentration × µL)."""
    flows_ul_min: dict[str, float]
    """What flows in each pumped line and branch now, signed."""
    pressures_kpa: dict[str, float]
    tally: dict[str, dict[str, float]]
    """Cause → species (and `liquid`) → what it has added since the beginning (concentration × µL; µL)."""

    @property
    def worst(self) -> TissueTruth:
        """Return the tissue with the lowest viability."""
        return min(self.tissue.values(), key=lambda tissue: tissue.viability)

    @property
    def temperature_c(self) -> float:
        """Return the temperature of the worst tissue."""
        return self.worst.temperature_c

    @property
    def viability(self) -> float:
        """Return the lowest viability."""
        return self.worst.viability

    @property
    def diameter_mm(self) -> float:
        """Return the diameter of the worst tissue."""
        return self.worst.diameter_mm

    @property
    def core_mm(self) -> float:
        """Return the radius of the anoxic core of the worst tissue."""
        return self.worst.core_mm

    @property
    def dead_fraction(self) -> float:
        """Return the dead fraction of the worst tissue."""
        return self.worst.dead_fraction

    @property
    def oxygen_uptake_nmol_s(self) -> float:
        """Return the oxygen that all tissue takes up."""
        return sum(tissue.oxygen_uptake_nmol_s for tissue in self.tissue.values())

    @property
    def oxygen_surface_mm(self) -> float:
        """Return the oxygen at the surface of the worst tissue."""
        return self.worst.oxygen_surface_mm
