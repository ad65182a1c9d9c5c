"""Ismatec Reglo ICC, a peristaltic pump with four independent channels (manual 14-036-E Rev. C, sections 14 to 18).

A request is an address digit, a command and CR (an LF next to it is ignored). A status is one bare character without
any end; data end CR LF. The manual gives times in 0.1 s but counts two of its examples in seconds: the device's
setting `time_unit_s` (default 0.1) chooses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from controller.rig.description import DeviceSpec
from sim.devices.ascii_line import AsciiDevice
from sim.devices.bench_facts import BenchFacts
from sim.devices.ismatec_channel import Mode, PumpChannel, Settings
from sim.devices.ismatec_numbers import (
    CHART_ML_MIN,
    LONGEST_TENTHS,
    digits,
    discrete_4,
    from_volume_2,
    total_text,
    volume_1,
)
from sim.devices.ismatec_steps import answer
from sim.devices.port import PlantPort

DONE, NOT_DONE, NO, YES = b"*", b"#", b"-", b"+"
"""Status answers; "-" and "+" mean what the command says they mean."""

CHANNELS = 4
ROLLERS = 8
FACTORY_TUBING = 317
PROTOCOL_VERSION = "2"
FIRMWARE = "0208"
STATUS_EVENTS_S = 1.0


def _data(text: str) -> bytes:
    return text.encode("ascii") + b"\r\n"


def _status(done: bool) -> bytes:
    return DONE if done else NOT_DONE


class IsmatecRegloIcc(AsciiDevice):
    """The pump. Channels of the rig are "1" to "4"; `tubing_mm` is the fitted tubing, and initially the set one."""

    model_id = "ismatec-reglo-icc"
    bench = BenchFacts(
        channel_settings={"tubing_mm": 1.02},
        similar=("Ismatec",),
        no_worse={"total of commands": "its total counts whole millilitres: the difference is less"},
    )
    think_s = 0.004

    def __init__(self, name: str, spec: DeviceSpec, plant: PlantPort) -> None:
        super().__init__(name, spec, plant)
        self.address = int(spec.address or "1")
        self.channel_addressing = self._saved_addressing = False
        self.events = False
        self.belong_to(0)
        self.display_name = ""
        self.language = 0
        self._time_unit_s = float(spec.settings.get("time_unit_s", 0.1))
        self._reporting: asyncio.TimerHandle | None = None
        self.channels = {str(number): self._fit(str(number)) for number in range(1, CHANNELS + 1)}

    def _fit(self, number: str) -> PumpChannel:
        channel = self.spec.channels.get(number)
        point = f"{self.name}.{channel.point}" if channel else None
        tubing = round(channel.tubing_mm * 100) if channel and channel.tubing_mm else FACTORY_TUBING
        if tubing not in CHART_ML_MIN:
            sizes = ", ".join(f"{size / 100:.2f}" for size in CHART_ML_MIN)
            raise ValueError(
                f"{self.name}: channel {number} has tubing of {tubing / 100:.2f} mm, which a Reglo ICC does not take;"
                f" choose one of {sizes} mm"
            )

        def drive(flow_ul_min: float) -> None:
            if point is not None:
                self.plant.set_pump(point, flow_ul_min)

        return PumpChannel(fitted=tubing, drive=drive, ended=lambda cause: self._ended(number, cause), loop=self.loop)

    # --- power ------------------------------------------------------------------------------------------

    def _boot(self) -> None:
        self.channel_addressing = self._saved_addressing
        self.events = False
        self.forget_input()

    def _halt(self) -> None:
        self._report_events(False)
        for channel in self.channels.values():
            channel.power_off()

    def forget(self) -> Callable[[], None]:
        """See :meth:`WireDevice.forget`: what `*` saved of the channels; in force from the next power-up on."""
        stored = self._saved_addressing, [channel.saved for channel in self.channels.values()]
        self._saved_addressing = False
        for channel in self.channels.values():
            channel.saved = Settings(tubing=FACTORY_TUBING)

        def again() -> None:
            self._saved_addressing, saved = stored
            for channel, settings in zip(self.channels.values(), saved, strict=True):
                channel.saved = settings.copy()

        return again

    # --- events -----------------------------------------------------------------------------------------

    def _report_events(self, wanted: bool) -> None:
        self.events = wanted
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        if wanted:
            self._reporting = self.loop.call_later(STATUS_EVENTS_S, self._report)

    def _report(self) -> None:
        if self.line is not None and self.line.clients:
            lines = []
            for number, channel in self.channels.items():
                left_s, dispensed_ml, cycles = channel.progress()
                lines.append(
                    f"^U{number}|{channel.state}|{discrete_4(left_s)}|{discrete_4(dispensed_ml * 1000)}|{cycles:04d}\r\n"
                )
            self.send("".join(lines).encode("ascii"), after_s=0.0, unsolicited=True)
        self._reporting = self.loop.call_later(STATUS_EVENTS_S, self._report)

    def _ended(self, number: str, cause: str) -> None:
        if self.events:
            self.send(f"^X{number}|{cause}\r\n".encode("ascii"), after_s=0.0, unsolicited=True)

    # --- requests ---------------------------------------------------------------------------------------

    def bad_line(self) -> None:
        """Stay silent in a daisy chain: no pump answers a request without address."""
        if self.channel_addressing:
            self.send(NOT_DONE)

    def command(self, text: str) -> None:
        """See :meth:`AsciiDevice.command`."""
        to, request = text[0], text[1:]
        if to == "@":
            if request in tuple("12345678"):
                self.address = int(request)
                self.send(DONE)
            return
        if not "0" <= to <= "9" or not request:
            self.bad_line()
        elif self.channel_addressing or to in ("0", str(self.address)):
            reply = self._whole_pump(request)
            self.send(self._on_channels(self._addressed(to), request) if reply is None else reply)

    def _addressed(self, to: str) -> list[PumpChannel]:
        """Return the channels that an address digit means; none for a channel that the pump does not have."""
        if to == "0" or not self.channel_addressing:
            return list(self.channels.values())
        return [self.channels[to]] if to in self.channels else []

    def _on_channels(self, channels: list[PumpChannel], request: str) -> bytes:
        """Return one answer for one or all channels: the first that is not a plain success."""
        if not channels:
            return NOT_DONE
        plain = request.removesuffix(str(self.address))
        if self.channel_addressing and plain in _NAMES_ITS_PUMP:
            request = plain
        if request == "H" and not all(channel.running or channel.startable() for channel in channels):
            return NO
        if (query := _QUERIES.get(request)) is not None:
            return query(channels[0])
        return _joint([self._on_channel(channel, request) for channel in channels])

    def _on_channel(self, channel: PumpChannel, request: str) -> bytes:
        if not self.obeys and (ignored := _ignored(channel, request)) is not None:
            return ignored
        if (action := _ACTIONS.get(request)) is not None:
            return action(channel)
        code = request[:2] if request[0] == "x" else request[0]
        argument = request[len(code) :]
        if (time_setting := _TIMES.get(code)) is not None:
            return self._time(channel, time_setting, argument)
        if code == "xX" and not argument:
            return _data(f"{round(channel.since_calibration_s / self._time_unit_s):08d}")
        if (setter := _SETTERS.get(code)) is not None:
            return setter(channel, argument)
        told = answer(channel, request)
        return _data(told) if isinstance(told, str) else _status(bool(told))

    def _time(self, channel: PumpChannel, setting: str, argument: str) -> bytes:
        if not argument:
            return _data(str(round(getattr(channel.settings, setting) / self._time_unit_s)))
        units = digits(argument, 8)
        if units is None or units > LONGEST_TENTHS:
            return NOT_DONE
        return _status(channel.configure(**{setting: units * self._time_unit_s}))

    def _whole_pump(self, request: str) -> bytes | None:
        """Carry out a command of the pump, whatever the address digit; return None for a command of a channel."""
        if (told := self._described(request)) is not None:
            return _data(told)
        match request:
            case "C":
                return NO  # no foot switch
            case "~0" | "~1":
                self.channel_addressing = request == "~1"
            case "xE0" | "xE1":
                self._report_events(request == "xE1")
            case "*":
                self._save()
            case "0":
                return self._reset()
            case "A" | "B":
                pass
            case _:
                return DONE if self._name_or_text(request) else None
        return DONE

    def belong_to(self, lab: int) -> None:
        """See :meth:`WireDevice.belong_to`."""
        self.serial_number = f"14{sum(self.name.encode()) + lab:06d}"

    def _described(self, request: str) -> str | None:
        """Return the answer to a question about the pump; None for another request."""
        told = _ABOUT_PUMP.get(request)
        return None if told is None else told(self)

    def _save(self) -> None:
        self._saved_addressing = self.channel_addressing
        for channel in self.channels.values():
            channel.saved = channel.settings.copy()

    def _reset(self) -> bytes:
        """Go back to the factory's settings, unless a channel runs."""
        if any(channel.running for channel in self.channels.values()):
            return NOT_DONE
        for channel in self.channels.values():
            channel.settings = Settings(tubing=FACTORY_TUBING)
        return DONE

    def _name_or_text(self, request: str) -> bool:
        """Take a text for the display, a name, or a number of the pump; return False for another request."""
        argument = request[2:]
        match request[:2]:
            case "xN" if len(request) <= 66:
                self.display_name = argument
            case "xS" if len(request) <= 66:
                self.serial_number = argument
            case "xL" if argument in ("0", "1", "2", "3"):
                self.language = int(argument)
            case "xA" if digits(argument, 4) == CHANNELS:
                pass
            case _:
                return request[0] == "D" and len(request) <= 19
        return True


