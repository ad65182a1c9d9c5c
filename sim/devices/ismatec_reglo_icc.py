"""Ismatec Reglo ICC pump, four channels (manual 14-036-E Rev. C, sections 14–18)."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from math import floor, log10

from sim.devices.wire import WireDevice

TUBING_MM = (0.13, 0.19, 0.25, 0.38, 0.44, 0.51, 0.57, 0.64, 0.76, 0.89, 0.95, 1.02, 1.09, 1.14, 1.22, 1.30, 1.42,
             1.52, 1.65, 1.75, 1.85, 2.06, 2.29, 2.54, 2.79, 3.17)  # fmt: skip
MAX_RPM = 100.0
UNSET = object()


def volume_1(value_ml: float) -> str:
    """`mmmmEse`: m.mmm × 10^(se), the form of replies."""
    if value_ml <= 0:
        return "0000E+0"
    exponent = floor(log10(value_ml))
    mantissa = round(value_ml / 10**exponent * 1000)
    if mantissa == 10_000:
        mantissa, exponent = 1000, exponent + 1
    return f"{mantissa:04d}E{exponent:+d}"


def parse_volume_2(text: str) -> float | None:
    """`mmmmse`, the form of requests; None when it is not one."""
    match = re.fullmatch(r"(\d{4})([+-]\d)", text)
    return int(match[1]) / 1000 * 10 ** int(match[2]) if match else None


def max_flow_ml_min(tubing_mm: float) -> float:
    """Flow at 100 rpm: 0.081·d^2.08 mL a revolution for this family of bores, scaled to the ICC's small rollers."""
    return 0.0615 * tubing_mm**1.9 * MAX_RPM


@dataclass
class Channel:
    """One channel's settings and its running total."""

    point: str | None
    tubing_mm: float = 1.02
    mode: str = "M"
    clockwise: bool = True
    rpm: float = 10.0
    flow: float = 1.0
    volume: float = 1.0
    time_s: float = 10.0
    pause_s: float = 0.0
    cycles: int = 1
    backsteps: int = 0
    running: bool = False
    rate: float = 0.0
    since_s: float = 0.0
    run_s: float = 0.0
    total_ml: float = 0.0
    refused: str = "R 0000E+0"
    timer: asyncio.TimerHandle | None = field(default=None, repr=False)


