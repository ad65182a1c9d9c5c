"""The driver's side: whatever bytes come instead of an answer, a driver gives a valid value or a DeviceError.

An input says which work (verifying, a reading, a status, a command), which of its answers is spoilt, and how; all other
answers are those that the simulated device gave when the golden dialogue was recorded. The link is left out, because it
would turn what escapes from a parser into a DeviceError: here nothing stands between the parser and the fuzzer.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TypeVar

from choroid.tools.conformance.benches import lab_bench
from drivers.commands import Command, LevelStatus, PumpStatus, Stop, SwitchStatus
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, Stage, accepted_commands
from drivers.conformance.trying import works_of
from drivers.device import Device, Identity
from drivers.errors import BadReply, DeviceError, NoReply
from drivers.transport.capture import Capture
from drivers.transport.link import Link, Parser
from drivers.transport.url import LinkUrl
from sim.virtual_time import run_virtual
from tests.fuzz import checksums
from tests.fuzz.findings import Feed, Finding
from tests.fuzz.loop import FuzzLoop, the_loop

T = TypeVar("T")
Dialogue = dict[bytes, list[bytes]]
"""By request, the answers to it, in their order."""

INSTEAD, FLIPPED, INSERTED, CUT = range(4)
HOW = 4
UNASKED = 0x80
"""In the third byte of an input: the bytes come while nothing is asked, before the work."""
WHERE = 12
"""So many answers of a work can be spoilt; none asks oftener but to page."""
SMALLEST = 4
ANSWER_S = 0.35
"""From a request to its answer."""
MAX_PIECES = 16
NOTHING = [b""]
MAX_ASKED = 400
URL = LinkUrl.parse("sim:fuzz")


@dataclass
class _Recorded:
    name: str
    answers: Dialogue = field(default_factory=dict)
    asked: list[bytes] = field(default_factory=list)


class _Wire(Link):
    """A link on which one answer is spoilt. It parses at once, in pieces, and catches nothing."""

    def __init__(self, bench: Bench, loop: FuzzLoop) -> None:
        super().__init__(URL, line=bench.driver.line)
        self.opened = 1
        self._answers: Dialogue = {}
        self._others: Dialogue = {}
        self.spoilt_at = 0
        self.spoil: Callable[[bytes], bytes] = lambda golden: golden
        self.piece = 0
        self.holds: checksums.Holds | None = None
        self._fuzz_loop = loop
        self._count = 0
        self._said: dict[bytes, int] = {}

    def begin(self, others: Dialogue, answers: Dialogue) -> None:
        """From now on answer by `answers`, and what is not in there by `others`."""
        self._answers, self._others = answers, others
        self._count = 0
        self._said.clear()

    @property
    def is_open(self) -> bool:
        return True

    async def exchange(
        self,
        request: bytes,
        parse: Parser[T],
        *,
        timeout_s: float,
        where: str,
        addressed: bool = False,
        may_go: Callable[[], bool] | None = None,
    ) -> T:
        self.transactions += 1
        self.sent_at_s = self._fuzz_loop.time()
        self._count += 1
        if self._count > MAX_ASKED:
            raise Finding(f"one work asks {self._count} times")
        turn = self._said.get(request, 0)
        self._said[request] = turn + 1
        golden = self._answers.get(request) or self._others.get(request, NOTHING)
        received = golden[min(turn, len(golden) - 1)]
        spoilt = self._count - 1 == self.spoilt_at
        if spoilt:
            received = self.spoil(received)
        self._fuzz_loop.pass_s(min(ANSWER_S if len(received) else timeout_s, timeout_s))
        buffer = bytearray()
        size = max(self.piece or len(received), len(received) // MAX_PIECES, 1)
        for at in range(0, len(received), size):
            buffer += received[at : at + size]
            reply = parse(buffer)
            if reply is not None:
                taken = received[: at + size]
                if spoilt and self.holds is not None and not self.holds(taken):
                    raise Finding(f"{taken.hex(' ')} was taken, and no checksum in it is right: {reply!r}")
                return reply
        error = BadReply if received else NoReply
        raise error("no whole valid reply", where=where, cause="the fuzzer", action="none")

    async def tell(
        self,
        request: bytes,
        *,
        pause_s: float,
        where: str,
        addressed: bool = False,
        may_go: Callable[[], bool] | None = None,
    ) -> None:
        self.transactions += 1
        self._fuzz_loop.pass_s(pause_s)


class DriverSide:
    """All parsers of one driver behind one function of bytes."""

    def __init__(self, model: str) -> None:
        self.bench = lab_bench(model)
        self.holds = checksums.of_replies(model, self.bench.config.address)
        self.commands, self.works = run_virtual(_record(self.bench))
        self.everything: Dialogue = {}
        for work in self.works:
            for request, answers in work.answers.items():
                self.everything.setdefault(request, []).extend(answers)
        self.loop = the_loop()

    def build(self) -> Feed:
        """The driver, newly made, on a link of its own."""
        self.loop.forget()
        self.loop.enter()
        try:
            wire = _Wire(self.bench, self.loop)
            device = self.bench.driver(wire, self.bench.config)
        finally:
            self.loop.leave()
        works = dict(works_of(device, self.commands)) | {"verifying": device.verify}
        for point, actuator in device.actuators.items():
            works[f"Stop to {point}"] = partial(actuator.apply, Stop())

        def feed(data: bytes) -> None:
            if len(data) < SMALLEST:
                return
            work = self.works[data[0] % len(self.works)]
            device.conversation.verified = work.name != "verifying"
            self._prepare(wire, data, work)
            self._check(work.name, self.loop.drive(_outcome(works[work.name])))
            if self.loop.failure is not None:
                raise Finding(f"{work.name} left behind {self.loop.failure!r}") from self.loop.failure

        return feed

    def _prepare(self, wire: _Wire, data: bytes, work: _Recorded) -> None:
        how, rest = data[2], data[3:]
        wire.begin(self.everything, work.answers)
        wire.piece = how >> 2 & 0x0F
        wire.holds = self.holds
        wire.spoilt_at = data[1] % WHERE
        wire.spoil = _spoiling(how % HOW, rest)
        if how & UNASKED and wire.unsolicited is not None:
            self.loop.enter()
            try:
                wire.unsolicited(bytearray(rest))
            finally:
                self.loop.leave()
            wire.spoilt_at = -1

    def _check(self, name: str, outcome: object) -> None:
        match outcome:
            case DeviceError():
                if "Likely cause: " not in str(outcome) or "Next: " not in str(outcome):
                    raise Finding(f"{name}: an error that does not say what to do: {outcome}")
            case float():
                if not name.startswith("reading ") or not math.isfinite(outcome):
                    raise Finding(f"{name} gave {outcome!r}")
            case PumpStatus() | SwitchStatus() | LevelStatus():
                if not name.startswith("status of "):
                    raise Finding(f"{name} gave {outcome!r}")
                for each in fields(outcome):
                    value = getattr(outcome, each.name)
                    if isinstance(value, float) and not math.isfinite(value):
                        raise Finding(f"{name} gave {outcome!r}")
            case Identity():
                if name != "verifying":
                    raise Finding(f"{name} gave {outcome!r}")
            case None:
                if name.startswith(("reading ", "status of ")) or name == "verifying":
                    raise Finding(f"{name} gave nothing")
            case _:
                raise Finding(f"{name} gave {outcome!r}")

    def seeds(self) -> Iterator[bytes]:
        """Every golden answer in its place, whole and in pieces of three bytes, and what the device says unasked."""
        for number, work in enumerate(self.works):
            turns: dict[bytes, int] = {}
            for at, request in enumerate(work.asked[:WHERE]):
                golden = work.answers[request][turns.get(request, 0)]
                turns[request] = turns.get(request, 0) + 1
                yield bytes((number, at, INSTEAD)) + golden + b"\0" * (SMALLEST - 3 - len(golden))
                yield bytes((number, at, INSTEAD | 3 << 2)) + golden + b"\0" * (SMALLEST - 3 - len(golden))
                yield bytes((number, at, FLIPPED, 0, 0, 1))
            yield bytes((number, 0, UNASKED)) + b"".join(b"".join(each) for each in work.answers.values()) + b"\0"


async def _outcome(work: Callable[[], Awaitable[object]]) -> object:
    try:
        return await work()
    except DeviceError as error:
        return error


def _spoiling(how: int, rest: bytes) -> Callable[[bytes], bytes]:
    """What becomes of a golden answer."""
    if how == FLIPPED:
        return lambda golden: (
            bytes(byte ^ (rest[at] if at < len(rest) else 0) for at, byte in enumerate(golden)) + rest[len(golden) :]
        )
    if how == INSERTED:
        return lambda golden: golden[: rest[0] % (len(golden) + 1)] + rest[1:] + golden[rest[0] % (len(golden) + 1) :]
    if how == CUT:
        return lambda golden: golden[: rest[0] % (len(golden) + 1)] + rest[1:]
    return lambda golden: rest


async def _record(bench: Bench) -> tuple[list[tuple[str, Command]], list[_Recorded]]:
    """Commands that the device takes, and the dialogue of each work with the simulated device."""
    commands = await accepted_commands(bench)
    stage = Stage(bench)
    stage.link.capture = Capture(frames=1_000_000)
    await asyncio.sleep(2.0)
    failures = await stage.link.start()
    if failures:
        raise RuntimeError(f"the golden dialogue cannot be recorded: {next(iter(failures.values()))}")
    recorded = [_taken("verifying", stage)]
    try:
        for name, work in _all_works(stage.device, commands):
            await asyncio.sleep(SETTLE_S)
            stage.link.capture = Capture(frames=1_000_000)
            await work()
            await asyncio.sleep(SETTLE_S)
            recorded.append(_taken(name, stage))
    finally:
        await stage.link.close()
    return commands, recorded


def _all_works(
    device: Device, commands: list[tuple[str, Command]]
) -> Iterator[tuple[str, Callable[[], Awaitable[object]]]]:
    for name, work in works_of(device, commands):
        yield name, work
        if " to " in name:
            point = name.rpartition(" to ")[2]

            yield f"Stop to {point}", partial(device.actuators[point].apply, Stop())


def _taken(name: str, stage: Stage) -> _Recorded:
    """What the capture holds of one work."""
    recorded = _Recorded(name)
    for frame in stage.link.capture.frames():
        if frame.direction == ">":
            recorded.asked.append(frame.data)
            recorded.answers.setdefault(frame.data, []).append(b"")
        elif recorded.asked:
            recorded.answers[recorded.asked[-1]][-1] += frame.data
    return recorded
