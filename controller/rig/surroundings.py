"""Temperature and gas around a vessel, and the pH that medium takes in it."""

from __future__ import annotations

from math import log10

from controller.rig.description import ROOM_CO2_PCT, ROOM_OXYGEN_PCT, Rig, Zone

ROOM_C = 24.0
"""Temperature of a room about which the rig file says nothing (°C)."""
DRY_MMHG = (101.325 - 6.28) * 7.50062
"""Pressure of the gas without water vapour at 37 °C (mmHg)."""
CO2_MM_PER_MMHG = 0.0307
PK = 6.1
BICARBONATE_MM = 26.0
"""Bicarbonate of a medium about which the rig file says nothing (mmol/L)."""


def zone_of(rig: Rig, vessel: str) -> Zone:
    """Return the zone of a vessel: the room if the rig file names none."""
    name = rig.vessels[vessel].zone
    if name is not None:
        return rig.zones[name]
    return Zone.model_construct(temperature_c=room_c(rig), co2_pct=ROOM_CO2_PCT, oxygen_pct=ROOM_OXYGEN_PCT)


def room_c(rig: Rig) -> float:
    """Return the temperature of the room (°C)."""
    return ROOM_C if rig.organs.skin is None else rig.organs.skin.ambient_c


def kept_c(rig: Rig, vessel: str) -> float:
    """Return the temperature at which the medium of a vessel is kept (°C): of culture vessels that of the skin."""
    skin = rig.organs.skin
    if skin is not None and rig.vessels[vessel].kind in ("loop", "chamber", "process"):
        return skin.setpoint_c
    return zone_of(rig, vessel).temperature_c


def ph_at(bicarbonate_mm: float, co2_pct: float) -> float:
    """Return the pH of a medium under gas with a given share of CO2 (Henderson and Hasselbalch)."""
    return PK + log10(bicarbonate_mm / (CO2_MM_PER_MMHG * DRY_MMHG * max(co2_pct, ROOM_CO2_PCT) / 100.0))


def culture_vessel(rig: Rig) -> str:
    """Return the vessel whose medium stands for that of the tissue: the loop, else the first chamber with tissue."""
    return rig.loop or next(iter(rig.tissue))


def bicarbonate_mm(rig: Rig, vessel: str | None = None) -> float:
    """Return the bicarbonate of the medium that a vessel is filled with (mmol/L); by default that of loop or chamber."""
    medium = rig.media.get(rig.vessels[vessel or culture_vessel(rig)].contains or "")
    return max(medium.bicarbonate_mm, 1.0) if medium is not None else BICARBONATE_MM
