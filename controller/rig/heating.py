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
    sources = (rig.lines[heart.line].from_ for heart in rig.organs.hearts.values())
    vessels = {*rig.tissue, *(name for name in sources if rig.vessels[name].kind == "loop")}
    medium_ml = sum(rig.vessels[name].volume_ul for name in vessels) / 1000.0
    return rig.organs.skin.power_w / max(medium_ml * J_PER_ML_K, 1e-9)
