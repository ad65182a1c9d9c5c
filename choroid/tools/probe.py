"""`choroid device probe PORT`: identify the device on a port, with queries only, at the manufacturers' line settings.

No question here sets, starts, stops or stores anything in the device that it is meant for. Models of third parties are not
asked (:func:`unasked`).
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from choroid.common.failure import UserError
from drivers.cedex_block import block_bytes
from drivers.keller_bus import initialise_frame
from drivers.registry import MODELS
from drivers.tecan_cavro_wire import dt_frame, oem_frame
from drivers.transport.capture import printable
from drivers.transport.opener import Opener, Streams
from drivers.transport.url import LineSettings, LinkUrl
from drivers.vaisala_gmp25x import identification_frame


def link_of(text: str) -> LinkUrl:
    """Return the link for `text`: `/dev/ttyUSB0`, or a link as in a rig file; raise :class:`UserError` for anything
    else.
    """
    try:
        return LinkUrl.parse(f"serial://{text}" if text.startswith("/") else text)
    except ValueError as error:
        raise UserError(
            f"{error} Next: name a port such as /dev/ttyUSB0, or a link such as tcp://192.0.2.7:4001"
        ) from None


def must_exist(url: LinkUrl) -> None:
    """Raise :class:`UserError` for a missing serial port; the message lists the existing ones."""
    if url.scheme == "serial" and url.usb is None and not Path(url.target).exists():
        ports = [str(path) for pattern in ("ttyUSB*", "ttyACM*", "ttyS[0-3]") for path in Path("/dev").glob(pattern)]
        raise UserError(
            f"there is no port {url.target}. Likely cause: the adapter is unplugged, or has another number now."
            f" Next: choose one of {', '.join(sorted(ports)) or 'none: no serial port was found'}"
        )


WAIT_S = 0.7
"""Maximum time of a device to identify itself (s)."""
LISTEN_S = 2.2
"""Maximum time until a device that sends by itself has sent twice (s)."""
QUIET_S = 0.08
ENDS = (b"\r\n", b"\r")
"""Line ends. A query with such an end is preceded by the end alone, which completes what earlier queries have left
in the line buffer of a device that reads lines. By itself it neither asks nor sets anything.
"""


@dataclass(frozen=True, slots=True)
class Question:
    """One query: `request` asks a device of `model` at `line`; a reply that matches `answer` is its own.

    `model` may name several, "a or b", where the answer is the same for each. An empty `request` listens to a device that
    sends by itself.
    """

    model: str
    request: bytes
    answer: re.Pattern[bytes]
    line: LineSettings = field(default_factory=LineSettings)
    serial_only: bool = False
    """Not asked over TCP, where devices with other line settings receive it too."""
    last: bool = False
    """Asked only when nothing has answered the other questions."""


_EZO = {
    "atlas-ezo-ph": rb"pH",
    "atlas-ezo-do": rb"D\.?O\.?",
    "atlas-ezo-rtd": rb"RTD",
    "atlas-ezo-pmp": rb"PMP",
    "atlas-ezo-ec": rb"EC",
    "atlas-ezo-orp": rb"ORP",
}
_VAISALA = identification_frame(240)
_ALICAT = re.compile(rb"(A(?: +[+-]?\d+\.\d+){4,6} +\w+)")
_SATELLITE = LineSettings(baud=4800, bits=7, parity="O")
_KELLER = "keller-x-line or keller-bus"
_HAMILTON = "hamilton-ph-arc or hamilton-visiferm-do"
QUESTIONS: tuple[Question, ...] = (
    Question("jobst-six", b"", re.compile(rb"(\x68\x13\x13\x68).{20}\x16", re.DOTALL)),
    *(Question(name, b"i\r", re.compile(rb"\?I," + it + rb",([\d.]+)", re.IGNORECASE)) for name, it in _EZO.items()),
    Question("mettler-sics", b"I4\r\n", re.compile(rb'I4 A "([^"]*)"')),
    Question("ismatec-reglo-icc", b"1#\r", re.compile(rb"(REGLO ICC[ \w]*)")),
    Question("ismatec-reglo-digital", b"1#\r", re.compile(rb"((?:REGLO(?! ICC)|IPC)[ \w/-]*)")),
    Question(_KELLER, initialise_frame(250), re.compile(rb"\xfa\x30\x05\x14(..)", re.DOTALL)),
    Question(_KELLER, initialise_frame(1), re.compile(rb"\x01\x30\x05\x14(..)", re.DOTALL)),
    Question("modbus-coil-relay", bytes.fromhex("01010000 00083DCC"), re.compile(rb"\x01\x01\x01(.)..", re.DOTALL)),
    Question("alicat-mfc", b"A\r", _ALICAT, LineSettings(baud=19200)),
    Question("alicat-mfc", b"A\r", _ALICAT, LineSettings(baud=38400)),
    Question("longer-0xe9", bytes.fromhex("E901 02524A1B"), re.compile(rb"\xe9\x01\x06(RJ)"), LineSettings(parity="E")),
    Question("watson-marlow-ascii", b"1RS\r", re.compile(rb"(\d{3}\w* [ -~]+)!"), LineSettings(stop=2)),
    Question(
        _HAMILTON,  # the quality indicator, register 4872
        bytes.fromhex("0103 1307 0002 714E"),
        re.compile(rb"\x01\x03\x04(....)..", re.DOTALL),
        LineSettings(baud=19200, stop=2),
    ),
    Question("vaisala-gmp25x", _VAISALA, re.compile(rb"(GMP25\w)"), LineSettings(baud=19200, stop=2)),
    Question(
        "sensirion-slf3x",
        bytes.fromhex("7E00D1002E7E"),
        re.compile(rb"\x7e\x00\xd1\x00(.{8})", re.DOTALL),
        LineSettings(baud=115200),
    ),
    Question(  # an idle block; with or without a block check, every answer is one of these
        "roche-cedex-bio-ht",
        block_bytes(14, "CHOROID", "00", (), 0),
        re.compile(rb"\x01\r?\n\d\d (?!CHOROID)([ -~]{16}) (?:00|99)\r?\n"),
    ),
    Question("huber-pb", b"{M01****\r\n", re.compile(rb"\{S01([0-9A-F]{4})\r\n")),
    Question("vici-actuator", b"CP\r", re.compile(rb"(?<![A-Z])CP ?(\d{1,2}|[AB])\r")),
    Question(
        "eurotherm-3200",  # the version, register 107
        bytes.fromhex("0103 006B 0001 F5D6"),
        re.compile(rb"\x01\x03\x02(..)..", re.DOTALL),
    ),
    Question(
        "bronkhorst-propar",  # the measured flow, of any node on the line
        b":06800401210120\r\n",
        re.compile(rb":06[0-9A-F]{2}0201(?:21|20)([0-9A-F]{4})\r\n"),
        LineSettings(baud=38400),
    ),
    Question("julabo", b"version\r", re.compile(rb"(JULABO[ -~]*)"), LineSettings(baud=4800, bits=7, parity="E")),
    Question(
        "masterflex-usb",
        b"1RC\r",
        re.compile(rb"\A([1-8],[01],[01]|~)(?:\r\n)?\Z"),  # `~`: it is not in its serial mode
        LineSettings(baud=115200),
        serial_only=True,  # behind a serial server it may mean something else to a drive of another manufacturer
    ),
    Question(
        "sartorius-sbi",
        b"\x1bx1_\r\n",
        re.compile(rb"^ *([A-Z]{2}[\w -]*\d[\w-]*) *\r\n", re.MULTILINE),
        LineSettings(baud=1200, bits=7, parity="O"),
    ),
    # A drive with a number tells its status; one that was just switched on answers ENQ and asks for a number, which it does
    # not get here. To a pump of another maker `1I` means stop, so only a drive's own line setting is used.
    Question(
        "masterflex-ls", b"\x02P01I\r", re.compile(rb"\x02P01I(\d{5})\r"), _SATELLITE, serial_only=True, last=True
    ),
    Question("masterflex-ls", b"\x05", re.compile(rb"\x02(P\?[ -~])\r"), _SATELLITE, serial_only=True, last=True),
    # The first protocol that a Cavro pump receives is the only one until its next power-up: OEM, as its driver's default.
    Question("tecan-cavro", oem_frame(1, b"&"), re.compile(rb"\x020[@-o]([ -~]+)\x03.", re.DOTALL), last=True),
    Question("tecan-cavro", dt_frame(1, b"&"), re.compile(rb"/0[@-o]([ -~]+)\x03\r\n"), last=True),
    *(
        Question(model, driver.recognised_by.request, driver.recognised_by.answer, driver.line, last=True)
        for model, driver in MODELS.items()
        if driver.recognised_by is not None and driver.__module__.startswith("drivers.")
    ),
)
"""Sent in this order, line setting by line setting."""


@dataclass(frozen=True, slots=True)
class Found:
    """A device that answered as `model` does."""

    model: str
    line: str
    asked: str
    answered: str


def unasked() -> list[str]:
    """Return the models that no question here is for."""
    asked = {model for question in QUESTIONS for model in question.model.split(" or ")}
    return sorted(set(MODELS) - asked)


async def probe(
    url: LinkUrl, opener: Opener, *, wait_s: float = WAIT_S, progress: Callable[[str], object] = lambda _: None
) -> list[Found]:
    """Query at each line setting until a device answers; return what answered. `progress` receives each query.

    A TCP link has no line setting to choose.

    Raises:
        OSError: The port cannot be opened.
        DeviceError: The port cannot be opened.
    """
    for last in (False, True):
        for line, asked in _by_line(url, [question for question in QUESTIONS if question.last is last]).items():
            streams = await opener(url, line)
            try:
                found = await _ask_all(streams, asked, line, wait_s, progress)
            finally:
                streams[1].close()
                with suppress(Exception):  # a port that fails to close is closed all the same
                    await streams[1].wait_closed()
            if found:
                return found
    return []


def _by_line(url: LinkUrl, questions: Sequence[Question]) -> dict[LineSettings, list[Question]]:
    """Group the questions that may be asked at `url` by the line setting at which they are."""
    by_line: dict[LineSettings, list[Question]] = {}
    for question in questions:
        if question.serial_only and url.scheme == "tcp":
            continue
        line = LineSettings() if url.scheme == "tcp" else url.line(question.line)
        by_line.setdefault(line, []).append(question)
    return by_line


def _by_request(questions: Sequence[Question]) -> dict[bytes, list[Question]]:
    by_request: dict[bytes, list[Question]] = {}
    for question in questions:
        by_request.setdefault(question.request, []).append(question)
    return by_request


def _end_of(request: bytes) -> bytes:
    """Return the end of line of a text request; nothing for a binary one."""
    return next((end for end in ENDS if request.endswith(end)), b"")


async def _ask_all(
    streams: Streams, asked: Sequence[Question], line: LineSettings, wait_s: float, progress: Callable[[str], object]
) -> list[Found]:
    """Send each different request once or twice; return what answered, one per model."""
    found: dict[str, Found] = {}
    by_request = _by_request(asked)
    for number, (request, questions) in enumerate(by_request.items(), 1):
        models = dict.fromkeys(question.model for question in questions)
        progress(f"{line.text}: question {number} of {len(by_request)}, for {', '.join(models)}")
        end = _end_of(request)
        clearing = end if number > 1 else b""
        for _ in range(2):  # what an earlier question left unfinished in the device may spoil the first attempt
            received = await _ask_clear(streams, clearing, request, wait_s if request else LISTEN_S)
            for each in _recognised(questions, received, line):
                found.setdefault(each.model, each)
            if (not received and not end) or _shown(request) in {each.asked for each in found.values()}:
                break
    return list(found.values())


async def _ask_clear(streams: Streams, clearing: bytes, request: bytes, wait_s: float) -> bytes:
    """Send `clearing`, if any, to end an unfinished request; then send `request` and return what arrives."""
    if clearing:
        await _ask(streams, clearing, QUIET_S)
    return await _ask(streams, request, wait_s)


def _recognised(questions: Sequence[Question], received: bytes, line: LineSettings) -> Iterator[Found]:
    """Yield the devices of which `received` is an answer; the questions have the same request."""
    for question in questions:
        told = _found(question, received)
        if told is not None:
            yield Found(question.model, line.text, _shown(question.request), told)


async def _ask(streams: Streams, request: bytes, wait_s: float) -> bytes:
    """Send `request`; return what arrives until silence, or within `wait_s` (s)."""
    reader, writer = streams
    with suppress(TimeoutError):  # earlier bytes are no answer to the query
        async with asyncio.timeout(QUIET_S):
            while await reader.read(4096):
                pass
    writer.write(request)
    received = b""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + wait_s
    while (left_s := end_s - loop.time()) > 0:
        try:
            async with asyncio.timeout(min(left_s, QUIET_S) if received else left_s):
                chunk = await reader.read(4096)
        except TimeoutError:
            break
        if not chunk:
            break
        received += chunk
    return received


def _found(question: Question, received: bytes) -> str | None:
    match = question.answer.search(received)
    return None if match is None else _shown(match[1])


def _shown(data: bytes) -> str:
    """Return `data` as text if it is text, else in hexadecimal."""
    text = data.strip(b"\r\n")
    return printable(data) if text and all(0x20 <= byte < 0x7F for byte in text) else data.hex(" ")


def run(port: str, opener: Opener) -> dict[str, Any]:
    """Return `{"port": …, "found": [{model, line, asked, answered}], "unasked": [model, …]}`; runs in real time."""
    url = link_of(port)
    if url.scheme == "sim":
        raise UserError(f"{port} is a simulated link, and its device is that of the rig file. Next: name a real port")
    must_exist(url)
    found = asyncio.run(probe(url, opener, progress=_show_progress))
    return {"port": str(url), "found": [asdict(each) for each in found], "unasked": unasked()}


def _show_progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


def as_text(answer: dict[str, Any]) -> str:
    """Return the result as text, with a line for the rig file."""
    if not answer["found"]:
        return (
            f"{answer['port']}: nothing answered any of the questions asked. Likely cause: the device is off, at another"
            f" baud rate or address than its maker set{_unasked_text(answer['unasked'])}. Next: check power and cable; its"
            " settings are in its own menu"
        )
    lines = []
    for each in answer["found"]:
        lines.append(f"{each['model']} at {each['line']}: query {each['asked'] or 'none'}, answer {each['answered']}")
        lines.append(f"  in a rig file:  model: {each['model']}   link: {answer['port']}")
        if each["model"] == "modbus-generic":
            lines.append(
                "  Unit 1 speaks Modbus RTU and none of the drivers here; describe its registers (docs/generic-modbus.md)."
            )
    if len(answer["found"]) > 1:
        lines.append("Several models match: several devices share the line, or one answers like another.")
    return "\n".join(lines)


def _unasked_text(models: Sequence[str]) -> str:
    """Name the models that cannot be asked, such as those of a third party's driver."""
    return f", or of a model that is not asked ({', '.join(models)})" if models else ""
