"""Devices reduced to what their drivers ask, each a table of exact bytes with a little state.

No models of the devices (those stand in sim/): they let a test see the bytes and the output's state.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from pymodbus.framer import FramerRTU

from drivers.conformance.peer import Say
from drivers.device import ChannelConfig, DeviceConfig
from drivers.keller_bus import with_checksum
from tests.drivers.peer import settings


def crc(frame: bytes) -> bytes:
    return frame + FramerRTU.compute_CRC(frame).to_bytes(2, "big")


class FakeReglo:
    """Four channels; `running` and `total_ml` by channel."""

    config = DeviceConfig(
        "reglo",
        address="1",
        channels={
            "1": ChannelConfig("heart", settings(tubing_mm=1.02)),
            "2": ChannelConfig("draw", settings(tubing_mm=1.02)),
        },
    )

    def __init__(self) -> None:
        self.running = dict.fromkeys("1234", False)
        self.mode = dict.fromkeys("1234", "L")
        self.direction = dict.fromkeys("1234", "J")
        self.values = {f"{channel}{name}": b"1000E+0" for channel in "1234" for name in "fv"}
        self.tubing = dict.fromkeys("1234", b"1.02 mm")
        self.total_ml = dict.fromkeys("1234", 0)
        self.starts: list[str] = []
        self.refuse_start = b""

    @property
    def on(self) -> bool:
        return any(self.running.values())

    def __call__(self, request: bytes) -> bytes | None:
        assert request.endswith(b"\r"), request
        text = request[:-1].decode()
        pump_level = {"1~1": b"*", "0#": b"REGLO ICC 0208 306\r\n", "0xE0": b"*", "0x!": b"2\r\n"}
        if text in pump_level:
            return pump_level[text]
        channel, command = text[0], text[1:]
        match command:
            case "H":
                if self.refuse_start:
                    return b"-"
                self.starts.append(channel)
                self.running[channel] = True
            case "I":
                self.running[channel] = False
            case "J" | "K":
                self.direction[channel] = command
            case "M" | "O" | "L":
                self.mode[channel] = command
            case "E":
                return b"+" if self.running[channel] else b"-"
            case "xM":
                return f"{self.mode[channel]}\r\n".encode()
            case "xD":
                return f"{self.direction[channel]}\r\n".encode()
            case "xG":
                return b"%010d\r\n" % self.total_ml[channel]
            case "xe":
                return self.refuse_start + b"\r\n"
            case "+":
                return self.tubing[channel] + b"\r\n"
            case "!":
                return b"11.4 ml/min\r\n"
            case _ if command[0] == "+":
                self.tubing[channel] = b"%.2f mm" % (int(command[1:]) / 100)
            case _ if command[0] in "fv":
                if len(command) > 1:
                    assert re.fullmatch(r"[fv]\d{4}[+-]\d", command), command
                    self.values[channel + command[0]] = f"{command[1:5]}E{command[5:]}".encode()
                return self.values[channel + command[0]] + b"\r\n"
            case _:
                return b"#"
        return b"*"


class FakePmp:
    """An EZO-PMP that has just started: it reports every second until C,0."""

    config = DeviceConfig("dose")

    def __init__(self, *, ok_after_stop: bool = False) -> None:
        self.running = False
        self.total_ml = 0.0
        self.starts: list[str] = []
        self.told = "0.00"
        self.ok_after_stop = ok_after_stop
        self.error: bytes = b""

    @property
    def on(self) -> bool:
        return self.running

    def __call__(self, request: bytes) -> Iterable[Say]:
        assert request.endswith(b"\r"), request
        text = request[:-1].decode()
        match text:
            case "i":
                return [b"?I,PMP,1.06\r", b"*OK\r"]
            case "Status":
                return [b"?STATUS,B,3.28\r*OK\r"]
            case "C,0" | "*OK,1":
                return [b"*OK\r"]
            case "DC,?":
                return [b"?MAXRATE,54.66\r*OK\r"]
            case "D,?":
                return [b"?D,%s,%d\r*OK\r" % (self.told.encode(), self.running)]
            case "ATV,?":
                return [b"?ATV,%.2f\r*OK\r" % self.total_ml]
            case "X":
                self.running = False
                return [b"*DONE,30.66\r", *([(0.04, b"*OK\r")] if self.ok_after_stop else [])]
            case _ if text.startswith("D"):
                if self.error:
                    return [self.error]
                self.starts.append(text)
                self.told = f"{float(text.split(',')[1]):.2f}"
                self.running = True
                return [b"*OK\r"]
        return [b"*ER\r"]


class FakeEzo:
    """A measuring circuit; readings come 0.9 s after R."""

    config = DeviceConfig("probe")

    def __init__(self, name: bytes, reading: bytes) -> None:
        self.name = name
        self.reading = reading
        self.outputs = {b"%": True, b"mg": True}

    def __call__(self, request: bytes) -> Iterable[Say]:
        assert request.endswith(b"\r"), request
        text = request[:-1]
        if text == b"i":
            return [b"?I," + self.name + b",2.15\r*OK\r"]
        if text == b"Status":
            return [b"?Status,P,5.038\r*OK\r"]
        if text == b"R":
            return [(0.9, self.reading + b"\r"), (0.902, b"*OK\r")]
        if text == b"O,?":
            return [b"?,O," + b",".join(name for name, on in self.outputs.items() if on) + b"\r*OK\r"]
        if text.startswith(b"O,"):
            _, name, on = text.split(b",")
            self.outputs[name] = on == b"1"
        return [b"*OK\r"]


class FakeBus:
    """Keller at 1 (silent if told so), relay board at 3, on one pair of wires."""

    relay_config = DeviceConfig("relay", address="3", channels={"0": ChannelConfig("heater")})
    keller_config = DeviceConfig("p_heart", address="1")

    def __init__(self) -> None:
        self.p1 = bytes.fromhex("3F7CD6A1")
        self.keller_silent = False
        self.keller_identity: bytes | None = bytes.fromhex("01 30 05 14 0C 28 08 01 CA C4")
        self.coils = [False] * 8
        self.flashes: list[int] = []

    @property
    def on(self) -> bool:
        return any(self.coils)

    def __call__(self, request: bytes) -> bytes | None:
        assert crc(request[:-2]) == request or request[1] in (48, 69), request.hex(" ")
        unit, function = request[0], request[1]
        if function == 48:
            return None if self.keller_silent or unit != 1 else self.keller_identity
        if function == 69:
            return None if self.keller_silent or unit != 1 else with_checksum(bytes([1, 69, 0, 1, 0x86, 0xA1]))
        address, value = int.from_bytes(request[2:4], "big"), int.from_bytes(request[4:6], "big")
        if unit == 1 and function == 3 and not self.keller_silent:
            registers = {0: self.p1 + self.p1, 2: self.p1 + bytes(4), 8: bytes.fromhex("41C80000")}[address]
            return crc(bytes([1, 3, 2 * value]) + registers[: 2 * value])
        if unit == 3 and function == 1:
            return crc(bytes([3, 1, 1, sum(on << bit for bit, on in enumerate(self.coils))]))
        if unit == 3 and function == 5:
            if address >= 0x200:
                self.flashes.append(value)
                self.coils[address - 0x200] = True
            else:
                self.coils[address] = value == 0xFF00
            return request
        return None


class FakeAlicat:
    """Controllers A and B on one line."""

    config = DeviceConfig("gas", address="A", settings=settings(full_scale_ml_min=200.0))

    def __init__(self, firmware: bytes = b"10v05.0-R24 Nov 30 2022,16:04:20", unit: bytes = b"12 SCCM") -> None:
        self.firmware = firmware
        self.modern = firmware.startswith(b"10v")
        self.unit = unit
        self.full_scale = b"+200.00" if unit == b"12 SCCM" else b"+20.000"
        self.setpoint = {b"A": 0.0, b"B": 0.0}
        self.status = b""
        self.variable = 37
        self.deaf = False

    @property
    def on(self) -> bool:
        return any(self.setpoint.values())

    def frame(self, letter: bytes) -> bytes:
        flow = self.setpoint[letter]
        return b"%s +014.70 +025.00 %+07.2f %+07.2f %06.2f    Air%s\r" % (
            letter,
            flow,
            flow,
            flow,
            self.status,
        )

    def __call__(self, request: bytes) -> bytes | None:
        letter, command = request[:1], request[1:].rstrip(b"\r")
        if letter not in self.setpoint:
            return None
        if command == b"R122":
            return letter + b"   122 = %d\r" % self.variable
        if command == b"VE":
            return letter + b"   " + self.firmware + b"\r"
        if command.startswith(b"L"):
            assert self.modern, "it locks the display of an old controller"
        if command == b"LV" and self.modern:
            return letter + b" %d\r" % self.variable
        if command == b"FPF 5" and not self.firmware.startswith(b"5v"):
            return letter + b" " + self.full_scale + b" " + self.unit + b"\r"
        if command.startswith(b"LS ") and self.modern:
            assert re.fullmatch(rb"LS \d+\.\d\d", command), command
            before = self.setpoint[letter]
            if not self.deaf:
                self.setpoint[letter] = float(command[3:])
            return letter + b" %+07.2f %+07.2f " % (before, self.setpoint[letter]) + self.unit + b"\r"
        if command.startswith(b"S"):
            assert re.fullmatch(rb"S\d+\.\d\d", command), command
            if not self.deaf:
                self.setpoint[letter] = float(command[1:])
            return self.frame(letter)
        return self.frame(letter) if not command else b"?\r"


class FakeBalance:
    config = DeviceConfig("balance", settings=settings(tare_g=10.0))

    def __init__(self) -> None:
        self.answer = b"S S     100.00 g\r\n"

    def __call__(self, request: bytes) -> bytes:
        return {b"SI\r\n": self.answer, b"I4\r\n": b'I4 A "B021002593"\r\n'}.get(request, b"ES\r\n")
