"""Sensors that a rig may have without the organ whose name a recipe gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from controller.rig.description import Rig
from controller.rig.probes import chamber_temperature, loop_oxygen, loop_ph
from protocols.organs import Lung, Skin

SENSORS: Mapping[str, Callable[[Rig], str | None]] = {
    Lung.ph.sensor: loop_ph,
    Lung.oxygen.sensor: loop_oxygen,
    Skin.temperature.sensor: chamber_temperature,
}
"""Place of a sensor → function that returns its point; None on a rig without it."""
