"""The temperature limits of a rig: that of the tissue, and further ones by name, each with its place in the rig file."""

from __future__ import annotations

from collections.abc import Iterator

from controller.rig.description import Rig, TemperatureLimit
from controller.rig.probes import shows_chamber
from controller.rig.problems import Place

FIRST: Place = ("safety", "temperature")
FURTHER: Place = ("safety", "temperatures")


def temperature_limits(rig: Rig) -> Iterator[tuple[Place, TemperatureLimit]]:
    """Yield each limit with its place: `safety.temperature`, then those of `safety.temperatures`."""
    if rig.safety.temperature is not None:
        yield FIRST, rig.safety.temperature
    for name, limit in rig.safety.temperatures.items():
        yield (*FURTHER, name), limit


def sees_tissue(rig: Rig, point: str) -> bool:
    """Return whether a thermometer shows the temperature of some chamber with tissue."""
    return any(shows_chamber(rig, point, chamber) for chamber in rig.tissue)
