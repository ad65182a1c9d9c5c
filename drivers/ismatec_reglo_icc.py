"""Ismatec Reglo ICC, a peristaltic pump of four independent channels (manual 14-036-E Rev. C §14–18).

Each channel is one pump point (:mod:`drivers.ismatec_channel`).
"""

from __future__ import annotations

import re

from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Dosing, Identity, Page
from drivers.errors import WrongDevice
from drivers.ismatec_channel import CHANNEL_SETTINGS, IsmatecChannel
from drivers.ismatec_formats import TIME_UNIT_S, parse_count
from drivers.ismatec_wire import RegloIccWire
from drivers.settings import ChoiceSetting, FlagSetting, NumberSetting, bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link
from drivers.transport.url import LineSettings

TIME_UNIT = NumberSetting(
    key="time_unit_s", meaning="unit of the pump's times", low=0.1, high=1.0, default=TIME_UNIT_S, unit="s"
)
ADDRESSING = ChoiceSetting(
    key="addressing",
    meaning="address channels, or the whole pump as one (several pumps in a chain)",
    among=("channels", "legacy"),
    default="channels",
)
DOSE_MODE = ChoiceSetting(
    key="dose_mode",
    meaning="dose as a volume at a flow (`O`), or as a volume over a time (`G`)",
    among=("rate", "time"),
    default="rate",
)
EVENTS = FlagSetting(key="events", meaning="the pump reports overheating and overcurrent unsolicited", default=False)


