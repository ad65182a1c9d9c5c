"""A plant that remembers what was done to it, so that a test sees when the rig is at its basal state."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from controller.rig.description import Rig
from controller.rig.loading import load_rig
from sim.plant.plant import Plant

BENCH = Path(__file__).resolve().parents[2] / "examples" / "rigs" / "bench.yaml"
RIG = load_rig(BENCH)
BASAL_CO2, BASAL_AIR = 3.0, 47.0


class Watched(Plant):
    """A plant that remembers what the devices do to it: flows (nominal), switches as 0 and 1."""

    def __init__(self, rig: Rig = RIG) -> None:
        super().__init__(rig, seed=5, now=asyncio.get_running_loop().time)
        self.told: dict[str, float] = {}
        self.order: list[str] = []

    def set_pump(self, point: str, flow_ul_min: float) -> None:
        self._note(point, flow_ul_min)
        super().set_pump(point, flow_ul_min)

    def set_switch(self, point: str, on: bool) -> None:
        self._note(point, float(on))
        super().set_switch(point, on)

    def set_position(self, point: str, position: float) -> None:
        self._note(point, position)
        super().set_position(point, position)

    def set_gas(self, point: str, flow_ml_min: float) -> None:
        self._note(point, flow_ml_min)
        super().set_gas(point, flow_ml_min)

    def _note(self, point: str, value: float) -> None:
        if self.told.get(point, 0.0) != value:
            self.order.append(f"{point} {value:g}")
        self.told[point] = value

    def at_basal(self) -> bool:
        wanted = {"reglo.heart": 1600.0, "gas_air.flow": BASAL_AIR, "gas_co2.flow": BASAL_CO2, "gas_o2.flow": 0.0}
        off = ("relay.heater", "relay.return_valve", "reglo.return")
        return all(
            self.told.get(point, 0.0) == pytest.approx(value, rel=0.005, abs=0.1) for point, value in wanted.items()
        ) and all(not self.told.get(point) for point in off)
