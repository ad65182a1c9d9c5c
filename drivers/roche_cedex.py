"""Roche Cedex Bio HT, an at-line analyser of culture medium (Host Interface Manual 1.24, shared with COBAS INTEGRA 400 plus).

The host asks, the analyser answers. A result request is answered with the oldest accepted result that was not sent yet, or
with an idle block. The sequence counter makes this safe: a request that is repeated with the same counter is answered with
the same block again, so that an answer that was lost on the line is not lost for good.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque

from drivers.cedex_block import (
    IDLE,
    MESSAGE,
    NO_RESULT,
    REQUEST,
    Block,
    ResultLine,
    block_bytes,
    results_of,
    take_block,
)
from drivers.commands import Guarantee
from drivers.device import Device, DeviceConfig, DeviceModel, Identity, Page
from drivers.errors import BadReply, Refused
from drivers.results import SAMPLE_SETTINGS, AnalyserResult, ResultSource, SampleTerms
from drivers.settings import ChoiceSetting, FlagSetting, Given, NumberSetting, Setting, bad_setting, known_only
from drivers.transport.conversation import Conversation
from drivers.transport.link import Link
from drivers.transport.url import LineSettings

GREETING_S = 3.0
"""Wait for the answer to an idle block. A later answer completes the next attempt."""
REFUSALS = 2
"""Number of refusals of the same request in a row after which both sides synchronise their counters again."""
NO_NUMBER = 9.9e98
"""The analyser sends ±9.999999E+99 where it has no result."""
HOST = "CHOROID"
"""Identifier in the header of a request: the analyser does not look at it."""

TESTS = ("lactate", "glucose", "ammonia", "glutamine", "ldh")
AMMONIA_G_MOL, AMMONIUM_G_MOL = 17.03, 18.04


def _test(name: str) -> NumberSetting:
    return NumberSetting(
        key=f"{name}_test",
        meaning=f"number of the test of {name} (Configuration > Test Definitions > ID)",
        low=1.0,
        high=999.0,
        without="without it, results of this analyte are recorded and not used",
    )


_TESTS = {name: _test(name) for name in TESTS}
SELECTOR = ChoiceSetting(
    key="result_type",
    meaning="result type selector: 17 for sample results with time and lots (block 07), 07 for those without (block 04)",
    among=("17", "07"),
    default="17",
)
BLOCK_CHECK = FlagSetting(
    key="block_check", meaning="whether sequence counter and check sum are on in the analyser's setup", default=True
)
SAMPLE_ID = ChoiceSetting(
    key="sample_id",
    meaning="what holds the sample ID: order, the order number (15 characters, barcode), or name, the sample name",
    among=("order", "name"),
    default="order",
)
AMMONIA_AS = ChoiceSetting(
    key="ammonia_as",
    meaning="what a mass concentration of ammonia is the mass of",
    among=("NH3", "NH4"),
    default="NH3",
)
SERIAL = Setting(
    key="serial",
    meaning="serial number of the analyser, part of the identity of each result; the interface does not report it",
    without="default: the device's name in the rig file",
)
CODE = NumberSetting(
    key="instrument_code", meaning="instrument code in the header of a request", low=0.0, high=99.0, default=14.0
)
TIMEOUT = NumberSetting(
    key="timeout_s",
    meaning="wait for the answer to a request; the manual expects it within 60 s",
    low=1.0,
    high=180.0,
    default=60.0,
    unit="s",
)

_X_DOUBTS = {
    6: ("", "", "the calibration was not accepted", "the calibration is postponed"),
    4: ("", "", "the control was not accepted", "flag X is not documented"),
    2: ("", "", "the result is erroneous or corrected and was not accepted", "the result was deleted"),
}
_X_NOTES = {
    6: ("", "the calibration was erroneous or corrected, and accepted", "", ""),
    4: ("", "the control was erroneous or corrected, and accepted", "", ""),
    2: ("", "the result was erroneous or corrected, and accepted", "", ""),
    0: ("", "with a replicate", "after dilution", "after concentration"),
}
"""By the position of two bits in flag X, what their value means."""


class RocheCedex(Device):
    """One Cedex Bio HT. It has no points: its results belong to samples (:attr:`results`)."""

    model = DeviceModel(
        id="roche-cedex-bio-ht",
        vendor="Roche",
        name="Cedex Bio HT analyser, at-line",
        kind="analyser",
        transports=("serial", "tcp", "sim"),
        capabilities=("read",),
        guarantee=Guarantee.HOST,
        manual="COBAS INTEGRA 400 plus / Cedex Bio HT Host Interface Manual, version 1.24",
        verification="verified against the manual's example with its check sum and an independent simulator; not on hardware",
    )
    line = LineSettings(baud=9600, bits=8, parity="N", stop=1)
    queries = re.compile(rb"\x01\n\d\d [ -~]{16} 00\n\x02\n\x03\n(?:[01]\n\d{3}\n)?\x04\n")
    settings = (
        *SAMPLE_SETTINGS,
        *_TESTS.values(),
        AMMONIA_AS,
        SAMPLE_ID,
        SERIAL,
        SELECTOR,
        BLOCK_CHECK,
        CODE,
        TIMEOUT,
    )
    page = Page(
        wiring="RS-232, a port of its own. Speed, parity and stop bits are chosen at the analyser; write them in the link"
        " (`?baud=9600&parity=N`), with software handshake or none. It stands next to the rig: write no `at`, and `every` of"
        " at least 60 s.",
        commands=(
            ("block 00", "idle block: synchronises the sequence counters, identifies the analyser", "1, 4"),
            ("block 09, line 10", "result request with the result type selector", "4, 5"),
        ),
        traps=(
            "Sample IDs say where and when: `loop-1040` is a sample of vessel `loop`, taken at 10:40; `loop-1123-1040` with"
            " month and day. Without a time it counts as taken when the measurement began.",
            "Each result is sent to one host only. What Choroid has fetched, other hosts do not get; all of it is in the"
            " journal (rows `analysis`).",
            "Results have to be accepted at the analyser (or automatically) before they are sent.",
            "Any flag but those of accepted corrections, replicates and dilution makes a result doubtful: it is recorded,"
            " not used, and an alarm asks for a person.",
            "The identifier in its header is free text of its setup: another analyser of this family is not recognised.",
            "A result that was on the line when the controller was killed is not sent again by itself: send it again at the"
            " analyser. Nothing counts twice by this.",
            "Not documented in what was at hand, and taken by analogy: selector 17, the names of the flags S, CALC and QC,"
            " the factory's line settings. Not verified on hardware.",
        ),
    )

    def __init__(self, link: Link, config: DeviceConfig) -> None:
        super().__init__(link, config)
        given, where = config.settings, config.name
        known_only(given, where, self.settings)
        self._check = BLOCK_CHECK.of(given, where)
        self._code = _whole(CODE, given, where)
        self._timeout_s = TIMEOUT.of(given, where)
        self._lines = (f"10 {SELECTOR.of(given, where)}",)
        self._conversation = Conversation(link, where, timeout_s=GREETING_S, unsolicited=self._take_late)
        self._one_at_a_time = asyncio.Lock()
        self._counter = 0
        """The sequence counter of the last exchange."""
        self._request: bytes | None = None
        """The request that has no valid answer yet: it is repeated with the same counter."""
        self._refused = 0
        self.results: CedexResults = CedexResults(self, given)
        link.attach(self._conversation, self.verify)

    @property
    def conversation(self) -> Conversation:
        """This driver's side of the link."""
        return self._conversation

    async def _identify(self) -> Identity:
        if self._request is not None and not self.link.read_only:
            block = await self._conversation.ask(self._request, self._answer)
            if block.code != MESSAGE:
                self._accept(block)
                self.results.add(block)
                return self._identity(block)
            self._request = None
        block = await self._conversation.ask(self._message(IDLE, (), 0), self._greeting)
        if block.code != IDLE:
            raise self._refusal(block, "the idle block")
        self._accept(block)
        return self._identity(block)

    def _identity(self, block: Block) -> Identity:
        return Identity(model=block.name or "Cedex Bio HT", serial=self.results.serial)

    async def next_block(self) -> Block:
        """Return the analyser's answer to a result request.

        Raises:
            DeviceError: There was none. The next call repeats the request, and the analyser its answer.
        """
        async with self._one_at_a_time:
            if self._request is None:
                self._request = self._message(REQUEST, self._lines, 1 - self._counter)
            block = await self._conversation.ask(self._request, self._answer, timeout_s=self._timeout_s)
            if block.code == MESSAGE:
                self._refused += 1
                if self._refused >= REFUSALS:
                    self._refused, self._request = 0, None
                    self._conversation.distrust()
                    self.link.wake()
                raise self._refusal(block, "a result request")
            self._accept(block)
            if block.code == NO_RESULT and not all(line == "96 00" for line in block.lines):
                raise self._refusal(block, "a result request")
            return block

    def _accept(self, block: Block) -> None:
        self._request, self._refused = None, 0
        if block.counter is not None:
            self._counter = block.counter

    def _message(self, code: str, lines: tuple[str, ...], counter: int) -> bytes:
        return block_bytes(self._code, HOST, code, lines, counter if self._check else None)

    def _answer(self, buffer: bytearray) -> Block | None:
        while (block := take_block(buffer, check=self._check, where=self.config.name)) is not None:
            if block.name != HOST:  # not an echo of the request
                return block
        return None

    def _greeting(self, buffer: bytearray) -> Block | None:
        """Return the answer to an idle block; results that come before it are kept."""
        while (block := self._answer(buffer)) is not None:
            if block.code in (IDLE, MESSAGE):
                return block
            self.results.add(block)
        return None

    def _take_late(self, buffer: bytearray) -> None:
        """Keep the results in a block whose request has been given up."""
        while True:
            try:
                block = self._answer(buffer)
            except BadReply:
                continue
            if block is None:
                return
            self.results.add(block)

    def _refusal(self, block: Block, what: str) -> Refused:
        return Refused(
            f"it answers {what} with block {block.code} ({', '.join(block.lines) or 'no lines'})",
            where=self.config.name,
            cause="its host interface is set up in another way, or the result type is not supported",
            action="compare its Host Interface Configuration with the settings in the rig file",
        )


