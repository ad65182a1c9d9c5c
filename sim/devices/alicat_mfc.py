"""An Alicat mass flow controller (MC series manual p. 43, serial primer): unit id, command, CR; answers end CR.

A poll answers `A +014.70 +025.00 +000.00 +000.00 000.00    Air`: id, absolute pressure (psi), temperature (°C),
volumetric flow, mass flow, set-point (mL/min), gas, then status codes. Another unit's lines are met with silence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice, decimal
from sim.devices.port import PlantPort

GASES = ("Air", "Ar", "CH4", "CO", "CO2", "C2H6", "H2", "He", "N2", "N2O", "Ne", "O2", "C3H8", "nC4H10", "C2H2")
"""In the order of their numbers (`G n`)."""
LOOP_VARIABLES = (34, 36, 37, 38, 39)
"""What may be controlled: absolute pressure, volumetric flow, mass flow, gauge and differential pressure."""
LOOP_REGISTER, GAS_REGISTER, STREAM_REGISTER = "122", "46", "91"
FIRMWARE = "10v05.0-R24 Nov 30 2022,16:04:20"
PRESSURE_PSIA = 14.70
TEMPERATURE_C = 25.0
OVERRANGE = 1.024
STREAM_S = 0.050
POLLED = "@"
"""The id that puts a unit into streaming."""


class AlicatMfc(AsciiDevice):
    """A controller of `full_scale_ml_min` (device setting, default 100) for `gas` (default Air)."""

    baud = 19200
    think_s = 0.008

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.unit = self.home_unit = (spec.address or "A").upper()
        self.full_scale = float(spec.settings.get("full_scale_ml_min", 100.0))
        self.gas = GASES.index(str(spec.settings.get("gas", "Air")))
        self.setpoint = 0.0
        self.loop_variable = 37
        self.serial_number = str(200_000 + sum(name.encode()))
        self.held = ""
        """"" as controlled, "P" the valve stays as it is, "C" it is closed."""
        self.locked = False
        whole = len(str(int(self.full_scale)))
        self._decimals = max(0, 5 - max(whole, 1))
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
        self.setpoint, self.held = 0.0, ""
        self._act()

    def _act(self) -> None:
        """Let through what the set-point and the hold say."""
        if self.held != "P":
            flow = 0.0 if self.held == "C" else self.setpoint
            if flow != self._given:
                self._given = flow
                self.plant.set_gas(self._point, flow)

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

        def again() -> None:
            self.gas, self._tare, self.loop_variable, self._stream_s = stored

        return again

    # --- what it says -----------------------------------------------------------------------------------

    def bad_line(self) -> None:
        """Whom it was for cannot be known."""

    def _say(self, *lines: str) -> None:
        self.send("".join(f"{line}\r" for line in lines).encode("ascii"))

    def _number(self, value: float, *, sign: bool = True) -> str:
        text = f"{abs(value):0{6 if self._decimals else 5}.{self._decimals}f}"
        return ("-" if value < 0 and float(text) else "+") + text if sign else text

    def frame(self) -> str:
        """The data frame without the unit's id."""
        flow = self.plant.sense(self._point) - self._tare
        volumetric = flow * (14.696 / PRESSURE_PSIA)
        codes = " HLD" * bool(self.held) + " LCK" * self.locked + " MOV" * (flow > self.full_scale * OVERRANGE)
        return (
            f"+{PRESSURE_PSIA:06.2f} +{TEMPERATURE_C:06.2f} {self._number(volumetric)} {self._number(flow)}"
            f" {self._number(self.setpoint, sign=False)} {GASES[self.gas]:>6}{codes}"
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
        """A streaming unit leaves its id out."""
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
                if command == "V":
                    self._tare = self.plant.sense(self._point) if self._given == 0.0 else self._tare
                self._frame()
            case "HP" | "HC" | "C":
                if self.obeys:
                    self.held = "" if command == "C" else command[1]
                    self._act()
                self._frame()
            case "L" | "U":
                self.locked = command == "L"
                self._frame()
            case "VE":
                self._say(f"{self.unit}   {FIRMWARE}")
            case "??D*":
                self._say(*self._frame_table())
            case "??M*":
                self._say(*self._maker_table())
            case "??G*":
                self._say(*(f"{self.unit}   G{number:02d} {gas:>6}" for number, gas in enumerate(GASES)))
            case _:
                if not (self._set_flow(command) or self._set_register(command) or self._set_unit(command)):
                    self._say("?")

    def _set_flow(self, command: str) -> bool:
        """`S5.00` or `S 5.00`, mL/min, up to 2.4 % beyond full scale."""
        if command[0] != "S":
            return False
        wanted = decimal(command[1:].strip())
        if wanted is None or not 0.0 <= wanted <= self.full_scale * OVERRANGE:
            return False
        if self.obeys:
            self.setpoint = round(wanted, self._decimals)
            self._act()
        self._frame()
        return True

    def _set_register(self, command: str) -> bool:
        """`R122`, `W122=37`, `$$W46=4`, `G 4`, `W91=50`; R and W are also taken behind `$$`."""
        command = command.removeprefix("$$")
        if command.startswith("G"):
            command = f"W{GAS_REGISTER}={command[1:].strip()}"
        verb, register, wanted = command[:1], *command[1:].replace(" ", "").partition("=")[::2]
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 6 else None
        if verb == "W":
            if register == LOOP_REGISTER and number in LOOP_VARIABLES:
                self.loop_variable = number or 0
            elif register == GAS_REGISTER and number is not None and number < len(GASES):
                self.gas = number
                self._frame()
                return True
            elif register == STREAM_REGISTER and number is not None and number >= 10:
                self._stream_s = number / 1000.0
            else:
                return False
        values = {
            LOOP_REGISTER: self.loop_variable,
            GAS_REGISTER: self.gas,
            STREAM_REGISTER: round(self._stream_s * 1000),
        }
        if verb not in ("R", "W") or register not in values:
            return False
        self._say(f"{self.unit}   {register:0>3} = {values[register]}")
        return True

    def _set_unit(self, command: str) -> bool:
        """`@=B` gives the unit another id, `@=@` makes it stream."""
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

    def _frame_table(self) -> list[str]:
        """What the fields of a data frame are. The column layout is the primer's, not seen on a wire."""
        flow = f"SCCM 0 to {self.full_scale:g}"
        fields = (
            ("Unit ID", "string", "A to Z"),
            ("Abs Press", "s decimal", "psia 0 to 160"),
            ("Flow Temp", "s decimal", "C -10 to 60"),
            ("Vol Flow", "s decimal", flow.replace("SCCM", "CCM")),
            ("Mass Flow", "s decimal", flow),
            ("Setpoint", "decimal", flow),
            ("Gas", "string", "Air to C2H2"),
        )
        head = f"{self.unit}   D00 NAME       TYPE       RANGE"
        return [head] + [
            f"{self.unit}   D{number:02d} {field:<10} {kind:<10} {span}"
            for number, (field, kind, span) in enumerate(fields, start=1)
        ]

    def _maker_table(self) -> list[str]:
        lines = (
            "Alicat Scientific",
            "Tucson, AZ",
            "www.alicat.com",
            "",
            f"Model Number MC-{self.full_scale:g}SCCM-D",
            f"Serial Number {self.serial_number}",
            "Date Manufactured 11/30/2022",
            "Date Calibrated   11/30/2022",
            "Calibrated By     CH",
            "Software Revision 10v05.0",
        )
        return [f"{self.unit}   M{number:02d} {line}".rstrip() for number, line in enumerate(lines)]
