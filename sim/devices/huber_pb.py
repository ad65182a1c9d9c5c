"""A Huber thermostat on the PB protocol: `{M` variable value CR LF is answered `{S` variable value CR LF, ten characters.

Values are signed hundredths of a degree; `****` reads. A variable that it does not know is met with silence. A
set-point outside its limits is answered with the one that stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.bath import Bath
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort
from sim.devices.wire import WireDevice, forgetting

TELEGRAM = re.compile(rb"\{M([0-9A-Fa-f]{2})([0-9A-Fa-f]{4}|\*{4})")
NO_SENSOR = -15100
LONGEST = 64
SETPOINT, RETURN, CONTROL, CIRCULATION = 0x00, 0x02, 0x14, 0x16
REGULATES, CIRCULATES, PUMP_TURNS = 1 << 0, 1 << 1, 1 << 4
"""Bits of the status, by two open clients that agree."""


class HuberPb(WireDevice):
    """A bath that heats and cools; `process_sensor`: a sensor is connected; `locked`: it takes no commands."""

    model_id = "huber-pb"
    bench = BenchFacts(
        similar=("thermostats",),
        no_worse={"resumes": "a power cut does not change what it regulates to, or where it stands"},
    )
    think_s = 0.010

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.bath = Bath(lambda course: plant.set_bath(f"{name}.setpoint", course))
        self.process_sensor = False
        self.locked = False
        self.controlling = self.circulating = True
        """Started at its panel, as the driver's page asks, or by a client; both stay so over a power cut."""
        self.setpoint = 2000
        self.min_setpoint, self.max_setpoint = -5000, 15000
        self.belong_to(0)
        self.setpoints_taken = 0
        self._buffer = b""

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the set-point, its limits, and that it was started."""
        return forgetting(
            self,
            {
                "setpoint": 2000,
                "min_setpoint": -5000,
                "max_setpoint": 15000,
                "controlling": False,
                "circulating": False,
            },
        )

    def _boot(self) -> None:
        self._buffer = b""
        self._regulate()

    def _regulate(self) -> None:
        self.bath.regulate(self.setpoint / 100.0 if self.controlling else None)
        self.bath.touch(self.circulating)

    def _halt(self) -> None:
        self.bath.regulate(None)
        self.bath.touch(False)

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial = 400_000 + sum(self.name.encode()) + lab

    def receive(self, data: bytes) -> None:
        """See :meth:`WireDevice.receive`."""
        *lines, rest = (self._buffer + data).split(b"\r\n")
        self._buffer = rest[-LONGEST:]
        for line in lines:
            if match := TELEGRAM.fullmatch(line):
                variable = int(match[1], 16)
                if match[2] != b"****":
                    self._write(variable, int.from_bytes(bytes.fromhex(match[2].decode()), "big", signed=True))
                value = self._read(variable)
                if value is not None:
                    self.send(b"{S%02X%04X\r\n" % (variable, value & 0xFFFF))

    def _write(self, variable: int, value: int) -> None:
        if self.obeys and not self.locked:
            self._take(variable, value)
        self._regulate()

    def _take(self, variable: int, value: int) -> None:
        if variable == SETPOINT and self.min_setpoint <= value <= self.max_setpoint:
            self.setpoint = value
            self.setpoints_taken += 1
        elif variable == CONTROL and value in (0, 1):
            # What regulates circulates: a heater in standing fluid would burn.
            self.controlling = self.circulating = bool(value)
        elif variable == CIRCULATION and value in (0, 1):
            self.circulating = bool(value) or self.controlling

    def _read(self, variable: int) -> int | None:
        match variable:
            case 0x01 | 0x02:
                return round(self.bath.temperature_c * 100) - (10 if variable == RETURN else 0)
            case 0x07 | 0x3A:
                return round(self.bath.temperature_c * 100) - 40 if self.process_sensor else NO_SENSOR
            case 0x04:
                return round(self.bath.output(cools=True) * 10)
        values = {
            0x00: self.setpoint,
            0x1B: self.serial >> 16,
            0x1C: self.serial & 0xFFFF,
            0x30: self.min_setpoint,
            0x31: self.max_setpoint,
            0x0A: self.controlling * REGULATES | self.circulating * (CIRCULATES | PUMP_TURNS),
            0x14: int(self.controlling),
            0x16: int(self.circulating),
            0x03: 0,
            0x3C: 0,
            0x26: 0,
        }
        return values.get(variable)