class IsmatecRegloIcc(Device):
    """One Reglo ICC; `config.channels` names its channels "1" to "4"."""

    model = DeviceModel(
        id="ismatec-reglo-icc",
        vendor="Ismatec",
        name="Reglo ICC",
        kind="pump",
        transports=("serial", "tcp", "sim"),
        capabilities=("run", "dispense", "total", "reverse", "channels"),
        guarantee=Guarantee.DEVICE,
        manual="14-036-E Rev. C §14–18",
        # Tubing of small bore drifts by 5 to 15 %; a dose ends anywhere within one of eight roller pockets.
        dosing=Dosing(rel_sd=0.08, dose_sd_ul=10.0, min_ul=50.0),
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"[0-9](?:[#+!E(VTUurf]|x[!DGE]|xv\d{4}[+-]\d\|\d{4}[+-]\d|xw\d{4}[+-]\d\|\d{6})\r")
    settings = (TIME_UNIT, ADDRESSING, DOSE_MODE, EVENTS)
    channel_settings = CHANNEL_SETTINGS
    page = Page(
        wiring="USB (a serial port of its own) or RS-232, DB9; 9600 8N1, no flow control. Several pumps may share a line,"
        " each with its own pump address.",
        address="pump address, 1 to 8 (default 1)",
        commands=(
            ("a~1, a~0", "address channels one by one, or the pump as a whole", "§14–18"),
            ("0#", "model text: identification; barrier against late replies", "§14–18"),
            ("0xE0, 0xE1", "turn event messages off, or on", "§14–18"),
            ("0x!", "protocol version", "§14–18"),
            ("c+", "tubing diameter: read, and set only when it differs", "§14–18"),
            ("c!", "maximum flow with this tubing", "§14–18"),
            ("cM, cO", "mode: flow rate, or volume at rate", "§14–18"),
            ("cJ, cK", "direction clockwise, counter-clockwise", "§14–18"),
            ("cxM, cxD", "mode and direction, read from a running channel", "§14–18"),
            ("cf", "flow, with the pump's echo compared", "§14–18"),
            ("cv", "volume of a dose, with the pump's echo compared", "§14–18"),
            ("cG, cxT", "mode volume over time, and its time; read back", "§14–18"),
            (
                "cxR, cxU, cxW, cxY",
                "own calibration: direction, volume, time, start; only by `choroid device talk`",
                "§14–18",
            ),
            ("cxV, cxZ", "own calibration: measured volume, or cancel; only by `choroid device talk`", "§14–18"),
            ("cH, cI", "start, stop", "§14–18"),
            ("cE", "whether the channel runs", "§14–18"),
            ("cxe", "why it did not start", "§14–18"),
            ("cxG", "the channel's own total (whole mL)", "§14–18"),
            ("cxC, cxJ", "revolutions and running time; only by `choroid device talk`", "§14–18"),
            ("cxv", "time for a volume (mL) at a flow, 0.1 s; only by `choroid device talk`", "§16.2, 3.25"),
            ("cxw", "time for a volume (mL) at a speed, 0.1 s; only by `choroid device talk`", "§16.2, 3.26"),
            ("cV, cVM, cVH", "run time, 0.1 s, min or h; only by `choroid device talk`", "§16.2, 6.25–6.28"),
            ("cT, cTM, cTH", "pause time, 0.1 s, min or h; only by `choroid device talk`", "§16.2, 6.36–6.39"),
            ("cU, cu", "roller steps of a dose, low and high word; only by `choroid device talk`", "§16.2, 6.29–6.32"),
            ("cr", "volume of a roller step, nL; only by `choroid device talk`", "§16.2, 6.33–6.34"),
        ),
        traps=(
            "A status is one character without an end, data is a line: which one comes depends on the command.",
            "The manual contradicts itself on the unit of times (0.1 s or 1 s); `time_unit_s` selects it.",
            "The pump clips a flow that its tubing cannot carry; its echo is compared, and a clipped value is refused.",
            "The serial number (`xS`) is not read: cut off by a pulled cable, the query joins the next request and writes"
            " another number into the pump.",
            "Some firmware reports 1.43 mm for tubing of 1.42 mm.",
            "In legacy addressing all channels turn together: name the one channel that carries tubing. Only then may"
            " several pumps share a line. Totals are those of the pump's first channel, as far as is documented.",
            "Pauses (`xI`) and the cyclic modes (`Q`, `P`, `N`) are not used: what the pump alone holds or repeats"
            " would be invisible to the controller.",
            "Events of a natural end are not needed (the state is polled); a commanded stop sends none.",
            "The manual prints the caret of event messages as 0x53; on the wire it is 0x5E.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        known_only(config.settings, config.name, self.settings)
        time_unit_s = TIME_UNIT.of(config.settings, config.name)
        doses_over_time = DOSE_MODE.of(config.settings, config.name) == "time"
        events = EVENTS.of(config.settings, config.name)
        legacy = _legacy(config)
        if legacy and events:
            raise bad_setting(
                config.name,
                "events",
                "is true with legacy addressing",
                "choose channels: an event names only a channel",
            )
        self._events = events
        self._wire = RegloIccWire(
            link, config.name, _pump_address(config), legacy=legacy, events=events, on_event=self._take_event
        )
        self.channels = {
            channel.point: IsmatecChannel(
                self._wire, number, channel, time_unit_s=time_unit_s, doses_over_time=doses_over_time
            )
            for number, channel in config.channels.items()
        }
        self.actuators.update(self.channels)
        link.attach(self.conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._wire.conversation

    async def _identify(self) -> Identity:
        if not self.link.read_only:
            await self._wire.address_channels()
        text = await self._wire.model_text()
        if not text.startswith("REGLO ICC"):
            raise WrongDevice(
                f"“{text}” answers",
                where=self.config.name,
                cause="another pump hangs on this link",
                action="check the link and the model in the rig file",
            )
        if not self.link.read_only:
            await self._wire.set(self._wire.whole + (b"xE1" if self._events else b"xE0"))
        protocol = parse_count(await self._wire.get(self._wire.whole + b"x!"), self.config.name)
        for channel in self.channels.values():
            await channel.prepare()
        words = text.split()
        return Identity(model="Reglo ICC", firmware=f"{words[2] if len(words) > 2 else ''} protocol {protocol}".strip())

    def _take_event(self, number: bytes, cause: bytes) -> None:
        for channel in self.channels.values():
            channel.take_event(number, cause)


def _legacy(config: DeviceConfig) -> bool:
    legacy = ADDRESSING.of(config.settings, config.name) == "legacy"
    if legacy and len(config.channels) > 1:
        raise bad_setting(
            config.name,
            "addressing",
            "is legacy, which turns all channels together, but several are named",
            "name only the channel that carries tubing, or choose channels",
        )
    return legacy


def _pump_address(config: DeviceConfig) -> bytes:
    address = config.address or "1"
    if address not in tuple("12345678"):
        raise bad_setting(config.name, "address", f"is “{address}”", 'write the pump address, "1" to "8"')
    return address.encode()
