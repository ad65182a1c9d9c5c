"""A layer between devices and plant in which a motor can turn against its command."""

from __future__ import annotations

from collections.abc import Callable

from sim.devices.port import PlantPort


class Drives:
    """Implements :class:`sim.devices.port.PlantPort` and passes all calls on, except for what faults change.

    Pumps in `reversed` turn the other way; the rotor of a selector may have slipped on its shaft.
    """

    def __init__(self, plant: PlantPort) -> None:
        self._plant = plant
        self._told: dict[str, float] = {}
        self.moving: dict[str, float] = {}
        """What each pump really turns at, by the maker's chart (µL/min, signed)."""
        self.outputs: dict[str, float] = {}
        """What each output does: a pump's flow (µL/min), a gas flow (mL/min), a switch (1: closed)."""
        self._reversed: set[str] = set()
        self._slips: dict[str, tuple[float, int]] = {}
        """By how many positions each rotor has slipped, and how many it has."""
        self.contacts: dict[str, Callable[[bool], None]] = {}
        """What else a contact switches, in addition to the plant: for example power."""
        self.set_bath = plant.set_bath
        self.sense = plant.sense

    def set_switch(self, point: str, on: bool) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = float(on)
        self._plant.set_switch(point, on)
        if point in self.contacts:
            self.contacts[point](on)

    def set_position(self, point: str, position: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        slip, count = self._slips.get(point, (0.0, 1))
        self.outputs[point] = (position - 1.0 + slip) % count + 1.0 if slip else position
        self._plant.set_position(point, self.outputs[point])

    def slip(self, point: str, positions: float, count: int) -> None:
        """Let the rotor of a selector stand so many positions beyond the actuator's, of `count`; 0 for none."""
        self._slips[point] = positions, count

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self.outputs[point] = flow_ml_min
        self._plant.set_gas(point, flow_ml_min)

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        """See :class:`sim.devices.port.PlantPort`."""
        self._told[point] = flow_ul_min
        self.moving[point] = -flow_ul_min if point in self._reversed else flow_ul_min
        self.outputs[point] = self.moving[point]
        self._plant.set_pump(point, self.moving[point])

    def reverse(self, point: str, reversed_: bool) -> None:
        """Let the pump `point` turn the other way from now on, or the right way again."""
        if reversed_:
            self._reversed.add(point)
        else:
            self._reversed.discard(point)
        self.set_pump(point, self._told.get(point, 0.0))
