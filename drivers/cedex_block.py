"""Blocks of the host interface of COBAS INTEGRA 400 plus and Cedex Bio HT (Host Interface Manual 1.24).

A block is SOH, a header line (instrument code, identifier of 16 characters, block code), STX, data lines, ETX, and with the
block check on, the sequence counter and the sum of all bytes before (mod 1000, three digits); EOT ends it. Every line ends
with LF.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from drivers.errors import BadReply
from drivers.transport.replies import bad_reply

SOH, EOT = b"\x01", b"\x04"
_SOFTWARE_HANDSHAKE = bytes((0x11, 0x13))
MAX_BLOCK_BYTES = 16_384
"""Blocks with raw data are longer, and are not asked for."""

IDLE, CALIBRATION, CONTROL, SAMPLE, CONTROL_LOTS, SAMPLE_LOTS = "00", "02", "03", "04", "06", "07"
NO_RESULT, REQUEST, MESSAGE = "08", "09", "99"

_BLOCK = re.compile(
    rb"\x01\r?\n(?P<code>\d\d) (?P<name>[ -~]{16}) (?P<block>\d\d)\r?\n"
    rb"(?:\x02\r?\n(?P<lines>(?:[ -\xff]*\r?\n)*?)\x03\r?\n)?"
    rb"(?:(?P<counter>[01])\r?\n(?P<sum>\d{3})\r?\n)?\x04"
)
_ORDER = re.compile(r"53 (?P<order>.{1,16}?) *\d\d/\d\d/(?:\d\d){1,2}(?: .*)?")
_RESULT = re.compile(
    r"00 +(?P<value>[+-]?\d\.\d+E[+-]\d\d) +(?P<unit>\S*) +(?P<x>\d{1,3}) +(?P<s>\d{1,3}) +(?P<calc>\d{1,3})"
    r" +(?P<qc>\d{1,3})(?: +[+-]?\d\.\d+E[+-]\d\d){0,2} *"
)


@dataclass(frozen=True, slots=True)
class Block:
    """One block. `counter` is its sequence counter, None with the block check off."""

    name: str
    code: str
    lines: tuple[str, ...]
    counter: int | None


@dataclass(frozen=True, slots=True)
class ResultLine:
    """One result with the lines that belong to it: order, test, and where sent, name of the sample, time and index."""

    order: str
    name: str
    test: int
    measured: datetime | None
    index: str
    number: str
    """As sent: sign, mantissa, exponent."""
    unit: str
    flag_x: int
    flags: tuple[tuple[str, int], ...]
    """The other flags, by name."""
    raw: str


def block_bytes(code: int, name: str, block: str, lines: Iterable[str], counter: int | None) -> bytes:
    """Return a block as sent; without `counter`, it has no block check."""
    data = b"\x01\n%02d %-16.16s %s\n\x02\n" % (code, name.encode("ascii", "replace"), block.encode())
    data += b"".join(line.encode("ascii", "replace") + b"\n" for line in lines) + b"\x03\n"
    if counter is not None:
        data += b"%d\n" % counter
        data += b"%03d\n" % (sum(data) % 1000)
    return data + b"\x04\n"


def take_block(buffer: bytearray, *, check: bool, where: str) -> Block | None:
    """Remove the first whole block from `buffer` and return it; None while there is none.

    Raises:
        BadReply: Bytes between SOH and EOT are no valid block; they are removed.
    """
    begin = buffer.find(SOH)
    if begin < 0:
        buffer.clear()
        return None
    del buffer[:begin]
    end = buffer.find(EOT)
    if end < 0:
        if len(buffer) > MAX_BLOCK_BYTES:
            data = bytes(buffer[:60])
            buffer.clear()
            raise bad_reply(data, where, "a block that ends")
        return None
    data = bytes(buffer[: end + 1])
    del buffer[: end + 1]
    data = data[data.rfind(SOH) :]  # an interrupted block before it has no end
    return _block(data.translate(None, _SOFTWARE_HANDSHAKE), check=check, where=where)


def _block(data: bytes, *, check: bool, where: str) -> Block:
    found = _BLOCK.fullmatch(data)
    if found is None:
        raise bad_reply(data, where, "a block of the host interface")
    if check != (found["counter"] is not None):
        raise BadReply(
            f"the analyser sends {'no ' if check else 'a '}sequence counter and check sum",
            where=where,
            cause=f"the block check is {'off' if check else 'on'} in the analyser's Host Interface Configuration",
            action=f"turn it on there{'' if check else ' too'}, and write block_check: true",
        )
    if check and sum(data[: found.start("sum")]) % 1000 != int(found["sum"]):
        raise bad_reply(data, where, "a block with a right check sum")
    lines = (found["lines"] or b"").decode("latin-1").replace("\r", "").splitlines()
    return Block(
        found["name"].decode("ascii").strip(),
        found["block"].decode("ascii"),
        tuple(lines),
        int(found["counter"]) if check else None,
    )


def results_of(block: Block, where: str) -> list[ResultLine]:
    """Return the results of samples in a block; the results of calibrations and controls are not of interest here.

    Raises:
        BadReply: A line of it is not as documented.
    """
    if block.code not in (SAMPLE, SAMPLE_LOTS):
        return []
    order = name = index = test = ""
    measured: datetime | None = None
    found: list[ResultLine] = []
    for line in block.lines:
        match line[:2]:
            case "53":
                order, name, index, test, measured = _order(line), "", "", "", None
            case "56":
                name = line[3:53].strip()
            case "15":
                measured = _moment(line, where)
            case "16":
                index = line[3:].strip()
            case "55":
                test = line[3:].strip()
            case "00":
                found.append(_result(line, block, (order, name, test, index), measured, where))
            case _:
                pass  # lots, cassettes, raw data
    if not found:
        raise bad_reply("|".join(block.lines).encode(), where, "a result with its order, test and value")
    return found


def _result(
    line: str, block: Block, names: tuple[str, str, str, str], measured: datetime | None, where: str
) -> ResultLine:
    order, name, test, index = names
    read = _RESULT.fullmatch(line)
    if read is None or not test.isdigit() or not (order or name):
        raise bad_reply("|".join(block.lines).encode(), where, "a result with its order, test and value")
    flags = (("S", int(read["s"])), ("CALC", int(read["calc"])), ("QC", int(read["qc"])))
    return ResultLine(
        order,
        name,
        int(test),
        measured,
        index,
        read["value"],
        read["unit"],
        int(read["x"]),
        flags,
        "|".join(block.lines),
    )


def _order(line: str) -> str:
    """Return the order number: 15 characters before the date, although the manual's own example has 16."""
    found = _ORDER.fullmatch(line)
    return line[3:18].strip() if found is None else found["order"].strip()


def _moment(line: str, where: str) -> datetime:
    try:
        return datetime.strptime(line[3:].strip(), "%H:%M:%S %d/%m/%Y")  # noqa: DTZ007  (a clock without time zone)
    except ValueError:
        raise bad_reply(line.encode("latin-1"), where, "a time and a date") from None
