"""Alicat mass flow controllers, ASCII protocol, several on one line (MC-, M- and BC-series manuals).

Every poll and every set-point is answered by one data frame: letter, absolute pressure, temperature, volumetric
flow, mass flow, set-point, gas, and status words for faults. Flows are mL/min at the controller's standard
conditions (SCCM), or L/min with the setting `units: slpm`.

The firmware version (`VE`) decides the commands. From 10v05 on, `LV` returns the loop variable, and `LS` sets the
set-point; its answer has the unit. From 6v00 on, `FPF` returns full scale and unit, which must agree with the rig
file. Older firmware takes `LS` and `LV` for `L`, which locks its display, so they are never sent to it.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from dataclasses import dataclass

from drivers.commands import Guarantee, LevelStatus
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, NoReply, Refused, WrongDevice
from drivers.gas_flow import GasFlow, is_gas, wrong_gas
from drivers.settings import ChoiceSetting, FlagSetting, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import Form, bad_reply, decimals, take_line
from drivers.transport.url import LineSettings

DIGITS = 5
"""Number of digits of a flow: the decimals are derived from it until a data frame has shown them."""
FULL_SCALE_BELOW = 0.99
"""Minimum ratio of the controller's full scale to that of the rig file: labels are rounded."""
FULL_SCALE_SINCE, LOOP_COMMANDS_SINCE = (6, 0), (10, 5)
"""The first firmware with `FPF`, and the first with the parts of `LS` and `LV` that this driver uses."""
TIMEOUT_S = 0.4
SHARED_S = 0.2
"""Maximum age of a data frame that serves flow and set-point (s)."""
MASS_FLOW = 37
"""Loop variable 37: the controller regulates mass flow (register 122)."""
FAULTS = {
    "TOV": "temperature out of range",
    "MOV": "mass flow out of range",
    "VOV": "volumetric flow out of range",
    "POV": "pressure out of range",
    "OVR": "totaliser rolled over",
    "HLD": "the valve is held: it does not regulate",
    "ADC": "its converter failed",
}
HARMLESS = frozenset({"LCK", "TMF", "OVR"})

_FRAME = re.compile(
    rb"([A-Z])((?: +[+-]?\d{1,7}(?:\.\d{1,5})?){4,6}) +([A-Za-z][A-Za-z0-9/-]{0,11})((?: +[A-Z]{3})*) *"
)
_REGISTER = re.compile(rb"([A-Z]) +(\d{1,3}) = (-?\d{1,10}) *")
_LOOP_VARIABLE = re.compile(rb"[A-Z] +(\d{1,3}) *")
_LOOP_SETPOINT = re.compile(rb"[A-Z] +[+-]?\d{1,7}(?:\.\d{1,5})? +([+-]?\d{1,7}(?:\.\d{1,5})?) +\d{1,3} +(\S+) *")
_FULL_SCALE = re.compile(rb"[A-Z] +([+-]?\d{1,7}(?:\.\d{1,5})?) +\d{1,3} +(\S+) *")
_ACTIVE_GAS = re.compile(rb"[A-Z] +(\d{1,3}) +\S+ +\S+ *")
_VERSION = re.compile(rb"[A-Z] +((\d{1,2})v(\d{2})\b[ -~]*)")
_LABELS = {"sccm": "SCCM", "slpm": "SLPM"}
"""The controller's name of each unit of the rig file."""

FULL_SCALE = NumberSetting(
    key="full_scale_ml_min", meaning="the full scale on the controller's label", low=0.1, high=5e6, unit="mL/min"
)
GAS_NUMBERS = {"air": 0, "co2": 4, "o2": 11}
"""The controller's numbers of the gases of a rig file."""
SET_GAS = FlagSetting(
    key="set_gas", meaning="whether the driver selects the rig file's gas, while the set-point is zero", default=False
)
UNITS = ChoiceSetting(key="units", meaning="unit of the controller's flows", among=tuple(_LABELS), default="sccm")


@dataclass(frozen=True, slots=True)
class DataFrame:
    """One data frame; flows in the controller's unit."""

    pressure: float
    temperature_c: float
    volumetric: float
    mass: float
    setpoint: float
    gas: str
    status: tuple[str, ...]