class CedexResults(ResultSource):
    """Results that the analyser has sent, until they are kept."""

    def __init__(self, cedex: RocheCedex, given: Given) -> None:
        where = cedex.config.name
        self._cedex = cedex
        self._where = where
        self.terms = SampleTerms.of(given, where)
        self.serial = str(given.get(SERIAL.key, "")) or where
        self._by_name = SAMPLE_ID.of(given, where) == "name"
        self._as_ammonium = AMMONIA_AS.of(given, where) == "NH4"
        self._tests = {_whole(key, given, where): name for name, key in _TESTS.items() if key.key in given}
        if len(self._tests) < sum(key.key in given for key in _TESTS.values()):
            raise bad_setting(where, "…_test", "name one test twice", "give each analyte its own number")
        self._waiting: deque[AnalyserResult] = deque()

    async def fetch(self) -> AnalyserResult | None:
        """See :meth:`ResultSource.fetch`."""
        if not self._waiting:
            self.add(await self._cedex.next_block())
        return self._waiting[0] if self._waiting else None

    def keep(self, result: AnalyserResult) -> None:
        """See :meth:`ResultSource.keep`."""
        if result in self._waiting:
            self._waiting.remove(result)

    def add(self, block: Block) -> None:
        """Take in the results of a block, each once."""
        try:
            found = [self._result(line) for line in results_of(block, self._where)]
        except BadReply as error:
            found = [self._unreadable(block, str(error))]
        self._waiting.extend(each for each in found if each not in self._waiting)

    def _unreadable(self, block: Block, why: str) -> AnalyserResult:
        """Return what stands for a block that no repetition makes readable: its check sum was right."""
        raw = "|".join(block.lines)
        return AnalyserResult(f"{self.serial}|{raw}", "", "", "", None, "", None, (why,), raw=raw)

    def _result(self, line: ResultLine) -> AnalyserResult:
        value, doubts, notes = float(line.number), *_judged(line)
        lost = abs(value) >= NO_NUMBER or "the result was deleted" in doubts
        analyte = self._tests.get(line.test, "")
        if analyte == "ammonia" and self._as_ammonium and not line.unit.lower().startswith(("mol", "mmol", "umol")):
            value *= AMMONIA_G_MOL / AMMONIUM_G_MOL
        when = "" if line.measured is None else line.measured.isoformat()
        sample = line.name if self._by_name else line.order
        return AnalyserResult(
            key="|".join((self.serial, sample, str(line.test), when, line.index, line.number)),
            sample=sample,
            analyte=analyte,
            test=str(line.test),
            value=None if lost else value,
            unit=line.unit,
            measured=line.measured,
            flags=(*(("the analyser has no result",) if lost else ()), *doubts),
            notes=notes,
            raw=line.raw,
        )


def _judged(line: ResultLine) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what the flags of a result say against it, and what else they say."""
    doubts = [texts[line.flag_x >> bit & 3] for bit, texts in _X_DOUBTS.items()]
    doubts += [f"flag {name} {number}" for name, number in line.flags if number]
    if line.flag_x > 255:
        doubts.append(f"flag X {line.flag_x} is not documented")
    notes = (texts[line.flag_x >> bit & 3] for bit, texts in _X_NOTES.items())
    return tuple(filter(None, doubts)), tuple(filter(None, notes))


def _whole(key: NumberSetting, given: Given, where: str) -> int:
    number = key.of(given, where)
    if number != round(number):
        raise bad_setting(where, key.key, f"is “{number:g}”", "write a whole number")
    return round(number)
