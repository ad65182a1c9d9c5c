"""Balances with SBI, the Sartorius Balance Interface (operating instructions of GC803S, LE2202S, Cubis MSE).

`ESC P` asks for what the display shows: sign, number and, only while the weight is stable, the unit. A weight without
a unit is in motion; its unit is that of the last stable weight.
"""

from __future__ import annotations

import re

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page, Sensor
from drivers.errors import DeviceFault, WrongDevice
from drivers.settings import FlagSetting, NumberSetting, known_only
from drivers.transport.conversation import Conversation, SyncQuery
from drivers.transport.link import Link
from drivers.transport.replies import bad_reply, take_line
from drivers.transport.url import LineSettings

TIMEOUT_S = 1.5
"""At 1200 baud a query and its longest answer alone take a quarter of a second."""
PRINT, MODEL = b"\x1bP\r\n", b"\x1bx1_\r\n"

_ID = rb"(?:[A-Za-z][A-Za-z0-9# .+-]{5})?"
_WEIGHT = re.compile(_ID + rb"([+\- ])(?=.{9} .{3}$) {0,8}(\d{1,8}(?:\.\d{1,7})?|\.\d{1,7}) (\S{0,3}) {0,3}")
_LENGTHS = (14, 20)
_SPECIAL = re.compile(rb"(?:Stat)? *(H|L|C|High|Low|Cal\.?(?:Ext|Int)?\.?|-+ ?-+|Err *\S{1,4}|ERR *\S{1,4}) *")
_MEANING = {
    "H": ("it is overloaded", "more stands on it than it can weigh", "take the load off"),
    "L": ("it is underloaded", "its pan is missing or lifted", "put the pan in place"),
    "C": ("it is calibrating", "an operator, or its own timer, started an adjustment", "wait until it is done"),
    "-": ("it shows no weight", "it is being set up or ends an application", "leave the menu or the application"),
    "E": ("it reports an error", "a fault of its own", "look the number up in its manual; restart it"),
}

TARE = NumberSetting(
    key="tare_g", meaning="weight subtracted from every reading", low=-1e5, high=1e5, default=0.0, unit="g"
)
UNIT_IS_GRAM = FlagSetting(
    key="unit_is_gram",
    meaning="the display is fixed to gram: a weight in motion is accepted even before the first stable one",
    default=False,
)


class SartoriusSbi(Device):
    """One balance; its only point is `mass` (g, less the setting `tare_g`)."""

    model = DeviceModel(
        id="sartorius-sbi",
        vendor="Sartorius",
        name="SBI balance",
        kind="balance",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="Operating instructions GC803S p57, LE2202S p51, Cubis MSE p71 (data interface, SBI)",
    )
    line = LineSettings(baud=1200, bits=7, parity="O", stop=1)
    queries = re.compile(rb"\x1b(?:P|x1_)\r\n")

    settings = (TARE, UNIT_IS_GRAM)
    page = Page(
        wiring="RS-232, or the balance's USB port set to SBI; the line settings are those of its menu.",
        commands=(
            ("ESC P", "print the display", "data input format"),
            ("ESC x1_", "model; barrier", "data input format"),
        ),
        traps=(
            "The line settings 1200 7O1 of older models are common knowledge, not from a manual page: newer ones "
            "come with 9600 8N1 or 8O1. Compare with the menu and write them into the link.",
            "Set printing to “manual, without stability”: with stability the balance answers only when the weight "
            "stands still, and with automatic printing ESC P switches that on and off instead of requesting a value.",
            "A weight in motion comes without its unit: it is taken, as a good reading that is not stable, only after "
            "a stable weight was in gram.",
            "The setting for legal metrology puts brackets around the last digit: such lines are refused.",
            "Both line formats are accepted, 16 characters and 22 with an ID code.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        self.tare_g = TARE.of(config.settings, config.name)
        self._unit_is_gram = UNIT_IS_GRAM.of(config.settings, config.name)
        self._gram_seen = self._unit_is_gram
        self._conversation = Conversation(
            link, config.name, timeout_s=TIMEOUT_S, barrier=SyncQuery(MODEL, lambda: self._model_text)
        )
        self.mass = SartoriusMass(self)
        self.sensors["mass"] = self.mass
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        self._gram_seen = self._unit_is_gram  # another balance may have been connected
        text = await self._conversation.ask(MODEL, self._model_text)
        if len(text) < 3 or not any(character.isdigit() for character in text):
            raise WrongDevice(
                f"it says it is “{text}”",
                where=self.config.name,
                cause="a balance that speaks another language, or wrong line settings",
                action="set the balance's interface to SBI; compare the line settings with its menu",
            )
        return Identity(model=text)

    def _model_text(self, buffer: bytearray) -> str | None:
        """Parse the answer to `ESC x1_`: the first line that is neither a weight nor a special code."""
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if _SPECIAL.fullmatch(line) or _WEIGHT.fullmatch(line) or not line.strip():
                continue
            if any(not 0x20 <= byte < 0x7F for byte in line):
                raise bad_reply(line, self.config.name, "a model")
            return line.decode("ascii").strip()
        return None

    def weight(self, buffer: bytearray) -> tuple[float, str] | None:
        """Parse the answer to `ESC P`: the number on the display and its unit, empty while the weight is in motion."""
        while (line := take_line(buffer, b"\r\n", self.config.name)) is not None:
            if (match := _WEIGHT.fullmatch(line)) and len(line) in _LENGTHS:
                return float((match[1] + match[2]).replace(b" ", b"")), match[3].decode("ascii", "replace")
            if special := _SPECIAL.fullmatch(line):
                self._raise(special[1].decode("ascii"))
            if line.strip():
                raise bad_reply(line, self.config.name, "a weight")
        return None

    def _raise(self, code: str) -> None:
        what, cause, action = _MEANING[code[0]]
        told = f"{what} ({code})" if code[0] == "E" else what
        raise DeviceFault(told, where=self.config.name, cause=cause, action=action)

    async def weigh(self) -> tuple[float, bool]:
        """Return the current weight (g, gross), and whether it is stable."""
        value, unit = await self._conversation.ask(PRINT, self.weight)
        if unit == "g":
            self._gram_seen = True
            return value, True
        if unit:
            self._gram_seen = False
            raise DeviceFault(
                f"it weighs in {unit}, not in g",
                where=self.config.name,
                cause="its display unit was changed",
                action="set its unit to gram",
            )
        if not self._gram_seen:
            raise DeviceFault(
                "the weight is in motion, and its unit is not known yet",
                where=self.config.name,
                cause="the balance tells its unit only with a stable weight",
                action="let it come to rest once, or set unit_is_gram in the rig file if its display is fixed to gram",
            )
        return value, False


class SartoriusMass(Sensor):
    """Net weight on the pan: gross weight less `tare_g`."""

    unit = "g"

    def __init__(self, balance: SartoriusSbi) -> None:
        self._balance = balance

    async def read(self) -> float:
        """Return the current net weight (g)."""
        gross_g, self.stable = await self._balance.weigh()
        return gross_g - self._balance.tare_g