class AlicatMfc(Device):
    """One controller; its point `flow` is measured (sensor) and set (actuator), in mL/min."""

    model = DeviceModel(
        id="alicat-mfc",
        vendor="Alicat",
        name="MC-Series mass flow controller",
        kind="gas",
        transports=("serial", "tcp", "sim"),
        capabilities=("level", "read"),
        guarantee=Guarantee.GUARD,
        manual="MC-Series manual p43, BC-Series manual p10 (ASCII commands)",
    )
    line = LineSettings(baud=19200, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[A-Z](?:R122|VE|LV|FPF 5)?\r")
    settings = (FULL_SCALE, UNITS, SET_GAS)
    page = Page(
        wiring="RS-232 on the 8-pin mini-DIN or USB (a serial port of its own), RS-485 on request; 19200 8N1, newer"
        " controllers 38400: write `?baud=38400` in the link. Up to 26 on one line, each with its letter.",
        address="the controller's letter, A to Z (default A)",
        commands=(
            ("XR122", "loop variable, which must be mass flow (37); fences late replies", "MC p. 43, BC p. 10"),
            ("XLV", "loop variable, from firmware 10v05 on", "serial primer"),
            ("X", "one data frame: pressure, temperature, flows, set-point, gas, status", "MC p. 43, BC p. 10"),
            (
                "XG n, XGS n",
                "gas (before and from firmware 10v05 on): sent at verification with `set_gas: true` only, set-point zero",
                "MC p. 43, serial primer",
            ),
            ("XVE", "firmware, which decides the commands", "MC p. 43, BC p. 10"),
            ("XFPF 5", "full scale and unit of the mass flow, from firmware 6v00 on", "serial primer"),
            ("XSn.nn", "set-point, before firmware 10v05; the frame that answers is compared", "MC p. 43, BC p. 10"),
            (
                "XLS n.nn",
                "set-point, from firmware 10v05 on; set-point and unit of the answer are compared",
                "serial primer",
            ),
        ),
        traps=(
            "The controller does not end a flow when the host dies: the guard does.",
            "The gas that is selected decides what the numbers mean: CO2 through a controller set to N2 is another flow than"
            " it reports. The gas of each data frame is compared with `gas` of the rig file.",
            "A flow meter answers with one number fewer: it is refused.",
            "A set-point has as many decimals as the controller shows in its data frame, five digits in all: the step is"
            " 0.01 sccm for a full scale of 200 sccm, and 1 sccm for 20,000.",
            "The engineering unit can be changed at the front panel. Firmware 10v05 and later shows it with every set-point,"
            " 6v00 and later at verification, older ones never: compare these with the display.",
            "An older firmware takes LS and LV for L and locks its display.",
            "A set-point knob or front panel as source makes it ignore the commanded one; the readback detects it.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.full_scale_ml_min = FULL_SCALE.of(config.settings, config.name)
        units = UNITS.of(config.settings, config.name)
        self.ml_min_per_unit = 1000.0 if units == "slpm" else 1.0
        self._label = _LABELS[units]
        self._decimals = max(0, DIGITS - len(str(int(self.full_scale_ml_min / self.ml_min_per_unit))))
        self._gas = config.gas
        self._sets_gas = SET_GAS.of(config.settings, config.name)
        self._has_loop_commands = False
        self._letter = _letter(config)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=SyncQuery(self._letter + b"R122\r", lambda: self._register),
        )
        self._frame: DataFrame | None = None
        self._frame_at_s = -1.0
        self._form = Form()
        self.sensors["flow"] = _MassFlow(self)
        self.actuators["flow"] = AlicatFlowController(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    @property
    def step_ml_min(self) -> float:
        """Resolution of a set-point (mL/min): the last digit that the controller shows."""
        return 10.0**-self._decimals * self.ml_min_per_unit

    async def _identify(self) -> Identity:
        self.forget()
        self._form = Form()  # another controller may have been connected
        frame = await self.frame()
        firmware, version = await self._firmware()
        self._has_loop_commands = version >= LOOP_COMMANDS_SINCE
        if self._has_loop_commands:
            variable = await self._conversation.ask(self._letter + b"LV\r", self._loop_variable)
        else:
            variable = await self._conversation.ask(self._letter + b"R122\r", self._register)
        if variable != MASS_FLOW:
            raise WrongDevice(
                f"it regulates variable {variable}, not mass flow ({MASS_FLOW})",
                where=self.config.name,
                cause="a pressure or volumetric controller, or one set to regulate something else",
                action="set its loop variable to mass flow at its front panel",
            )
        if version >= FULL_SCALE_SINCE:
            full_scale, label = await self._conversation.ask(self._letter + b"FPF 5\r", self._full_scale)
            if label != self._label:
                raise WrongDevice(
                    f"it counts flows in {label}, and the rig file says {self._label}",
                    where=self.config.name,
                    cause="its engineering unit was changed, or units in the rig file is wrong",
                    action=f"set its unit of mass flow to {self._label}, or correct units in the rig file",
                )
            if full_scale * self.ml_min_per_unit < self.full_scale_ml_min * FULL_SCALE_BELOW:
                raise WrongDevice(
                    f"its full scale is {full_scale * self.ml_min_per_unit:g} mL/min, and the rig file says"
                    f" {self.full_scale_ml_min:g}",
                    where=self.config.name,
                    cause="a smaller controller than the rig file says, or two controllers are exchanged",
                    action="compare the label with full_scale_ml_min and address in the rig file",
                )
        await self._require_gas(frame)
        return Identity(model="mass flow controller", firmware=firmware)

    async def _require_gas(self, frame: DataFrame) -> None:
        """Compare the selected gas with the rig file; select it where the rig file says so and nothing flows."""
        if not self._gas or is_gas(frame.gas, self._gas):
            return
        if self._sets_gas and frame.setpoint == 0.0 and not self.link.read_only:
            number = b"%d" % GAS_NUMBERS[self._gas]
            if self._has_loop_commands:
                await self._conversation.ask(self._letter + b"GS " + number + b"\r", self._active_gas)
            else:
                await self._conversation.ask(self._letter + b"G " + number + b"\r", self._data_frame)
            self.forget()
            frame = await self.frame()
        if not is_gas(frame.gas, self._gas):
            raise self._another_gas(frame.gas)

    def _another_gas(self, told: str) -> WrongDevice:
        return wrong_gas(
            self.config.name,
            told,
            self._gas,
            "look which bottle is connected; select that gas at its front panel (or `set_gas: true`, while it is closed),"
            " or correct gas in the rig file",
        )

    async def _firmware(self) -> tuple[str, tuple[int, int]]:
        """Return the answer to `VE` and the version in it; ("", (0, 0)) for a controller that does not answer `VE`
        (8v17).
        """
        for _ in range(2):  # the first reply may simply have been lost
            with suppress(NoReply):
                return await self._conversation.ask(self._letter + b"VE\r", self._version)
        return "", (0, 0)

    async def frame(self) -> DataFrame:
        """Return the controller's data, at most `SHARED_S` old."""
        loop = asyncio.get_running_loop()
        if self._frame is None or loop.time() - self._frame_at_s > SHARED_S:
            self._frame = await self._conversation.ask(self._letter + b"\r", self._data_frame)
            self._frame_at_s = loop.time()
        if self._conversation.verified and self._gas and not is_gas(self._frame.gas, self._gas):
            raise self._another_gas(self._frame.gas)
        return self._frame

    def forget(self) -> None:
        """Invalidate the data frame: the set-point is about to change."""
        self._frame = None

    async def set(self, ml_min: float) -> None:
        """Set the flow (mL/min), with the controller's resolution, and verify the set-point that it returns."""
        self.forget()
        wanted = ml_min / self.ml_min_per_unit
        number = b"%.*f" % (self._decimals, wanted)
        if self._has_loop_commands:
            line, told, label = await self._conversation.ask(
                self._letter + b"LS " + number + b"\r", self._loop_setpoint
            )
            if label != self._label:  # a garbled answer or another unit: only verification can tell
                self._conversation.doubt()
                self._conversation.distrust()
                self._conversation.link.wake()
                raise bad_reply(line, self.config.name, f"a set-point in {self._label}")
            self._check_setpoint(told, wanted)
            self.forget()  # a poll that was running may just have returned the old set-point
            return
        frame = await self._conversation.ask(self._letter + b"S" + number + b"\r", self._data_frame)
        self._check_setpoint(frame.setpoint, wanted)
        # A poll that was running may just have returned the old set-point: this frame is newer.
        self._frame, self._frame_at_s = frame, asyncio.get_running_loop().time()

    def _check_setpoint(self, told: float, wanted: float) -> None:
        if abs(told - wanted) > 0.51 * 10.0**-self._decimals + 0.001 * wanted:
            raise Refused(
                f"it was set to {wanted:.{self._decimals}f} and says {told:g}",
                where=self.config.name,
                cause="its set-point comes from its front panel, or its full scale is smaller",
                action="set its set-point source to serial; check full_scale_ml_min in the rig file",
            )

    # --- parsers: lines of other controllers, and older lines of another kind, are skipped ---------------------

    def _data_frame(self, buffer: bytearray) -> DataFrame | None:
        while (line := self._own_line(buffer)) is not None:
            if match := _FRAME.fullmatch(line):
                texts = match[2].split()
                # Each number has a fixed width, padded with zeros; a sign precedes every number that can be
                # negative.
                form = tuple(size for text in texts for size in (len(text), decimals(text)))
                self._form.check(form, line, self.config.name)
                numbers = [float(text) for text in texts]
                if len(numbers) < 5:
                    raise WrongDevice(
                        "its data frame has no set-point",
                        where=self.config.name,
                        cause="it is a flow meter, not a controller",
                        action="check the model in the rig file",
                    )
                self._decimals = decimals(texts[4])
                words = tuple(word.decode() for word in match[4].split())
                pressure, celsius, volumetric, mass, setpoint = numbers[:5]
                return DataFrame(pressure, celsius, volumetric, mass, setpoint, match[3].decode(), words)
        return None

    def _register(self, buffer: bytearray) -> int | None:
        while (line := self._own_line(buffer)) is not None:
            if (match := _REGISTER.fullmatch(line)) and match[2] == b"122":
                return int(match[3])
        return None

    def _loop_variable(self, buffer: bytearray) -> int | None:
        match = self._own_match(buffer, _LOOP_VARIABLE)
        return int(match[1]) if match else None

    def _loop_setpoint(self, buffer: bytearray) -> tuple[bytes, float, str] | None:
        match = self._own_match(buffer, _LOOP_SETPOINT)
        return (match[0], float(match[1]), match[2].decode("latin-1")) if match else None

    def _active_gas(self, buffer: bytearray) -> bytes | None:
        match = self._own_match(buffer, _ACTIVE_GAS)
        return match[1] if match else None

    def _full_scale(self, buffer: bytearray) -> tuple[float, str] | None:
        match = self._own_match(buffer, _FULL_SCALE)
        return (float(match[1]), match[2].decode("latin-1")) if match else None

    def _version(self, buffer: bytearray) -> tuple[str, tuple[int, int]] | None:
        match = self._own_match(buffer, _VERSION)
        return (match[1].decode("ascii").strip(), (int(match[2]), int(match[3]))) if match else None

    def _own_match(self, buffer: bytearray, pattern: re.Pattern[bytes]) -> re.Match[bytes] | None:
        """Return the controller's own next line that matches `pattern`; skip others."""
        while (line := self._own_line(buffer)) is not None:
            if match := pattern.fullmatch(line):
                return match
        return None

    def _own_line(self, buffer: bytearray) -> bytes | None:
        while (line := take_line(buffer, b"\r", self.config.name)) is not None:
            if line[:1].upper() == self._letter:
                return line
            if line.strip() == b"?":
                raise Refused(
                    "it does not understand (?)",
                    where=self.config.name,
                    cause="an older firmware, or a value it cannot take",
                    action="check the model and its firmware",
                )
            if any(byte > 0x7E for byte in line):
                raise bad_reply(line, self.config.name, "a line of text")
        return None


class _MassFlow(Sensor):
    unit = "mL/min"

    def __init__(self, controller: AlicatMfc) -> None:
        self._controller = controller

    async def read(self) -> float:
        frame = await self._controller.frame()
        if faults := [word for word in frame.status if word not in HARMLESS]:
            raise DeviceFault(
                "; ".join(f"{word}: {FAULTS.get(word, 'a status this driver does not know')}" for word in faults),
                where=self._controller.config.name,
                cause="no gas pressure, a blocked line or a failing controller",
                action="check the gas supply, then the controller's display",
            )
        return frame.mass * self._controller.ml_min_per_unit


class AlicatFlowController(GasFlow):
    """Set-point and measured flow, from one data frame."""

    def __init__(self, controller: AlicatMfc) -> None:
        super().__init__(f"{controller.config.name}.flow", controller.conversation)
        self._controller = controller

    @property
    def full_scale_ml_min(self) -> float:
        """Full scale of the rig file."""
        return self._controller.full_scale_ml_min

    @property
    def step_ml_min(self) -> float:
        """The last digit of a set-point that the controller shows."""
        return self._controller.step_ml_min

    async def status(self) -> LevelStatus:
        """Return set-point and measured mass flow (mL/min) that the controller reports."""
        frame = await self._controller.frame()
        unit = self._controller.ml_min_per_unit
        return LevelStatus(setpoint=frame.setpoint * unit, measured=frame.mass * unit)

    async def is_open(self) -> bool:
        """See :meth:`GasFlow.is_open`."""
        return (await self._controller.frame()).setpoint > 0.0

    async def write(self, ml_min: float) -> None:
        """See :meth:`GasFlow.write`."""
        await self._controller.set(ml_min)


def _letter(config: DeviceConfig) -> bytes:
    letter = (config.address or "A").upper()
    if len(letter) != 1 or not "A" <= letter <= "Z":
        raise bad_setting(config.name, "address", f"is “{config.address}”", "write the controller's letter, A to Z")
    return letter.encode()
