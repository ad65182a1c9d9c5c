"""Properties of complete but wrong replies: echoes, leftovers, endless replies, and checksum errors.

The ids in brackets are those of docs/behaviours.md (C2).
"""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress

from drivers.commands import LevelStatus, PumpStatus, Status, SwitchStatus
from drivers.conformance.bench import Bench
from drivers.conformance.stage import SETTLE_S, Spoil, Stage, accepted_commands, is_on, on_stage
from drivers.conformance.trying import NotApplicable, expect, near_truth, tried, works_of
from drivers.errors import DeviceError

ENDLESS = 160
CHUNK = 1024
"""Number and size of the pieces of an endless reply."""
MAX_KEPT_BYTES = 65_536
"""Maximum number of bytes of an endless reply that a driver may keep."""
FILLERS = (b"0", b"\x01", b"7,")
ECHO_S = 0.001


async def takes_no_echo_for_a_reply(bench: Bench) -> None:
    """Check that an echoed request is never accepted as a reading, nor an echoed command as done (C2)."""
    commands = await accepted_commands(bench)
    for instead in (True, False):
        async with on_stage(bench) as stage:
            resting = await _resting(stage)
            for name, work in works_of(stage.device, commands):
                await asyncio.sleep(SETTLE_S)
                stage.requests = _echoing(stage, instead)
                value: object = None
                try:
                    value = await work()
                except DeviceError:
                    pass
                except Exception as error:
                    raise AssertionError(
                        f"{name} with its own echo raises {error!r}, which is no DeviceError"
                    ) from error
                else:
                    if value is None and instead and not stage.moved:
                        raise AssertionError(f"{name}: only its own echo came back, and that is taken for done")
                stage.let_all_pass()
                await _judge(
                    stage, name, value, resting, f"with its own echo {'instead of' if instead else 'before'} a reply"
                )
                expect(await stage.recovered(), f"{name} with its own echo: it is not verified again")
                await stage.device.close()
                await asyncio.sleep(SETTLE_S)


async def takes_no_leftover_for_a_reply(bench: Bench) -> None:
    """Check that a repeated reply is not accepted as the answer to the next request (C2)."""
    async with on_stage(bench) as stage:
        for after_s in (0.05, 0.5):
            for point, sensor in stage.device.sensors.items():
                await asyncio.sleep(SETTLE_S)
                kept_replies: list[bytes] = []
                stage.replies = _recording(kept_replies)
                await sensor.read()
                stage.let_all_pass()
                await asyncio.sleep(after_s)
                stage.peer.say(b"".join(kept_replies))
                for other, sense in bench.senses.items():
                    if sense.values:
                        near = [each for each in sense.values if not sense.near(each, stage.far.measured()[other])]
                        stage.far.measure(other, near[0])
                await asyncio.sleep(0.2)
                try:
                    value = await sensor.read()
                except DeviceError:
                    continue
                near_truth(stage, point, value, f"with the reply before come again after {after_s:g} s")
            expect(await stage.recovered(), "a reply that came again: it is not verified again")


async def checks_what_is_sealed(bench: Bench) -> None:
    """Check that no reply with a wrong bit is accepted where replies have a checksum (C2)."""
    if not bench.checksum:
        raise NotApplicable("its replies carry no checksum")
    async with on_stage(bench) as stage:
        resting = await _resting(stage)
        for name, work in works_of(stage.device, []):
            kept_replies: list[bytes] = []
            stage.replies = _recording(kept_replies)
            await asyncio.sleep(SETTLE_S)
            await work()
            longest = max((len(each) for each in kept_replies), default=0)
            for at in range(longest):
                stage.replies = _flipping(at)
                await asyncio.sleep(SETTLE_S)
                value: object = None
                with suppress(DeviceError):
                    value = await work()
                stage.let_all_pass()
                await _judge(stage, name, value, resting, f"with one wrong bit in byte {at} of its replies")
                if not stage.device.conversation.verified:
                    expect(await stage.recovered(), f"{name} with a wrong bit: it is not verified again")


async def keeps_no_endless_reply(bench: Bench) -> None:
    """Check that an endless reply is abandoned, that its memory is bounded, and that the driver recovers (C2)."""
    for filler in FILLERS:
        async with on_stage(bench) as stage:
            for name, work in works_of(stage.device, [])[:2]:
                await asyncio.sleep(SETTLE_S)

                def endless(reply: bytes, filler: bytes = filler) -> Sequence[tuple[float, bytes]]:
                    begin = reply[: len(reply) // 2]
                    return ((0.0, begin), *((1e-4 * n, filler * CHUNK) for n in range(ENDLESS)))

                stage.replies = endless
                if filler == FILLERS[0]:  # tracing the memory is slow
                    tracemalloc.start()
                try:
                    before = tracemalloc.get_traced_memory()[0]
                    told = await tried(work())
                    await asyncio.sleep(SETTLE_S)  # the rest of it has arrived
                    stage.link.capture.forget()
                    kept = tracemalloc.get_traced_memory()[0] - before
                finally:
                    tracemalloc.stop()
                expect(kept <= MAX_KEPT_BYTES, f"{name} ({told}), endless {filler!r}: {kept} bytes are kept")
                stage.let_all_pass()
                expect(await stage.recovered(), f"{name} ({told}), an endless reply of {filler!r}: not verified again")
                expect(
                    stage.said_longest_s < 0.05,
                    f"{name}: a piece of an endless reply keeps the loop for {1000 * stage.said_longest_s:.0f} ms",
                )


async def _resting(stage: Stage) -> dict[str, Status]:
    return {point: await actuator.status() for point, actuator in stage.device.actuators.items()}


async def _judge(stage: Stage, name: str, value: object, resting: dict[str, Status], told: str) -> None:
    """Raise AssertionError if `value` is a wrong reading, or a status of an output that is on while it is at rest."""
    if isinstance(value, float):
        near_truth(stage, name.removeprefix("reading "), value, told)
    if isinstance(value, PumpStatus | SwitchStatus | LevelStatus) and not stage.moved:
        expect(not is_on(value, resting[name.removeprefix("status of ")]), f"{told}, {name} is {value}; it is at rest")


def _echoing(stage: Stage, instead: bool) -> Callable[[bytes], bytes | None]:
    def echo(request: bytes) -> bytes | None:
        asyncio.get_running_loop().call_later(ECHO_S, stage.peer.say, request)
        return None if instead else request

    return echo


def _recording(replies: list[bytes]) -> Spoil:
    def keep(reply: bytes) -> Sequence[tuple[float, bytes]]:
        replies.append(reply)
        return ((0.0, reply),)

    return keep


def _flipping(at: int) -> Spoil:
    """Return a function that flips one bit, another one in each byte."""

    def flip(reply: bytes) -> Sequence[tuple[float, bytes]]:
        place = min(at, len(reply) - 1)
        return ((0.0, reply[:place] + bytes((reply[place] ^ (1 << at % 8),)) + reply[place + 1 :]),)

    return flip
