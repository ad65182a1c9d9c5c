"""Alicat mass flow controllers, ASCII protocol, several on one line (MC-, M- and BC-series manuals).

Every poll and every set-point is answered by one data frame: letter, absolute pressure, temperature,
volumetric flow, mass flow, set-point, gas, and status words when something is wrong. Flows are taken as
mL/min at the controller's standard conditions (SCCM), or L/min with the setting `units: slpm`.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass

from drivers.device import (
    Device,
    DeviceConfig,
    DeviceFault,
    DeviceModel,
    Guarantee,
    Identity,
    LevelStatus,
    Page,
    Refused,
    Sensor,
    WrongDevice,
)
from drivers.gas_flow import GasFlow
from drivers.settings import bad_setting, choice_of, known_only, number_of
from drivers.transport.conversation import Barrier, Conversation
from drivers.transport.link import Link
from drivers.transport.replies import Form, bad_reply, decimals, take_line
from drivers.transport.url import LineSettings

STEP = 0.01
"""The finest step of a set-point, in the controller's unit."""
TIMEOUT_S = 0.4
SHARED_S = 0.2
"""One data frame serves flow and set-point for so long."""
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


@dataclass(frozen=True, slots=True)
class DataFrame:
    """One data frame, flows in the controller's own unit."""

    pressure: float
    temperature_c: float
    volumetric: float
    mass: float
    setpoint: float
    gas: str
    status: tuple[str, ...]


class AlicatMfc(Device):
    """One controller; its point `flow` is both measured (sensor) and set (actuator), in mL/min."""

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
    queries = re.compile(rb"[A-Z](?:R122|VE)?\r")
    page = Page(
        wiring="RS-232 on the 8-pin mini-DIN or USB (a serial port of its own), RS-485 on request; 19200 8N1, newer"
        " controllers 38400: write `?baud=38400` in the link. Up to 26 on one line, each with its letter.",
        settings=(
            ("address", "the controller's letter, A to Z (default A)"),
            ("full_scale_ml_min", "full scale on its label, mL/min; must be given"),
            ("units", "what it counts in: sccm or slpm (default sccm)"),
        ),
        commands=(
            ("XR122", "loop variable, which must be mass flow (37); fences late replies", "MC p. 43, BC p. 10"),
            ("X", "one data frame: pressure, temperature, flows, set-point, gas, status", "MC p. 43, BC p. 10"),
            ("XVE", "firmware", "MC p. 43, BC p. 10"),
            ("XSn.nn", "set-point; the frame that answers is compared", "MC p. 43, BC p. 10"),
        ),
        traps=(
            "Nothing in the controller ends a flow when the host is gone: the guard does.",
            "A flow meter answers with one number less: it is refused.",
            "Set-points have two decimals in the controller's own unit, so the step is 0.01 sccm or 10 mL/min (slpm).",
            "A set-point knob or front panel as source makes it ignore ours; the readback refuses it.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, frozenset({"full_scale_ml_min", "units"}))
        if "full_scale_ml_min" not in config.settings:
            raise bad_setting(
                config.name,
                "full_scale_ml_min",
                "is missing",
                "write the full scale on the controller's label",
            )
        self.full_scale_ml_min = number_of(
            config.settings, "full_scale_ml_min", config.name, default=0.0, low=0.1, high=5e6
        )
        units = choice_of(config.settings, "units", config.name, default="sccm", among=("sccm", "slpm"))
        self.ml_min_per_unit = 1000.0 if units == "slpm" else 1.0
        self._letter = _letter(config)
        self._conversation = Conversation(
            link,
            config.name,
            timeout_s=TIMEOUT_S,
            barrier=Barrier(self._letter + b"R122\r", lambda: self._register),
        )
        self._frame: DataFrame | None = None
        self._frame_at_s = -1.0
        self._form = Form()
        self.sensors["flow"] = _MassFlow(self)
        self.actuators["flow"] = FlowController(self)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self.forget()
        self._form = Form()  # another controller may have been plugged in
        variable = await self._conversation.ask(self._letter + b"R122\r", self._register)
        if variable != MASS_FLOW:
            raise WrongDevice(
                f"it regulates variable {variable}, not mass flow ({MASS_FLOW})",
                where=self.config.name,
                cause="a pressure or volumetric controller, or one set to regulate something else",
                action="set its loop variable to mass flow at its front panel",
            )
        await self.frame()
        firmware = await self._conversation.ask(self._letter + b"VE\r", self._version)
        return Identity(model="mass flow controller", firmware=firmware)

    async def frame(self) -> DataFrame:
        """The controller's data, not older than `SHARED_S`."""
        loop = asyncio.get_running_loop()
        if self._frame is None or loop.time() - self._frame_at_s > SHARED_S:
            self._frame = await self._conversation.ask(self._letter + b"\r", self._data_frame)
            self._frame_at_s = loop.time()
        return self._frame

    def forget(self) -> None:
        """The set-point is about to change: the frame is old."""
        self._frame = None

    async def set(self, ml_min: float) -> None:
        """Set the flow (mL/min) and see that the controller repeats it."""
        self.forget()
        wanted = ml_min / self.ml_min_per_unit
        frame = await self._conversation.ask(b"%sS%.2f\r" % (self._letter, wanted), self._data_frame)
        if abs(frame.setpoint - wanted) > 0.0051 + 0.001 * wanted:
            raise Refused(
                f"it was set to {wanted:.2f} and says {frame.setpoint:g}",
                where=self.config.name,
                cause="its set-point comes from its front panel, or its full scale is smaller",
                action="set its set-point source to serial; check full_scale_ml_min in the rig file",
            )
        # A poll that was under way when this began may just have brought the old set-point: this frame is newer.
        self._frame, self._frame_at_s = frame, asyncio.get_running_loop().time()

    # --- parsers: lines of other controllers on the line, and older ones of another kind, are skipped -----

    def _data_frame(self, buffer: bytearray) -> DataFrame | None:
        while (line := self._own_line(buffer)) is not None:
            if match := _FRAME.fullmatch(line):
                texts = match[2].split()
                # Each number has a fixed width, zeros before and after it; a sign stands before all that may be negative.
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
                words = tuple(word.decode() for word in match[4].split())
                pressure, celsius, volumetric, mass, setpoint = numbers[:5]
                return DataFrame(pressure, celsius, volumetric, mass, setpoint, match[3].decode(), words)
        return None

    def _register(self, buffer: bytearray) -> int | None:
        while (line := self._own_line(buffer)) is not None:
            if (match := _REGISTER.fullmatch(line)) and match[2] == b"122":
                return int(match[3])
        return None

    def _version(self, buffer: bytearray) -> str | None:
        while (line := self._own_line(buffer)) is not None:
            if not _FRAME.fullmatch(line) and not _REGISTER.fullmatch(line) and line.isascii():
                return line[1:].decode("ascii").strip()
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


class FlowController(GasFlow):
    """The set-point, and what is measured, from one data frame."""

    def __init__(self, controller: AlicatMfc) -> None:
        super().__init__(f"{controller.config.name}.flow", controller.conversation)
        self._controller = controller

    @property
    def full_scale_ml_min(self) -> float:
        """As the rig file says."""
        return self._controller.full_scale_ml_min

    @property
    def step_ml_min(self) -> float:
        """Set-points are sent with two decimals."""
        return STEP * self._controller.ml_min_per_unit

    async def status(self) -> LevelStatus:
        """Set-point and measured mass flow (mL/min), as the controller says."""
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
