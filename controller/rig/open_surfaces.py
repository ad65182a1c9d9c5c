"""Open surfaces of medium: their area, and the water that evaporates from them."""

from __future__ import annotations

from controller.rig.description import ROOM_CO2_PCT, Rig, Vessel
from controller.rig.surroundings import zone_of

WELL_DEPTH_MM = 6.0
"""Depth of medium at rest where the rig file names no surface: 200 µL in a well of 96 [P]. Most dishes have less."""
MM_PER_CM = 10.0
HUMID_UL_CM2_D = 15.0
"""Loss from medium under a lid in a humid incubator (95 %): a well of a 96-well plate loses 2 to 8 % a day [P]."""
DRY_UL_CM2_D = 100.0
"""The same in any other zone: its gas lacks ten times as much water, and is cooler than an incubator's [P]."""


def chamber_ul(vessel: Vessel) -> float:
    """Return the volume of a chamber (µL): its limit if it starts empty."""
    return vessel.volume_ul or vessel.limit_ul


def surface_cm2(vessel: Vessel) -> float:
    """Return the surface of medium at rest (cm²): without one in the rig file, that of medium as deep as in a well."""
    if vessel.surface_cm2 is not None:
        return vessel.surface_cm2
    return chamber_ul(vessel) / (WELL_DEPTH_MM * MM_PER_CM**2)


def is_humid(rig: Rig, chamber: str) -> bool:
    """Return whether the zone of a chamber is humid: an incubator, which is gassed with CO2."""
    return zone_of(rig, chamber).co2_pct > ROOM_CO2_PCT


def evaporation_ul_d(rig: Rig, chamber: str) -> float:
    """Return the water that evaporates from an open chamber in a day (µL)."""
    return surface_cm2(rig.vessels[chamber]) * (HUMID_UL_CM2_D if is_humid(rig, chamber) else DRY_UL_CM2_D)