def _joint(replies: list[bytes]) -> bytes:
    """Return one reply for several channels: the first that is not a plain success."""
    return next((reply for reply in replies if reply != DONE), DONE) if len(replies) > 1 else replies[0]


def _ignored(channel: PumpChannel, request: str) -> bytes | None:
    """Return how a pump that does not obey acknowledges a request; None for one that it carries out."""
    if request in _MOVES:
        return DONE
    if len(request) > 1 and request[0] == "f":
        return _data(volume_1(channel.settings.flow_ml_min))
    return DONE if len(request) > 1 and request[0] == "S" else None


# --- what a channel is asked, told to do, and set to ----------------------------------------------------------


def _start(channel: PumpChannel) -> bytes:
    return DONE if channel.start() else NO


def _stop(channel: PumpChannel) -> bytes:
    channel.stop()
    return DONE


def _pause(channel: PumpChannel) -> bytes:
    channel.pause()
    return DONE


def _cancel_calibration(channel: PumpChannel) -> bytes:
    channel.cancel_calibration()
    return DONE


def _discard_calibration(channel: PumpChannel) -> bytes:
    return _status(channel.configure(calibration=1.0))


def _mode(mode: Mode) -> Callable[[PumpChannel], bytes]:
    def choose(channel: PumpChannel) -> bytes:
        settings = channel.settings
        if mode is Mode.VOLUME_OVER_TIME and not channel.running:
            possible = 0.0 < settings.volume_ml <= settings.max_flow_ml_min * settings.run_s / 60.0
            if not possible:
                channel.refusal = f"R {volume_1(settings.max_flow_ml_min)}"
                return NO
        return _status(channel.configure(mode=mode))

    return choose


