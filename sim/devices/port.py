"""The interface from simulated devices to the plant."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class BathRamp(NamedTuple):
    """The temperature of a bath from now on: from `now_c` to `goal_c` (°C), with a time constant (s)."""

    now_c: float
    goal_c: float
    constant_s: float


class PlantPort(Protocol):
    """The plant as devices see it; points are `device.point` of the rig.

    Devices call a setter at each change, at the very instant of the change, and not again while nothing changes.
    """

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """Turn a pump at the speed that gives `flow_ul_min` (µL/min) by the maker's chart.

        The sign is the direction, 0 is standing still. What really flows is the plant's business: tubing and
        motors differ from the chart, and a user's calibration in the pump is meant to take that out again.
        """

    def set_switch(self, point: str, on: bool) -> None:
        """Close or open a relay contact."""

    def set_position(self, point: str, position: float) -> None:
        """Turn a selector's valve; a fraction stands between two positions, where no port is open."""

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """Set the flow of a mass flow controller (mL/min at standard conditions)."""

    def set_bath(self, point: str, course: BathRamp | None) -> None:
        """Set the temperature course of a thermostat's fluid or block; None when it does not circulate."""

    def sense(self, point: str) -> float:
        """Return the probe's present output with its error: pH, % air saturation, °C, kPa gauge, g, mL/min."""
        ...
