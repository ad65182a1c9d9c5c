"""Tecan Cavro syringe pumps with a valve: XP 3000, XCalibur, XLP 6000 (OEM and DT protocol).

The Cavro Centris uses other forms of the same commands (volumes instead of increments) and is not supported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Dosing, Identity, Page
from drivers.errors import WrongDevice
from drivers.settings import ChoiceSetting, NumberSetting, bad_setting, known_only
from drivers.tecan_cavro_pump import OVERTRAVEL, Syringe, SyringePump
from drivers.tecan_cavro_wire import CavroLine
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link
from drivers.transport.url import LineSettings

TIMEOUT_S = 0.3
"""A pump answers within 5 ms; an answer of 40 characters takes 45 ms at 9600 baud."""
MAX_PORTS = 12


@dataclass(frozen=True, slots=True)
class Series:
    """Describes one series of pumps at standard resolution: increments of a full stroke, speed pulses per increment, the
    command that selects these increments, and whether the pump counts its initialisations.
    """

    increments: int
    pulses: int
    prefix: bytes
    counts_initialisations: bool


SERIES = {
    "xp-3000": Series(3000, 2, b"", counts_initialisations=False),
    "xcalibur": Series(3000, 2, b"N0", counts_initialisations=True),
    "xlp-6000": Series(6000, 1, b"N0", counts_initialisations=True),
}
"""Speeds are half increments per second for the first two; for the XLP 6000 that is not proven (see the traps)."""
SERIES_SETTING = ChoiceSetting(key="series", meaning="the pump's series", among=tuple(SERIES))
SYRINGE_UL = NumberSetting(
    key="syringe_ul", meaning="volume of a full stroke of the fitted syringe", low=25.0, high=50_000.0, unit="µL"
)
INPUT_PORT = NumberSetting(
    key="input_port",
    meaning="port from which the syringe is filled; 0 is the input of a valve without distribution",
    low=0,
    high=MAX_PORTS,
    default=0,
)
OUTPUT_PORT = NumberSetting(
    key="output_port",
    meaning="port to which it dispenses; 0 is the output of a valve without distribution",
    low=0,
    high=MAX_PORTS,
    default=0,
)
FILL_S = NumberSetting(
    key="fill_s", meaning="time to fill a whole stroke", low=6.0, high=1200.0, default=10.0, unit="s"
)
PROTOCOL = ChoiceSetting(
    key="protocol", meaning="protocol of the line; only oem has a checksum", among=("oem", "dt"), default="oem"
)


class TecanCavro(Device):
    """One pump; its only point is `pump`."""

    model = DeviceModel(
        id="tecan-cavro",
        vendor="Tecan",
        name="Cavro XP 3000, XCalibur and XLP 6000 syringe pumps",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("dispense", "total"),
        guarantee=Guarantee.DEVICE,
        manual="XCalibur manual 733085-B, chapter 3; pages of the XP 3000 (725730C) and XLP 6000 (734237-C) manuals",
        verification="verified against the XCalibur manual and a simulator written independently of it; of the XP 3000"
        " and XLP 6000 manuals only some pages were available",
        # A syringe is far more accurate than tubing; the rest is compliance, bubbles and the end of the line.
        dosing=Dosing(rel_sd=0.01, dose_sd_ul=2.0, min_ul=10.0),
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"(?:\x02[1-?]1(?:Q|\?|\?2|\?6|\?15|&)\x03.|/[1-?](?:Q|\?|\?2|\?6|\?15|&)\r)", re.DOTALL)
    settings = (SERIES_SETTING, SYRINGE_UL, INPUT_PORT, OUTPUT_PORT, FILL_S, PROTOCOL)
    page = Page(
        wiring="RS-232 or RS-485, up to 15 pumps on one line; 9600 8N1. 24 V supply. The first protocol that an XCalibur"
        " or XLP 6000 receives after power-up is the only one until the next power-up; a jumper (JP1-2) selects it on"
        " an XP 3000 with standard firmware.",
        address="position of the address switch plus one, 1 to 15 (default 1)",
        commands=(
            ("Q", "ready or busy, error code", "3.6"),
            ("?", "plunger position, from which the volume is counted", "3.5.8"),
            ("?2", "speed during a stroke", "3.5.8"),
            ("?6", "valve position, after a restart of the controller during a stroke", "3.5.8"),
            ("?15", "number of initialisations (not on the XP 3000)", "3.5.8"),
            ("&", "firmware", "3.5.8"),
            ("N0", "standard resolution, before each move (not on the XP 3000)", "3.3.2"),
            ("I, O or In, On", "valve to input and output; to port n of a distribution valve", "3.5.1"),
            ("Vn", "speed, pulses per second", "3.5.3"),
            ("An", "plunger to position n", "3.5.2"),
            ("R", "execute", "3.5.5"),
            ("T", "terminate", "3.5.5"),
        ),
        traps=(
            "The driver never initialises the pump, because this empties the syringe through the outlet. Initialise it by"
            " hand before the first dose and after every loss of power, with the outlet led to waste:"
            " `choroid device talk`, `ZR` (half or a third of the force for small syringes: `Z1R`, `Z2R`).",
            "After a loss of power, a plunger or valve overload, or a plunger position that no command explains, nothing is"
            " dosed and the status is a fault. It ends when the pump reports a new initialisation; for an XP 3000, which"
            " does not count them, when it is initialised and the controller restarted.",
            "The volume is counted from plunger positions since the controller started. Liquid that the plunger moves is"
            " counted, also if it is air: the pump cannot detect an empty reservoir.",
            "A dose larger than a stroke is given in equal strokes. Each refill takes up to `fill_s`; no liquid flows"
            " then. If the controller dies, the dose ends with the present stroke.",
            "What a stopped dose leaves in the syringe is used by the next one. Rinse by hand when the reservoir changes.",
            "`T` does not stop a turning valve, and the manual warns that a terminated move may lose increments: initialise"
            " at the next opportunity after a stop in mid-stroke.",
            "A distribution valve passes other ports on its way; the plunger stands meanwhile.",
            "Backlash compensation returns a small volume through the input at each fill.",
            "A wrong `series` is detected as a stroke that is too fast or too slow. On the XLP 6000, one pulse is taken for"
            " one increment, which no available page of its manual states: check the duration of the first dose.",
            "The DT protocol has no checksum: a disturbed command can move the plunger to another position within the stroke."
            " Use OEM unless a jumper forbids it.",
            "`R` alone resumes a terminated string: never send it by hand.",
            "The Cavro Centris is not supported: its commands carry volumes and units.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        given, where = config.settings, config.name
        known_only(given, where, self.settings)
        self.series_name = SERIES_SETTING.of(given, where)
        self._series = SERIES[self.series_name]
        self._conversation = Conversation(link, where, timeout_s=TIMEOUT_S)
        self._conversation.anonymous = True
        self._line = CavroLine(self._conversation, _address(config), oem=PROTOCOL.of(given, where) == "oem")
        self.pump = SyringePump(
            self._line,
            f"{where}.pump",
            self._syringe(),
            counts_initialisations=self._series.counts_initialisations,
        )
        self.actuators["pump"] = self.pump
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        firmware = await self._line.firmware()
        position = await self.pump.position()
        if position > self._series.increments * (1.0 + OVERTRAVEL):
            raise WrongDevice(
                f"its plunger is at {position}, and the stroke of series {self.series_name} ends at"
                f" {self._series.increments}",
                where=self.config.name,
                cause="another series, or fine positioning (N1) is switched on",
                action="correct series in the rig file, or send N0R to the empty pump",
            )
        await self.pump.prepare()
        return Identity(model=f"Cavro, taken for {self.series_name}", firmware=firmware)

    def _syringe(self) -> Syringe:
        config, series = self.config, self._series
        given, where = config.settings, config.name
        source, outlet = (_port(setting, config) for setting in (INPUT_PORT, OUTPUT_PORT))
        if (source == 0) != (outlet == 0) or source == outlet != 0:
            raise bad_setting(
                where,
                "output_port",
                f"is {outlet} and input_port {source}",
                "give two different ports of a distribution valve, or neither",
            )
        return Syringe(
            volume_ul=SYRINGE_UL.of(given, where),
            increments=series.increments,
            pulses=series.pulses,
            prefix=series.prefix,
            turn_in=b"I%d" % source if source else b"I",
            turn_out=b"O%d" % outlet if outlet else b"O",
            valve_out=b"%d" % outlet if outlet else b"o",
            fill_pulses=round(series.increments * series.pulses / FILL_S.of(given, where)),
        )


def _port(setting: NumberSetting, config: DeviceConfig) -> int:
    number = setting.of(config.settings, config.name)
    if not number.is_integer():
        raise bad_setting(config.name, setting.key, f"is “{number:g}”", f"write a whole number up to {MAX_PORTS}")
    return int(number)


def _address(config: DeviceConfig) -> int:
    text = config.address or "1"
    if not re.fullmatch(r"[1-9]|1[0-5]", text, re.ASCII):
        raise bad_setting(config.name, "address", f"is “{text}”", "write the address switch plus one, 1 to 15")
    return int(text)