def _turn(clockwise: bool) -> Callable[[PumpChannel], bytes]:
    return lambda channel: _status(channel.configure(clockwise=clockwise))


def _by_flow(by_flow: bool) -> Callable[[PumpChannel], bytes]:
    return lambda channel: _status(channel.configure(by_flow=by_flow))


def _calibration_direction(clockwise: bool) -> Callable[[PumpChannel], bytes]:
    return lambda channel: _status(channel.configure(calibration_clockwise=clockwise))


_ACTIONS: dict[str, Callable[[PumpChannel], bytes]] = {
    "H": _start,
    "I": _stop,
    "xI": _pause,
    "J": _turn(True),
    "K": _turn(False),
    **{mode.value: _mode(mode) for mode in Mode},
    "xf0": _by_flow(False),
    "xf1": _by_flow(True),
    "xRJ": _calibration_direction(True),
    "xRK": _calibration_direction(False),
    "xY": lambda channel: _status(channel.calibrate()),
    "xZ": _cancel_calibration,
    "000000": _discard_calibration,
}

_MOVES = ("H", "I", "xI", "J", "K")
"""What starts, stops or turns a channel: what a pump that does not obey only acknowledges."""

_NAMES_ITS_PUMP = ("H", "I", "J", "K", "E", "xD")
"""What may be followed by the pump's address when a channel is addressed: the manual does not tell it, and clients that
have run perfusion rigs send it."""

