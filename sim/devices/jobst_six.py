"""A Jobst SIX with a flow-through biosensor (layout of its frame as in the maker's published readout program).

Every second it sends 68 13 13 68, a telegram of 19 bytes, the telegram's sum and 16: the long frame of M-Bus, by which
the undocumented prefix is explained here. It takes no commands.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping
from math import exp

from controller.rig.description import DeviceSpec
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice

PERIOD_S = 1.0
PREFIX = b"\x68\x13\x13\x68"
BLANK_MM = 0.3
"""What interfering substances make of the electrode without enzyme, and add to the others."""
UNUSED = 7
"""Counts of an electrode that is not connected."""


def telegram(counts: tuple[int, ...], temperature_c: float, number: int) -> bytes:
    """Return the frame for six currents (counts), a temperature and the device's number."""
    inside = struct.pack(">B6hhi", 4, *counts, round(16.0 * temperature_c), number)
    return PREFIX + inside + bytes((sum(inside) % 256, 0x16))


class JobstSix(WireDevice):
    """The potentiostat, its sensor's currents by the sheet that came with it (the settings of the rig file)."""

    model_id = "jobst-six"
    bench = BenchFacts(
        settings={
            "gain_factor": 0.5,
            "lactate_gain": 0.5,
            "lactate_tc": 2.0,
            "blank_gain": 0.4,
            "glucose_channel": 4.0,
            "glucose_gain": 0.6,
            "glucose_tc": 2.5,
        },
        similar=("repeating senders", "laboratory"),
        checksum=True,
        pushes=True,
    )
    baud = 9600

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.number = 41_000 + sum(name.encode())
        self.gain_factor = self._told("gain_factor", 1.0)
        """Belongs to the built-in amplifier."""
        self.saturated = False
        """A fault: a bubble short-circuits the cell."""
        self._timer: asyncio.TimerHandle | None = None

    def _told(self, key: str, default: float) -> float:
        settings: Mapping[str, float | bool | str] = self.spec.settings
        return float(settings.get(key, default))

    def _boot(self) -> None:
        self._timer = self.loop.call_later(PERIOD_S, self._report)

    def _halt(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def receive(self, data: bytes) -> None:
        """Ignore what is sent: the device has no commands."""

    def _report(self) -> None:
        self._timer = self.loop.call_later(PERIOD_S, self._report)
        self.send(self.frame(), after_s=0.0, unsolicited=True)

    def frame(self) -> bytes:
        """Return the frame of this moment."""
        celsius = self.plant.sense(f"{self.name}.temperature")
        currents = [UNUSED] * 6
        for number, (name, default) in enumerate((("lactate", 1.0), ("glucose", 2.0), ("blank", 3.0))):
            channel = round(self._told(f"{name}_channel", default))
            blank = BLANK_MM if round(self._told("blank_channel", 3.0)) else 0.0
            millimolar = blank + (self.plant.sense(f"{self.name}.{name}") if number < 2 else 0.0)
            if channel:
                currents[channel - 1] = self._current(name, millimolar, celsius)
        return telegram(tuple(currents), min(max(celsius, -2000.0), 2000.0), self.number)

    def _current(self, name: str, millimolar: float, celsius: float) -> int:
        if self.saturated:
            return 32_767
        per_mm = 100.0 / (self._told(f"{name}_gain", 0.5) * self.gain_factor)
        warmer = exp(self._told(f"{name}_tc", 0.0) * (celsius - self._told("reference_c", 37.0)) / 100.0)
        return max(-32_768, min(32_767, round(millimolar * per_mm * warmer)))