class IsmatecRegloIcc(WireDevice):
    """Requests end CR (LF ignored); a status is one bare character, data end CR LF."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        self.address = int(self.spec.address or "1")
        self._buffer = bytearray()
        self._by_channel = False
        self._events = True
        self.channels = {}
        for number in range(1, 5):
            spec = self.spec.channels.get(str(number))
            channel = Channel(f"{self.name}.{spec.point}" if spec else None)
            if spec and spec.tubing_mm:
                channel.tubing_mm = spec.tubing_mm
            self.channels[number] = channel

    def power_on(self) -> None:
        self._by_channel = False
        self._events = True
        for channel in self.channels.values():
            channel.total_ml = channel.run_s = 0.0

    def power_off(self) -> None:
        for number in self.channels:
            self._stop(number)

    # --- motion -----------------------------------------------------------------------------------------

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _rate_ml_min(self, channel: Channel) -> float:
        if channel.mode == "L":
            return channel.rpm * max_flow_ml_min(channel.tubing_mm) / MAX_RPM
        if channel.mode == "G":
            return channel.volume / (channel.time_s / 60) if channel.time_s else 0.0
        return channel.flow

    def _start(self, number: int) -> bool:
        channel = self.channels[number]
        rate, limit = self._rate_ml_min(channel), max_flow_ml_min(channel.tubing_mm)
        if not 0 < rate <= limit * 1.0005:
            channel.refused = f"R {volume_1(limit)}"
            return False
        if channel.mode in "OGQ" and not 0 < channel.volume <= 9999:
            channel.refused = f"V {volume_1(9999)}"
            return False
        self._stop(number)
        self._go(number, rate)
        if channel.mode in "OGQ":
            self._end_after(number, channel.volume / rate * 60)
        elif channel.mode in "NP":
            self._end_after(number, channel.time_s)
        return True

    def _go(self, number: int, rate: float) -> None:
        channel = self.channels[number]
        channel.running = True
        channel.rate = rate
        channel.since_s = self._now()
        if channel.point:
            self.plant.set_pump(channel.point, rate * 1000 * (1 if channel.clockwise else -1))

    def _end_after(self, number: int, seconds: float) -> None:
        self.channels[number].timer = asyncio.get_running_loop().call_later(seconds, self._done, number)

    def _done(self, number: int) -> None:
        self._stop(number)
        if self._events:
            self.send(f"^X{number}|A\r\n".encode())

    def _account(self, channel: Channel) -> None:
        if channel.running:
            elapsed = self._now() - channel.since_s
            channel.total_ml += channel.rate * elapsed / 60
            channel.run_s += elapsed
            channel.since_s = self._now()

    def _stop(self, number: int) -> None:
        channel = self.channels[number]
        if channel.timer is not None:
            channel.timer.cancel()
            channel.timer = None
        if channel.running:
            self._account(channel)
            channel.running = False
            if channel.point:
                self.plant.set_pump(channel.point, 0.0)

    # --- talk -------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(b"\r")) >= 0:
            command = bytes(self._buffer[:end]).lstrip(b"\n").decode("latin-1")
            del self._buffer[: end + 1]
            if command:
                self._request(command)
        if len(self._buffer) > 200:
            self._buffer.clear()

    def _status(self, character: str) -> None:
        self.send(character.encode(), after_s=0.004)

    def _data(self, text: str) -> None:
        self.send(text.encode() + b"\r\n", after_s=0.006)

    def _request(self, text: str) -> None:
        if text[0] == "@":
            if text[1:] in tuple("12345678"):
                self.address = int(text[1:])
                self._status("*")
            return
        if not text[0].isdecimal():
            self._status("#")
            return
        number, command = int(text[0]), text[1:]
        if number in (0, self.address) and self._whole_pump(command):
            return
        if self._by_channel:
            numbers = [number] if number in self.channels else list(self.channels) if number == 0 else []
        else:
            numbers = [1] if number == self.address else []
        if not numbers:
            return
        answers = [self._channel(each, command) for each in numbers]
        if answers[0] is None:
            self._status("#")
        elif answers[0] in ("*", "-", "+"):
            self._status(answers[0])
        else:
            self._data(answers[0])

    def _whole_pump(self, command: str) -> bool:
        match command:
            case "x!":
                self._data("2")
            case "~":
                self._data(str(int(self._by_channel)))
            case "~1" | "~0":
                self._by_channel = command == "~1"
                self._status("*")
            case "xE":
                self._data(str(int(self._events)))
            case "xE1" | "xE0":
                self._events = command == "xE1"
                self._status("*")
            case "#":
                self._data("REGLO ICC 0208 306")
            case "(":
                self._data("0114")
            case ")":
                self._data("0306")
            case "xA":
                self._data("4")
            case "*" | "A" | "B" | "0":
                self._status("*")
            case _ if command.startswith("D"):
                self._status("*")
            case _:
                return False
        return True

    def _channel(self, number: int, command: str) -> str | None:
        channel = self.channels[number]
        match command:
            case "H":
                return "*" if self._start(number) else "-"
            case "I" | "xI":
                self._stop(number)
                return "*"
            case "E":
                return "+" if channel.running else "-"
            case "J" | "K":
                if channel.running and channel.clockwise != (command == "J"):
                    return None
                channel.clockwise = command == "J"
                return "*"
            case "xD":
                return "J" if channel.clockwise else "K"
            case "xM":
                return channel.mode
            case "L" | "M" | "O" | "G" | "Q" | "N" | "P":
                if channel.running:
                    self._stop(number)
                channel.mode = command
                return "*"
            case "xe":
                return channel.refused
            case "S":
                return f"{channel.rpm:.2f}"
            case "f":
                return volume_1(channel.flow)
            case "v":
                return volume_1(channel.volume)
            case "xT":
                return str(round(channel.time_s * 10))
            case "xP":
                return str(round(channel.pause_s * 10))
            case '"':
                return str(channel.cycles)
            case "+":
                return f"{channel.tubing_mm:.2f} mm"
            case "?" | "!":
                return f"{max_flow_ml_min(channel.tubing_mm):.1f} ml/min"
            case "%":
                return str(channel.backsteps)
            case "xB":
                return "8"
            case "xC":
                self._account(channel)
                per_rev = max_flow_ml_min(channel.tubing_mm) / MAX_RPM
                return f"{int(channel.total_ml / per_rev):010d}"
            case "xG":
                self._account(channel)
                return f"{int(channel.total_ml):010d}"
            case "xJ":
                self._account(channel)
                return f"{int(channel.run_s * 10):010d}"
            case "#":
                return "REGLO ICC 0208 306"
            case "x!":
                return "2"
            case "xE0" | "xE1":
                self._events = command == "xE1"
                return "*"
            case "xE":
                return str(int(self._events))
            case "~":
                return str(int(self._by_channel))
        return self._set(number, command)

    def _set(self, number: int, command: str) -> str | None:
        channel = self.channels[number]
        if match := re.fullmatch(r"S(\d{6})", command):
            channel.rpm = min(int(match[1]) / 100, MAX_RPM)
            self._changed(number)
            return "*"
        if command[:1] in ("f", "v") and (value := parse_volume_2(command[1:])) is not None:
            if command[0] == "f":
                channel.flow = min(value, max_flow_ml_min(channel.tubing_mm))
                self._changed(number)
                return volume_1(channel.flow)
            channel.volume = value
            return volume_1(channel.volume)
        if match := re.fullmatch(r"x([TP])(\d{8})", command):
            seconds = min(int(match[2]), 35_964_000) / 10
            if match[1] == "T":
                channel.time_s = seconds
            else:
                channel.pause_s = seconds
            return "*"
        if match := re.fullmatch(r'(["%+])(\d{4})', command):
            value = int(match[2])
            if match[1] == '"':
                channel.cycles = value
            elif match[1] == "%":
                channel.backsteps = value
            elif value / 100 in TUBING_MM:
                channel.tubing_mm = value / 100
            else:
                return None
            return "*"
        return None

    def _changed(self, number: int) -> None:
        """A new speed takes effect at once on a running channel."""
        channel = self.channels[number]
        if channel.running and channel.mode in "LM":
            self._account(channel)
            self._go(number, self._rate_ml_min(channel))
