"""The meaning of bytes, from a driver's page and the Modbus standard."""

from __future__ import annotations

import re

from pymodbus.framer import FramerRTU

from drivers.device import Device
from drivers.transport.capture import Direction

_FUNCTIONS = {
    1: "read coils",
    2: "read inputs",
    3: "read holding registers",
    4: "read input registers",
    5: "write one coil",
    6: "write one register",
    15: "write coils",
    16: "write registers",
}


def meaning(driver: type[Device], direction: Direction, data: bytes) -> str:
    """Return one phrase for a piece of traffic, or "" if it is unknown."""
    if told := _modbus(direction, data):
        return told
    if direction == ">":
        return _by_page(driver, data)
    return ""


def _modbus(direction: Direction, data: bytes) -> str:
    if len(data) < 5 or not FramerRTU.check_CRC(data[:-2], int.from_bytes(data[-2:], "big")):
        return ""
    function = data[1]
    name = _FUNCTIONS.get(function & 0x7F, f"function {function & 0x7F}")
    if function & 0x80:
        return f"Modbus {data[0]}: refused to {name}, exception {data[2]}"
    if len(data) == 8 and function <= 6:
        what = "value" if function in (5, 6) else "count"
        number = int.from_bytes(data[4:6], "big")
        return f"Modbus {data[0]}: {name} at {int.from_bytes(data[2:4], 'big')}, {what} {number}"
    if direction == "<" and function <= 4:
        return f"Modbus {data[0]}: {name}, answer {data[3:-2].hex(' ')}"
    return f"Modbus {data[0]}: {name}"


def _by_page(driver: type[Device], data: bytes) -> str:
    """Return the command of the driver's page whose fixed part in `data` is the longest."""
    if driver.page is None:
        return ""
    text = data.decode("latin-1").strip()
    best = (0, "")
    for commands, told, _ in driver.page.commands:
        for command in re.split(r", (?=\w)| and ", commands):
            core = _core(command)
            if core and core in text and len(core) > best[0]:
                best = (len(core), told)
    return best[1]


def _core(command: str) -> str:
    """Return the constant part of a command as the manual writes it: without address and parameters."""
    word = command.split(" ")[0]
    word = re.sub(r"^[acX](?=.)", "", word)
    return re.sub(r"(?<=.)(n\.nn|n+|m[Ll](,min|/min)?|,\*)$", "", word)
