"""Broken text drivers: the sound one of :mod:`verification.conformance.broken.text_device` with a few lines changed."""

from __future__ import annotations

import re
import time

from drivers.conformance.bench import Bench
from drivers.device import Identity
from drivers.errors import NoReply
from drivers.transport.link import Link, Parser
from drivers.transport.replies import line_matching
from verification.conformance.broken.making import Broken, Points
from verification.conformance.broken.text_device import TextDriver, text_bench


class _AnyBytes(TextDriver):
    async def temperature(self) -> float:
        anything = line_matching(re.compile(rb"[^\r]*"), b"\r", self.config.name)
        told = await self._conversation.ask(self.frame(b"T"), anything)
        digits = re.sub(rb"[^\d.+-]", b"", told[0].partition(b"=")[2])
        return float(digits) if re.fullmatch(rb"[+-]?\d*\.?\d+", digits) else 0.0


class _Unfinished(TextDriver):
    def parser(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        loose = re.compile(re.escape(self.config.address.encode()) + rb"T=([+-][\d.]+)")
        sound = super().parser(pattern)
        return sound if pattern is not self._temperature else lambda buffer: loose.search(bytes(buffer))


class _Late(TextDriver):
    fenced = False
    late_s = 0.0


class _Overhearing(TextDriver):
    """Accepts an unsolicited reading as the next answer."""

    def __init__(self, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.received: list[float] = []
        self.link.unsolicited = self._overhear

    def _overhear(self, buffer: bytearray) -> None:
        self.received += [float(each) for each in self._temperature.findall(bytes(buffer))]
        buffer.clear()

    async def temperature(self) -> float:
        return self.received.pop() if self.received else await super().temperature()


class _EchoIsAnswer(TextDriver):
    """Declares its commands as mirrored: without that the conversation itself refuses an echo."""

    async def command(self, request: bytes) -> None:
        answer = self.parser(re.compile(rb"(?:OK )?(" + re.escape(request) + rb"|ERR)"))
        if b"ERR" in (await self._conversation.ask(self.frame(request), answer, mirrored=True))[0]:
            raise self.refusal("it refuses")


class _AnyAddress(TextDriver):
    def parser(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        return line_matching(re.compile(rb"[0-9]" + pattern.pattern), b"\r", self.config.name)


class _AddressOne(TextDriver):
    """Tries one address after the other until a device answers."""

    fenced = False
    late_s = 0.3

    async def _identify(self) -> Identity:
        for address in (self.config.address, "2", "3"):
            object.__setattr__(self.config, "address", address)
            try:
                return await super()._identify()
            except NoReply:
                continue
        raise NoReply("no device answers", where=self.config.name, cause="switched off", action="look")


class _UnitNotSet(TextDriver):
    async def prepare(self) -> None:
        if self.identity is None:
            await super().prepare()


class _UnitNeverSet(TextDriver):
    async def prepare(self) -> None:
        return


class _SavesEachCommand(TextDriver):
    async def start(self, request: bytes) -> None:
        await super().start(request)
        await self.command(b"SAVE")


class _SavesEachPoll(TextDriver):
    async def temperature(self) -> float:
        await self.command(b"SAVE")
        return await super().temperature()


class _SpeaksFirst(TextDriver):
    async def ask(self, request: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        return await self.link.exchange(
            self.frame(request), self.parser(pattern), timeout_s=0.3, where=self.config.name
        )


class _NoOff(TextDriver):
    async def start(self, request: bytes) -> None:
        await self.command(request)


class _Coarse(TextDriver):
    def flow(self, flow_ul_min: float) -> bytes:
        return b"%+07.1f" % (round(flow_ul_min / 50.0) * 50.0)


class _Hoarding(TextDriver):
    def __init__(self, link: Link, config: object) -> None:
        self.hoard = bytearray()
        super().__init__(link, config)  # type: ignore[arg-type]

    def parser(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        sound = super().parser(pattern)

        def parse(buffer: bytearray) -> re.Match[bytes] | None:
            self.hoard += buffer
            kept = bytearray(self.hoard[-256:])
            answer = sound(kept)
            buffer.clear()
            if answer is not None:
                self.hoard.clear()
            return answer

        return parse


class _RetriesDoses(TextDriver):
    async def start(self, request: bytes) -> None:
        try:
            await self.command(request)
        except NoReply:
            await self.command(request)


class _NeverAgain(TextDriver):
    """Never verifies again after the first success."""

    async def verify(self) -> Identity:
        if self.identity is not None:
            return self.identity
        return await super().verify()


class _SlowParser(TextDriver):
    def parser(self, pattern: re.Pattern[bytes]) -> Parser[re.Match[bytes]]:
        sound = super().parser(pattern)

        def parse(buffer: bytearray) -> re.Match[bytes] | None:
            until_s = time.thread_time() + 0.025
            while time.thread_time() < until_s:
                pass
            return sound(buffer)

        return parse


class _Raising(TextDriver):
    _temperature = re.compile(rb"T=(.*)")


class _PollsLikeACommand(TextDriver):
    """Polls with a request that is one bit from a command."""

    async def temperature(self) -> float:
        await self.ask(b"FO +0500.0", re.compile(rb"ERR"))
        return await super().temperature()


class _KeepsADeadLine(TextDriver):
    async def ask(self, request: bytes, pattern: re.Pattern[bytes]) -> re.Match[bytes]:
        self.link._silent = 0
        return await super().ask(request, pattern)


class _Wedged(TextDriver):
    """Considers a command that failed in the middle as running for ever."""

    busy = False

    async def command(self, request: bytes) -> None:
        if self.busy:
            raise self.refusal("a command is under way")
        self.busy = True
        await super().command(request)
        self.busy = False


def _broken(name: str, what: str, prop: str, driver: type[TextDriver]) -> Broken:
    def spoil(bench: Bench) -> Bench:
        return text_bench(driver)

    return Broken(name, what, prop, spoil, _on_text)


def _on_text(bench: Bench, points: Points) -> bool:
    return bench.driver is TextDriver


TEXT: tuple[Broken, ...] = (
    _broken("garbage taken", "whatever digits come are the reading", "garbage", _AnyBytes),
    _broken("truncated taken", "a reading is taken before its end has come", "truncated", _Unfinished),
    _broken("off by one", "a late reply is taken for the next one's", "late", _Late),
    _broken("overhears", "a reply that comes by itself is taken for the next one's", "leftover", _Overhearing),
    _broken("doubled taken", "the second of two equal replies is taken for the next one's", "doubled", _Overhearing),
    _broken("echo taken", "a command that is only echoed counts as done", "echo", _EchoIsAnswer),
    _broken("any address", "replies of other addresses are taken", "address", _AnyAddress),
    _broken(
        "finds another", "where its own address is silent it takes another one's device", "own-address", _AddressOne
    ),
    _broken("unit set once", "the device's unit is set once and not after a power cut", "misset", _UnitNotSet),
    _broken("unit not looked at", "the device's unit is neither set nor looked at", "truth", _UnitNeverSet),
    _broken("saves each command", "each command is written to the device's memory", "memory", _SavesEachCommand),
    _broken("saves each poll", "each reading is written to the device's memory", "memory", _SavesEachPoll),
    _broken("speaks first", "it speaks to a device that is not verified", "verified-first", _SpeaksFirst),
    _broken("not off in doubt", "a start whose confirmation was lost is left on", "lost-reply", _NoOff),
    _broken("not off when cancelled", "a start that is cancelled is left on", "cancelled", _NoOff),
    _broken("flows in coarse steps", "flows are rounded to 50 µL/min without a word", "effect", _Coarse),
    _broken("hoards", "what is received is kept without bound until an answer comes", "endless", _Hoarding),
    _broken("retries a dose", "a dose whose confirmation was lost is sent again", "dose", _RetriesDoses),
    _broken("never again", "after a lost line it is never verified again", "comes-back", _NeverAgain),
    _broken("wrong exception for noise", "a reading with a wrong bit raises ValueError", "flipped", _Raising),
    _broken("polls like a command", "a poll is one bit from a command", "harmless", _PollsLikeACommand),
    _broken(
        "keeps a dead line", "a connection that carries nothing is never opened again", "half-open", _KeepsADeadLine
    ),
    _broken("wedged", "what was cut off amid a command refuses every other one", "unplugged", _Wedged),
    _broken("slow parser", "what comes keeps the loop for long", "no-blocking", _SlowParser),
)
"""Defects of text drivers."""
