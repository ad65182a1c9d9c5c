"""An Alicat mass flow controller (MC series manual p. 43, serial primer): unit id, command, CR; answers end CR.

A poll answers `A +014.70 +025.00 +000.00 +000.00 000.00    Air`: id, absolute pressure (psi), temperature (°C),
volumetric flow, mass flow, set-point (in its engineering unit of flow), gas, then status codes. Another unit's lines are
met with silence. The device's setting `firmware` chooses what it understands (:mod:`sim.devices.alicat_firmware`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.alicat_firmware import (
    FIRMWARES,
    FLOW_UNITS,
    MASS,
    MASS_SETPOINT,
    PRESSURE,
    PRESSURE_UNIT,
    SCCM,
    SLPM,
    TEMPERATURE,
    TEMPERATURE_UNIT,
    VOLUMETRIC,
    frame_table,
)
from sim.devices.ascii_line import AsciiDevice, decimal
from sim.devices.bench_facts import BenchFacts
from sim.devices.port import PlantPort

GASES = ("Air", "Ar", "CH4", "CO", "CO2", "C2H6", "H2", "He", "N2", "N2O", "Ne", "O2", "C3H8", "nC4H10", "C2H2")
"""In the order of their numbers (`G n`, `GS n`)."""
GAS_NAMES = (
    "Air", "Argon", "Methane", "Carbon-Monoxide", "Carbon-Dioxide", "Ethane", "Hydrogen", "Helium", "Nitrogen",
    "Nitrous-Oxide", "Neon", "Oxygen", "Propane", "normal-Butane", "Acetylene",
)  # fmt: skip
"""Long names of `GASES`, which the answer to `GS` has."""
RIG_GASES = {"air": "Air", "co2": "CO2", "o2": "O2"}
"""Name of each gas of a rig file."""
VISCOSITIES_UP = (
    184.9, 225.6, 111.2, 176.8, 149.3, 93.5, 89.2, 198.5, 178.0, 148.5, 312.5, 204.9, 81.5, 74.1, 104.4,
)  # fmt: skip
"""Viscosity of each of `GASES` at 25 °C (µP): a laminar flow element measures flow × viscosity."""
LOOP_VARIABLES = (34, 36, 37, 38, 39)
"""What may be controlled: absolute pressure, volumetric flow, mass flow, gauge and differential pressure."""
LOOP_REGISTER, GAS_REGISTER, STREAM_REGISTER = "122", "46", "91"
PRESSURE_PSIA, PRESSURE_RANGE_PSIA = 14.70, 160.0
TEMPERATURE_C, TEMPERATURE_RANGE_C = 25.0, 60.0
DIGITS = 5
"""A flow is written with so many digits, as many of them decimals as the full scale allows."""
OVERRANGE = 1.024
STREAM_S = 0.050
POLLED = "@"
"""The id that puts a unit into streaming."""


class AlicatMfc(AsciiDevice):
    """A controller of `full_scale_ml_min` (device setting, default 100), set to the rig's gas or to the setting `gas`.

    The rig's gas flows through it. Set to another one, it gives another flow than it reports.

    Further settings: `units` (sccm or slpm, default sccm) and `firmware` (5v12, 8v30 or 10v05, default 10v05).
    """

    model_id = "alicat-mfc"
    bench = BenchFacts(settings={"full_scale_ml_min": 200.0}, similar=("gas controllers",))
    baud = 19200
    think_s = 0.008

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.unit = self.home_unit = (spec.address or "A").upper()
        self.full_scale_ml_min = float(spec.settings.get("full_scale_ml_min", 100.0))
        self.firmware = FIRMWARES[str(spec.settings.get("firmware", "10v05"))]
        self.flow_unit = SLPM if spec.settings.get("units", "sccm") == "slpm" else SCCM
        """Number of the engineering unit in which it counts flows."""
        connected = RIG_GASES[spec.gas] if spec.gas else str(spec.settings.get("gas", "Air"))
        self._connected = GASES.index(connected)
        self.gas = GASES.index(str(spec.settings.get("gas", connected)))
        self.setpoint_ml_min = 0.0
        self.loop_variable = 37
        self.belong_to(0)
        self.held = ""
        """"" as controlled, "P" the valve stays as it is, "C" it is closed."""
        self.locked = False
        self._point = f"{name}.flow"
        self._given = 0.0
        self._tare = 0.0
        self._stream_s = STREAM_S
        self._streaming: asyncio.TimerHandle | None = None

    # --- power and valve --------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.forget_input()

    def _halt(self) -> None:
        self._stream(False)
        self.setpoint_ml_min, self.held = 0.0, ""
        self._act()

    def _act(self) -> None:
        """Set the flow by the set-point and the hold of the valve."""
        if self.held != "P":
            flow = 0.0 if self.held == "C" else self.setpoint_ml_min
            flow *= self._true_share
            if flow != self._given:
                self._given = flow
                self.plant.set_gas(self._point, flow)

    @property
    def _true_share(self) -> float:
        """Return the true flow of the connected gas over the flow that is measured for the selected one."""
        return VISCOSITIES_UP[self.gas] / VISCOSITIES_UP[self._connected]

    def _select(self, gas: int) -> None:
        """Measure for another gas from now on."""
        self.gas = gas
        self._act()

    @property
    def answers_to(self) -> str | None:
        """See :meth:`WireDevice.answers_to`."""
        return self.unit

    def readdress(self, address: str) -> None:
        """See :meth:`WireDevice.readdress`."""
        self.unit = self.home_unit = address.upper()

    def forged(self, data: bytes, address: str) -> bytes | None:
        """See :meth:`WireDevice.forged`; only the first of several lines is another's."""
        return address.encode("ascii") + data[1:] if data[:1] == self.unit.encode("ascii") else None

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: the gas, the tare, the loop variable, the stream's period."""
        stored = self.gas, self._tare, self.loop_variable, self._stream_s
        self.gas, self._tare, self.loop_variable, self._stream_s = GASES.index("Air"), 0.0, 37, STREAM_S
        self._act()

        def again() -> None:
            self.gas, self._tare, self.loop_variable, self._stream_s = stored
            self._act()

        return again

    # --- what it says -----------------------------------------------------------------------------------

    def bad_line(self) -> None:
        """Ignore a bad line: the unit that it was meant for is unknown."""

    def _say(self, *lines: str) -> None:
        self.send("".join(f"{line}\r" for line in lines).encode("ascii"))

    @property
    def ml_min_per_unit(self) -> float:
        """Return the size of its engineering unit of flow (mL/min)."""
        return FLOW_UNITS[self.flow_unit][2]

    @property
    def decimals(self) -> int:
        """Return the number of decimals of a flow."""
        return max(0, DIGITS - len(str(int(self.full_scale_ml_min / self.ml_min_per_unit))))

    def _number(self, ml_min: float, *, sign: bool = True) -> str:
        """Return the text of a flow in the engineering unit."""
        value = ml_min / self.ml_min_per_unit
        text = f"{abs(value):0{DIGITS + 1 if self.decimals else DIGITS}.{self.decimals}f}"
        return ("-" if value < 0 and float(text) else "+") + text if sign else text

    def frame(self) -> str:
        """Return the data frame without the unit's id."""
        flow = self.plant.sense(self._point) / self._true_share - self._tare
        volumetric = flow * (14.696 / PRESSURE_PSIA)
        codes = " HLD" * bool(self.held) + " LCK" * self.locked + " MOV" * (flow > self.full_scale_ml_min * OVERRANGE)
        return (
            f"+{PRESSURE_PSIA:06.2f} +{TEMPERATURE_C:06.2f} {self._number(volumetric)} {self._number(flow)}"
            f" {self._number(self.setpoint_ml_min, sign=self.firmware.signed_setpoint)}"
            f" {GASES[self.gas]:>{self.firmware.gas_width}}{codes}"
        )

    def _frame(self) -> None:
        self._say(f"{self.unit} {self.frame()}")

    def _stream(self, wanted: bool) -> None:
        if self._streaming is not None:
            self._streaming.cancel()
            self._streaming = None
        if wanted:
            self._streaming = self.loop.call_later(self._stream_s, self._stream_frame)

    def _stream_frame(self) -> None:
        """Send a data frame without id, as a streaming unit does, and schedule the next."""
        if self.line is not None and self.line.clients:
            self.send(f"{self.frame()}\r".encode("ascii"), after_s=0.0, unsolicited=True)
        self._streaming = self.loop.call_later(self._stream_s, self._stream_frame)

    # --- commands ---------------------------------------------------------------------------------------

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        text = text.strip().upper()
        if not text:
            return
        if text.startswith("@@="):
            self._leave_stream(text[3:])
        elif text[0] == self.unit:
            self._act_on(text[1:].strip())

    def _leave_stream(self, unit: str) -> None:
        if self.unit == POLLED and len(unit) == 1 and unit.isalpha():
            self._stream(False)
            self.unit = self.home_unit = unit
            self._frame()

    def _act_on(self, command: str) -> None:
        match command:
            case "":
                self._frame()
            case "V" | "P" | "PC":
                self._zero(command)
            case "HP" | "HC" | "C":
                self._hold("" if command == "C" else command[1])
            case "L" | "U":
                self._lock(command == "L")
            case "VE" | "??D*" | "??M*" | "??G*":
                self._say(*self._listing(command))
            case _:
                tries = (self._of_its_firmware, self._set_flow, self._set_register, self._set_unit)
                if not any(attempt(command) for attempt in tries):
                    self._say("?")

    def _listing(self, command: str) -> list[str]:
        """Return the lines that answer a question about the device: firmware, data frame, maker or gases."""
        match command:
            case "VE":
                return [f"{self.unit}   {self.firmware.text}"]
            case "??D*":
                full_scale = self.full_scale_ml_min / self.ml_min_per_unit
                return frame_table(self.firmware, self.unit, self.flow_unit, full_scale, self.decimals)
            case "??M*":
                return self._maker_table()
            case _:
                return [f"{self.unit} G{number:02d} {gas:>8}" for number, gas in enumerate(GASES)]

    def _zero(self, command: str) -> None:
        """Tare the flow (`V`, only while none is given) or the pressure."""
        if command == "V" and self._given == 0.0:
            self._tare = self.plant.sense(self._point)
        self._frame()

    def _hold(self, valve: str) -> None:
        """Hold the valve as it is (`P`), closed (`C`), or let it regulate again."""
        if self.obeys:
            self.held = valve
            self._act()
        self._frame()

    def _lock(self, locked: bool) -> None:
        self.locked = locked
        self._frame()

    def _set_flow(self, command: str) -> bool:
        """Carry out `S5.00` or `S 5.00` (engineering unit, up to 2.4 % beyond full scale); answer with a data frame."""
        if command[0] != "S" or not self._take(command[1:].strip()):
            return False
        self._frame()
        return True

    def _take(self, number: str) -> bool:
        """Take a new set-point, rounded to what the data frame shows; return whether it can be taken."""
        wanted = decimal(number)
        limit = self.full_scale_ml_min / self.ml_min_per_unit * OVERRANGE
        if wanted is None or not 0.0 <= wanted <= limit:
            return False
        if self.obeys:
            self.setpoint_ml_min = round(wanted, self.decimals) * self.ml_min_per_unit
            self._act()
        return True

    # --- commands that not every firmware has -----------------------------------------------------------

    def _of_its_firmware(self, command: str) -> bool:
        """Answer `LS`, `LV`, `GS`, `DCU` and `FPF` if this firmware has them; return whether it answered."""
        name, *words = command.split()
        if name in ("LS", "LV") and not self.firmware.modern:
            self._lock(True)
            return True
        answer = None
        match name:
            case "LS" if self.firmware.modern:
                answer = self._loop_setpoint(words)
            case "LV" if self.firmware.modern:
                answer = self._loop_variable(words)
            case "GS" if self.firmware.modern:
                answer = self._active_gas(words)
            case "DCU" if self.firmware.modern:
                answer = self._engineering_unit(words)
            case "FPF" if self.firmware.full_scale:
                answer = self._full_scale(words)
        if answer is not None:
            self._say(f"{self.unit} {answer}")
        return answer is not None

    def _loop_setpoint(self, words: list[str]) -> str | None:
        """Answer `LS`, `LS 5.00`: the set-point in force and the requested one, with number and label of the unit."""
        if len(words) > 1 or (words and not self._take(words[0])):
            return None
        number = self._number(self.setpoint_ml_min)
        return f"{number} {number} {self.flow_unit} {FLOW_UNITS[self.flow_unit][0]}"

    def _loop_variable(self, words: list[str]) -> str | None:
        """Answer `LV`, `LV 37`: the controlled variable."""
        if words:
            number = _integer(words[0])
            if len(words) > 1 or number not in LOOP_VARIABLES:
                return None
            self.loop_variable = number
        return str(self.loop_variable)

    def _active_gas(self, words: list[str]) -> str | None:
        """Answer `GS`, `GS 8`, `GS 8 1` (kept over a power cut): the active gas."""
        if words:
            number = _integer(words[0])
            if len(words) > 2 or number is None or number >= len(GASES) or words[1:] not in ([], ["0"], ["1"]):
                return None
            self._select(number)
        return f"{self.gas} {GASES[self.gas]} {GAS_NAMES[self.gas]}"

    def _engineering_unit(self, words: list[str]) -> str | None:
        """Answer `DCU 5`, `DCU 5 7`: the unit of a statistic. Flows share one unit; pressure and temperature keep theirs."""
        numbers = [_integer(word) for word in words]
        if numbers[0:1] and numbers[0] in (MASS, MASS_SETPOINT, VOLUMETRIC) and len(numbers) < 3:
            if len(numbers) == 2:
                if numbers[1] not in FLOW_UNITS:
                    return None
                self.flow_unit = numbers[1] or 0
            return f"{self.flow_unit} {FLOW_UNITS[self.flow_unit][numbers[0] == VOLUMETRIC]}"
        match numbers:
            case [statistic] if statistic == PRESSURE:
                return f"{PRESSURE_UNIT[0]} {PRESSURE_UNIT[1]}"
            case [statistic] if statistic == TEMPERATURE:
                return f"{TEMPERATURE_UNIT[0]} {TEMPERATURE_UNIT[1]}"
        return None

    def _full_scale(self, words: list[str]) -> str | None:
        """Answer `FPF 5`: the full scale of a statistic, with number and label of its unit."""
        match [_integer(word) for word in words]:
            case [statistic] if statistic in (MASS, MASS_SETPOINT, VOLUMETRIC):
                label = FLOW_UNITS[self.flow_unit][statistic == VOLUMETRIC]
                return f"{self._number(self.full_scale_ml_min)} {self.flow_unit} {label}"
            case [statistic] if statistic == PRESSURE:
                return f"+{PRESSURE_RANGE_PSIA:06.2f} {PRESSURE_UNIT[0]} {PRESSURE_UNIT[1]}"
            case [statistic] if statistic == TEMPERATURE:
                return f"+{TEMPERATURE_RANGE_C:06.2f} {TEMPERATURE_UNIT[0]} {TEMPERATURE_UNIT[1]}"
        return None

    def _set_register(self, command: str) -> bool:
        """Answer `R122`, `W122=37`, `$$W46=4`, `G 4`, `W91=50`; R and W may follow `$$`."""
        command = command.removeprefix("$$")
        if command.startswith("G"):
            command = f"W{GAS_REGISTER}={command[1:].strip()}"
        verb, register, wanted = command[:1], *command[1:].replace(" ", "").partition("=")[::2]
        if verb == "W":
            if not self._write(register, _integer(wanted)):
                return False
            if register == GAS_REGISTER:
                self._frame()
                return True
        values = {
            LOOP_REGISTER: self.loop_variable,
            GAS_REGISTER: self.gas,
            STREAM_REGISTER: round(self._stream_s * 1000),
        }
        if verb not in ("R", "W") or register not in values:
            return False
        self._say(f"{self.unit}   {register:0>3} = {values[register]}")
        return True

    def _write(self, register: str, number: int | None) -> bool:
        """Write a number into a register; return False when it does not take the number."""
        if number is None:
            return False
        if register == LOOP_REGISTER and number in LOOP_VARIABLES:
            self.loop_variable = number
        elif register == GAS_REGISTER and number < len(GASES):
            self._select(number)
        elif register == STREAM_REGISTER and number >= 10:
            self._stream_s = number / 1000.0
        else:
            return False
        return True

    def _set_unit(self, command: str) -> bool:
        """Carry out `@=B` (another id) or `@=@` (stream); return whether it was one of them."""
        unit = command[2:]
        if not command.startswith("@=") or len(unit) != 1 or not (unit.isalpha() or unit == POLLED):
            return False
        self.unit = unit
        if unit == POLLED:
            self._stream(True)
        else:
            self.home_unit = unit
            self._frame()
        return True

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial_number = str(200_000 + sum(self.name.encode()) + lab)

    def _maker_table(self) -> list[str]:
        label = FLOW_UNITS[self.flow_unit][0]
        lines = (
            "ALICAT SCIENTIFIC",
            "www.alicat.com",
            "Ph   520-290-6060",
            "info@alicat.com",
            f"Model Number MC-{self.full_scale_ml_min / self.ml_min_per_unit:g}{label}-D",
            f"Serial Number {self.serial_number}",
            "Date Manufactured 11/30/2022",
            "Date Calibrated   11/30/2022",
            "Calibrated By     CH",
            f"Software Revision {self.firmware.revision}",
        )
        return [f"{self.unit}  M{number:02d} {line}" for number, line in enumerate(lines)]


def _integer(word: str) -> int | None:
    """Return `word` as a whole number; None if it is not one."""
    return int(word) if word.isascii() and word.isdigit() and len(word) < 6 else None
