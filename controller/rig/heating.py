"""How fast a rig's heater warms its medium, from what the rig file says."""

from __future__ import annotations

from controller.rig.description import Rig

J_PER_ML_K = 4.18
"""Heat capacity of medium: that of water."""


def heating_c_per_s(rig: Rig) -> float:
    """Return how fast the heater at full power warms the medium alone (°C/s); 0 without a heater.

    The holder takes up heat as well (in the lab in software more than half): the true rate is lower.
    """
    if rig.organs.skin is None:
        return 0.0
    vessels = {*warmed_chambers(rig), *(() if rig.loop is None else (rig.loop,))}
    medium_ml = sum(rig.vessels[name].volume_ul for name in vessels) / 1000.0
    return rig.organs.skin.power_w / max(medium_ml * J_PER_ML_K, 1e-9)


def warmed_chambers(rig: Rig) -> tuple[str, ...]:
    """Return the chambers with tissue that the skin warms: those in the zone of its thermometer, or in no zone like it."""
    if rig.organs.skin is None:
        return ()
    if len(rig.tissue) == 1:
        return tuple(rig.tissue)
    place = rig.devices[rig.organs.skin.temperature.partition(".")[0]].at
    zone = rig.vessels[place].zone if place in rig.vessels else None
    return tuple(chamber for chamber in rig.tissue if rig.vessels[chamber].zone == zone)