_QUERIES: dict[str, Callable[[PumpChannel], bytes]] = {
    "E": lambda channel: YES if channel.running else NO,
    "xe": lambda channel: _data(channel.refusal) if channel.refusal else NOT_DONE,
    "xD": lambda channel: _data("J" if channel.settings.clockwise else "K"),
    "xM": lambda channel: _data(channel.settings.mode),
    "xf": lambda channel: _data(str(int(channel.settings.by_flow))),
    "S": lambda channel: _data(f"{channel.settings.rpm:.2f}"),
    "f": lambda channel: _data(volume_1(channel.settings.flow_ml_min)),
    "v": lambda channel: _data(volume_1(channel.settings.volume_ml)),
    '"': lambda channel: _data(str(channel.settings.cycles)),
    "+": lambda channel: _data(f"{channel.settings.tubing / 100:.2f} mm"),
    "?": lambda channel: _data(f"{CHART_ML_MIN[channel.settings.tubing]:#.3g} ml/min"),
    "!": lambda channel: _data(f"{channel.settings.max_flow_ml_min:#.3g} ml/min"),
    "%": lambda channel: _data(str(channel.settings.backsteps)),
    "xB": lambda channel: _data(str(channel.settings.rollers)),
    "xR": lambda channel: _data("J" if channel.settings.calibration_clockwise else "K"),
    "xU": lambda channel: _data(volume_1(channel.settings.calibration_volume_ml)),
    "xV": lambda channel: _data(volume_1(channel.settings.calibration_volume_ml * channel.settings.calibration)),
    "xC": lambda channel: _data(discrete_4(channel.totals()[1])),
    "xG": lambda channel: _data(discrete_4(channel.totals()[0])),
    "xJ": lambda channel: _data(discrete_4(channel.totals()[2])),
    ":": lambda channel: _data(total_text(channel.totals()[0])),
}

_TIMES = {"xT": "run_s", "xP": "pause_s", "xW": "calibration_s"}


def _set_speed(channel: PumpChannel, argument: str) -> bytes:
    hundredths = digits(argument, 6)
    return _status(hundredths is not None and channel.respeed(rpm=hundredths / 100))


def _set_flow(channel: PumpChannel, argument: str) -> bytes:
    """Set the flow; answer with the flow in force, which is the old one if a running channel cannot reach the new one."""
    flow = from_volume_2(argument)
    if flow is None:
        return NOT_DONE
    channel.respeed(flow_ml_min=flow)
    return _data(volume_1(channel.settings.flow_ml_min))


def _set_volume(channel: PumpChannel, argument: str) -> bytes:
    volume = from_volume_2(argument)
    if volume is None:
        return NOT_DONE
    channel.configure(volume_ml=volume)
    return _data(volume_1(channel.settings.volume_ml))


def _set_calibration_volume(channel: PumpChannel, argument: str) -> bytes:
    volume = from_volume_2(argument)
    if not volume:
        return NOT_DONE
    channel.configure(calibration_volume_ml=volume)
    return _data(volume_1(channel.settings.calibration_volume_ml))


def _set_measured_volume(channel: PumpChannel, argument: str) -> bytes:
    volume = from_volume_2(argument)
    if not volume:
        return NOT_DONE
    channel.measured(volume)
    return _data(volume_1(volume))


def _set_tubing(channel: PumpChannel, argument: str) -> bytes:
    tubing = digits(argument, 4)
    return _status(tubing in CHART_ML_MIN and channel.configure(tubing=tubing or 0))


def _set_rollers(channel: PumpChannel, argument: str) -> bytes:
    rollers = digits(argument, 4)
    return _status(rollers in (6, 8, 12) and channel.configure(rollers=rollers or 0))


def _set_cycles(channel: PumpChannel, argument: str) -> bytes:
    cycles = digits(argument, 4)
    return _status(cycles is not None and channel.configure(cycles=cycles))


def _set_backsteps(channel: PumpChannel, argument: str) -> bytes:
    steps = digits(argument, 4)
    return _status(steps is not None and channel.configure(backsteps=steps))


_SETTERS: dict[str, Callable[[PumpChannel, str], bytes]] = {
    "S": _set_speed,
    "f": _set_flow,
    "v": _set_volume,
    "xU": _set_calibration_volume,
    "xV": _set_measured_volume,
    "+": _set_tubing,
    "xB": _set_rollers,
    '"': _set_cycles,
    "%": _set_backsteps,
}

_ABOUT_PUMP: dict[str, Callable[[IsmatecRegloIcc], str]] = {
    "x!": lambda pump: PROTOCOL_VERSION,
    "~": lambda pump: str(int(pump.channel_addressing)),
    "xE": lambda pump: str(int(pump.events)),
    "#": lambda pump: f"REGLO ICC {FIRMWARE} {CHANNELS}{ROLLERS:02d}",
    "(": lambda pump: FIRMWARE,
    ")": lambda pump: f"{CHANNELS:02d}{ROLLERS:02d}",
    "xA": lambda pump: str(CHANNELS),
    "xS": lambda pump: pump.serial_number,
    "xL": lambda pump: str(pump.language),
}
"""Questions about the pump, whatever the address digit."""
