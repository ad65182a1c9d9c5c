"""What simulated devices may do to the plant, and ask of it."""

from __future__ import annotations

from typing import Protocol


class PlantPort(Protocol):
    """The plant as devices see it; points are `device.point` of the rig."""

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """The flow that the pump believes it makes (µL/min); the sign is the direction, 0 is standing still."""

    def set_switch(self, point: str, on: bool) -> None:
        """A relay contact closes or opens."""

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """The flow that a mass flow controller lets through (mL/min at standard conditions)."""

    def sense(self, point: str) -> float:
        """What the probe puts out now, its own error included, in the point's unit."""
